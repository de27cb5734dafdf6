// y = relu(a x + b) ^ 2 as a framework runs it that does not fuse: scale, add, relu, square, each a launch over all
// elements.
//
// step: elementwise 1 elementwise_four_launches
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 infinity
// check: 10000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void scale(float* y, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i];
}
__global__ void add(float* y, const float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += b[i];
}
__global__ void relu(float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = y[i] > 0 ? y[i] : 0;
}
__global__ void square(float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] *= y[i];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 24, block = 256, grid = (n + block - 1) / block;
  std::vector<float> x(n), b(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = i % 9 - 4, b[i] = i % 5;
  float *dx, *db, *dy;
  for (float** p : {&dx, &db, &dy})
    if (hipMalloc(p, n * sizeof(float)) != hipSuccess) return 1;
  (void)hipMemcpy(dx, x.data(), n * sizeof(float), hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b.data(), n * sizeof(float), hipMemcpyHostToDevice);
  scale<<<grid, block>>>(dy, dx, 1.5f, n);
  add<<<grid, block>>>(dy, db, n);
  relu<<<grid, block>>>(dy, n);
  square<<<grid, block>>>(dy, n);
  (void)hipMemcpy(y.data(), dy, n * sizeof(float), hipMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    const float t = 1.5f * x[i] + b[i], want = t > 0 ? t * t : 0;
    if (y[i] != want) return std::printf("FAIL at %d\n", i), EXIT_FAILURE;
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
