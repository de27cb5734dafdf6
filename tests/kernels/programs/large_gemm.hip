// A product of 2048 x 2048 matrices in tiles of 16 x 16: far more long work-groups than the machine holds.
#include <hip/hip_runtime.h>

#include <cstdio>

#include "check.h"

constexpr int kTile = 16, kRows = 2048;

__global__ void large_gemm(const float* a, const float* b, float* c) {
  __shared__ float as[kTile][kTile], bs[kTile][kTile];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * kTile + y, col = blockIdx.x * kTile + x;
  float sum = 0;
  for (int k = 0; k < kRows; k += kTile) {
    as[y][x] = a[row * kRows + k + x];
    bs[y][x] = b[(k + y) * kRows + col];
    __syncthreads();
    for (int i = 0; i < kTile; ++i) sum += as[y][i] * bs[i][x];
    __syncthreads();
  }
  c[row * kRows + col] = sum;
}

int main() {
  float* matrices[3];
  for (float*& matrix : matrices) OK(hipMalloc(&matrix, sizeof(float) * kRows * kRows));
  large_gemm<<<dim3(kRows / kTile, kRows / kTile), dim3(kTile, kTile)>>>(matrices[0], matrices[1], matrices[2]);
  OK(hipDeviceSynchronize());
  std::puts("done");
}
