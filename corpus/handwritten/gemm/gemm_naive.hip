// C = A B, one work-item per element of C. Neighbouring lanes read neighbouring elements of B and share one of A, so the
// caches serve two loads for every multiply-add.
//
// step: gemm 1 gemm_naive
// paradigm: per-thread
// bound: gfx90a valu, gfx942 vl1d
// check: 96 40
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

__global__ void sgemm(int m, int n, int k, const float* A, const float* B, float* C) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < m && col < n) {
    float acc = 0.f;
    for (int p = 0; p < k; ++p) acc += A[row * k + p] * B[p * n + col];
    C[row * n + col] = acc;
  }
}

int main(int argc, char** argv) {
  const int m = argc > 1 ? atoi(argv[1]) : 2048, n = m, k = argc > 2 ? atoi(argv[2]) : 256;
  std::vector<float> hA(m * k), hB(k * n);
  for (int i = 0; i < m * k; ++i) hA[i] = 0.5f * (i % 9);
  for (int i = 0; i < k * n; ++i) hB[i] = 0.25f * (i % 7) - 0.75f;
  thrust::device_vector<float> A(hA), B(hB), C(m * n);
  dim3 block(16, 16), grid((n + block.x - 1) / block.x, (m + block.y - 1) / block.y);
  sgemm<<<grid, block>>>(m, n, k, A.data().get(), B.data().get(), C.data().get());
  std::vector<float> hC(m * n);
  thrust::copy(C.begin(), C.end(), hC.begin());

  bool ok = true;
  for (int row = 0; row < m; row += 1 + m / 23) {
    for (int col = 0; col < n; col += 1 + n / 29) {
      double want = 0;
      for (int p = 0; p < k; ++p) want += hA[row * k + p] * hB[p * n + col];
      ok = ok && std::abs(want - hC[row * n + col]) < 1e-2 + 1e-4 * std::abs(want);
    }
  }
  std::cout << (ok ? "PASS" : "FAIL") << std::endl;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
