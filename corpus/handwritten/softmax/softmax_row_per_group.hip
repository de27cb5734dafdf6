// A work-group per row: lanes read neighbouring elements, and maximum and sum are trees in LDS. The row is still read
// three times, twice of them from cache.
//
// step: softmax 2 softmax_row_per_group, after softmax_row_per_thread
// paradigm: per-tile
// bound: gfx90a valu, gfx942 valu
// moves: TCP_TOTAL_CACHE_ACCESSES down, Duration down
// check: 100 256
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

#define THREADS 256
#define HIPCHECK(cmd)                                                    \
  {                                                                      \
    hipError_t rc = cmd;                                                 \
    if (rc != hipSuccess) {                                              \
      std::cerr << "error: " << hipGetErrorString(rc) << std::endl;      \
      exit(EXIT_FAILURE);                                                \
    }                                                                    \
  }

template <typename Op>
__device__ float tree(float value, float* shared, Op op) {
  shared[threadIdx.x] = value;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] = op(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = shared[0];
  __syncthreads();
  return result;
}

__global__ void softmax_rows(const float* in, float* out, int columns) {
  __shared__ float shared[THREADS];
  const float* x = in + static_cast<size_t>(blockIdx.x) * columns;
  float* y = out + static_cast<size_t>(blockIdx.x) * columns;
  float m = -INFINITY;
  for (int c = threadIdx.x; c < columns; c += THREADS) m = fmaxf(m, x[c]);
  m = tree(m, shared, [](float a, float b) { return fmaxf(a, b); });
  float s = 0;
  for (int c = threadIdx.x; c < columns; c += THREADS) s += __expf(x[c] - m);
  s = tree(s, shared, [](float a, float b) { return a + b; });
  for (int c = threadIdx.x; c < columns; c += THREADS) y[c] = __expf(x[c] - m) / s;
}

int main(int argc, char** argv) {
  const int rows = argc > 1 ? atoi(argv[1]) : 8192, columns = argc > 2 ? atoi(argv[2]) : 1024;
  const size_t bytes = sizeof(float) * rows * columns;
  std::vector<float> x(rows * columns), y(rows * columns);
  for (int i = 0; i < rows * columns; i++) x[i] = (i % 57) * 0.1f - (i / columns % 3);
  float *d_x, *d_y;
  HIPCHECK(hipMalloc(&d_x, bytes));
  HIPCHECK(hipMalloc(&d_y, bytes));
  HIPCHECK(hipMemcpy(d_x, x.data(), bytes, hipMemcpyHostToDevice));
  softmax_rows<<<rows, THREADS>>>(d_x, d_y, columns);
  HIPCHECK(hipGetLastError());
  HIPCHECK(hipMemcpy(y.data(), d_y, bytes, hipMemcpyDeviceToHost));
  bool pass = true;
  for (int r = 0; r < rows && pass; r += 37) {
    double sum = 0, total = 0;
    for (int c = 0; c < columns; c++) sum += exp(x[r * columns + c]);
    for (int c = 0; c < columns; c++) {
      total += y[r * columns + c];
      pass = pass && fabs(y[r * columns + c] - exp(x[r * columns + c]) / sum) < 1e-5;
    }
    pass = pass && fabs(total - 1) < 1e-3;
  }
  std::cout << (pass ? "PASS" : "FAIL") << std::endl;
  HIPCHECK(hipFree(d_x));
  HIPCHECK(hipFree(d_y));
  return pass ? EXIT_SUCCESS : EXIT_FAILURE;
}
