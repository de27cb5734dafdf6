// A wavefront per row: lanes read neighbouring elements and add their parts by shuffles at the end.
//
// step: gemv 2 gemv_row_per_wave, after gemv_row_per_thread
// paradigm: per-wave
// bound: gfx90a hbm, gfx942 hbm
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_WAVES up, Duration down
// check: 300 130
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

__global__ void gemv_wave(const float* A, const float* x, float* y, int m, int n) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  if (row >= m) return;
  float part = 0;
  for (int c = threadIdx.x % warpSize; c < n; c += warpSize) part += A[row * n + c] * x[c];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) part += __shfl_down(part, offset);
  if (threadIdx.x % warpSize == 0) y[row] = part;
}

#define ASSERT_HIP(call)                                         \
  do {                                                           \
    const auto code = call;                                      \
    if (code != hipSuccess) {                                    \
      std::cerr << hipGetErrorString(code) << std::endl;         \
      std::exit(1);                                              \
    }                                                            \
  } while (0)

int main(int argc, char** argv) {
  const int m = argc > 1 ? std::atoi(argv[1]) : 16384, n = argc > 2 ? std::atoi(argv[2]) : 1024;
  std::vector<float> A(m * n), x(n), y(m);
  for (int i = 0; i < m * n; ++i) A[i] = 0.01f * (i % 100) - 0.5f;
  for (int c = 0; c < n; ++c) x[c] = c % 2 ? -1.0f : 0.5f;
  float *dA, *dx, *dy;
  ASSERT_HIP(hipMalloc(&dA, m * n * sizeof(float)));
  ASSERT_HIP(hipMalloc(&dx, n * sizeof(float)));
  ASSERT_HIP(hipMalloc(&dy, m * sizeof(float)));
  ASSERT_HIP(hipMemcpy(dA, A.data(), m * n * sizeof(float), hipMemcpyHostToDevice));
  ASSERT_HIP(hipMemcpy(dx, x.data(), n * sizeof(float), hipMemcpyHostToDevice));
  gemv_wave<<<(m + 3) / 4, 256>>>(dA, dx, dy, m, n);
  ASSERT_HIP(hipMemcpy(y.data(), dy, m * sizeof(float), hipMemcpyDeviceToHost));
  double worst = 0;
  for (int r = 0; r < m; ++r) {
    double sum = -y[r];
    for (int c = 0; c < n; ++c) sum += static_cast<double>(A[r * n + c]) * x[c];
    worst = std::max(worst, std::abs(sum));
  }
  std::cout << (worst < 1e-2 ? "PASS" : "FAIL") << " " << worst << std::endl;
  return worst < 1e-2 ? 0 : 1;
}
