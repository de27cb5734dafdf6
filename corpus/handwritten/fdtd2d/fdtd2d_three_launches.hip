// Electromagnetic waves on a plane, three launches per time step as in the textbook: Ey, Ex, then Hz.
//
// step: fdtd2d 1 fdtd2d_three_launches
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 infinity
// check: 96 3
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define HERE                                                                                        \
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;   \
  if (x >= n || y >= n) return;                                                                     \
  const int i = y * n + x

__global__ void update_ey(float* ey, const float* hz, int n, float source) {
  HERE;
  ey[i] = y == 0 ? source : ey[i] - 0.5f * (hz[i] - hz[i - n]);
}
__global__ void update_ex(float* ex, const float* hz, int n) {
  HERE;
  if (x > 0) ex[i] -= 0.5f * (hz[i] - hz[i - 1]);
}
__global__ void update_hz(float* hz, const float* ex, const float* ey, int n) {
  HERE;
  if (x < n - 1 && y < n - 1) hz[i] -= 0.7f * (ex[i + 1] - ex[i] + ey[i + n] - ey[i]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048, steps = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::size_t count = static_cast<std::size_t>(n) * n, bytes = count * sizeof(float);
  std::vector<float> ex(count), ey(count), hz(count), got(count);
  for (std::size_t i = 0; i < count; ++i) ex[i] = i % 7 * 0.1f, ey[i] = i % 5 * 0.2f, hz[i] = i % 3 * 0.3f;
  float *dx, *dy, *dz;
  if (hipMalloc(&dx, bytes) != hipSuccess || hipMalloc(&dy, bytes) != hipSuccess || hipMalloc(&dz, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(dx, ex.data(), bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(dy, ey.data(), bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(dz, hz.data(), bytes, hipMemcpyHostToDevice);
  const dim3 block(32, 8), grid((n + 31) / 32, (n + 7) / 8);
  for (int t = 0; t < steps; ++t) {
    update_ey<<<grid, block>>>(dy, dz, n, static_cast<float>(t));
    update_ex<<<grid, block>>>(dx, dz, n);
    update_hz<<<grid, block>>>(dz, dx, dy, n);
  }
  (void)hipMemcpy(got.data(), dz, bytes, hipMemcpyDeviceToHost);
  for (int t = 0; t < steps; ++t) {
    for (int i = 0; i < n * n; ++i) ey[i] = i < n ? t : ey[i] - 0.5f * (hz[i] - hz[i - n]);
    for (int i = 0; i < n * n; ++i)
      if (i % n) ex[i] -= 0.5f * (hz[i] - hz[i - 1]);
    for (int i = 0; i < n * (n - 1); ++i)
      if (i % n < n - 1) hz[i] -= 0.7f * (ex[i + 1] - ex[i] + ey[i + n] - ey[i]);
  }
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) worst = std::fmax(worst, std::fabs(hz[i] - got[i]));
  std::printf("%s, largest error %g\n", worst < 1e-3 ? "PASS" : "FAIL", worst);
  return worst < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
