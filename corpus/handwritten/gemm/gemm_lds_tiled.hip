// Each work-group stages 16 x 16 tiles of A and B in LDS, so that each element is loaded once per tile instead of once
// per work-item. Two LDS reads per multiply-add remain.
//
// step: gemm 2 gemm_lds_tiled, after gemm_naive
// paradigm: per-tile
// bound: gfx90a lds, gfx942 lds
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_INSTS_LDS up
// check: 96 48
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define TILE 16
#define CHECK(expr)                                                           \
  do {                                                                        \
    hipError_t status = (expr);                                               \
    if (status != hipSuccess) {                                               \
      fprintf(stderr, "%s failed: %s\n", #expr, hipGetErrorString(status));   \
      exit(EXIT_FAILURE);                                                     \
    }                                                                         \
  } while (0)

__global__ void matmul_tiled(const float* A, const float* B, float* C, int N, int K) {
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (int t = 0; t < K; t += TILE) {
    As[ty][tx] = A[row * K + t + tx];
    Bs[ty][tx] = B[(t + ty) * N + col];
    __syncthreads();
    for (int k = 0; k < TILE; k++) sum += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  C[row * N + col] = sum;
}

int main(int argc, char** argv) {
  const int N = argc > 1 ? atoi(argv[1]) : 2048;  // multiples of TILE
  const int K = argc > 2 ? atoi(argv[2]) : 256;
  size_t size = (size_t)N * N * sizeof(float), flat = (size_t)N * K * sizeof(float);
  std::vector<float> A(N * K), B(N * K), C(N * N);
  for (int i = 0; i < N * K; i++) A[i] = (i % 31) * 0.125f, B[i] = (i % 19) * 0.0625f;
  float *d_A, *d_B, *d_C;
  CHECK(hipMalloc((void**)&d_A, flat));
  CHECK(hipMalloc((void**)&d_B, flat));
  CHECK(hipMalloc((void**)&d_C, size));
  CHECK(hipMemcpy(d_A, A.data(), flat, hipMemcpyHostToDevice));
  CHECK(hipMemcpy(d_B, B.data(), flat, hipMemcpyHostToDevice));
  hipLaunchKernelGGL(matmul_tiled, dim3(N / TILE, N / TILE), dim3(TILE, TILE), 0, 0, d_A, d_B, d_C, N, K);
  CHECK(hipGetLastError());
  CHECK(hipMemcpy(C.data(), d_C, size, hipMemcpyDeviceToHost));
  double worst = 0;
  for (int s = 0; s < 500; s++) {
    int r = (s * 31) % N, c = (s * 57) % N;
    double sum = 0;
    for (int k = 0; k < K; k++) sum += (double)A[r * K + k] * B[k * N + c];
    worst = std::fmax(worst, std::fabs(sum - C[r * N + c]) / sum);
  }
  printf("%s, largest relative error %.2e\n", worst < 1e-4 ? "PASS" : "FAIL", worst);
  CHECK(hipFree(d_A));
  CHECK(hipFree(d_B));
  CHECK(hipFree(d_C));
  return worst < 1e-4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
