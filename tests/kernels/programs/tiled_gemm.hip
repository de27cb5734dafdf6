// C = A B with LDS tiles of compile-time size, for two element types and two tile sizes.
#include "check.h"

#include <cmath>
#include <vector>

template <typename T, int kTile>
__global__ void gemm(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int n) {
  __shared__ T left[kTile][kTile + 1], right[kTile][kTile + 1];
  int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  T sum = 0;
  for (int tile = 0; tile < n; tile += kTile) {
    left[threadIdx.y][threadIdx.x] = row < n && tile + threadIdx.x < n ? a[row * n + tile + threadIdx.x] : T(0);
    right[threadIdx.y][threadIdx.x] = column < n && tile + threadIdx.y < n ? b[(tile + threadIdx.y) * n + column] : T(0);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && column < n) c[row * n + column] = sum;
}

template <typename T, int kTile>
void check(int n) {
  std::vector<T> a(n * n), b(n * n), c(n * n);
  for (int i = 0; i < n * n; ++i) a[i] = T(i % 13) / 8, b[i] = T(i % 7) - 3;
  T* d[3];
  size_t bytes = a.size() * sizeof(T);
  for (T*& p : d) OK(hipMalloc(&p, bytes));
  OK(hipMemcpy(d[0], a.data(), bytes, hipMemcpyHostToDevice));
  OK(hipMemcpy(d[1], b.data(), bytes, hipMemcpyHostToDevice));
  unsigned tiles = (n + kTile - 1) / kTile;
  hipLaunchKernelGGL((gemm<T, kTile>), dim3(tiles, tiles), dim3(kTile, kTile), 0, 0, d[0], d[1], d[2], n);
  OK(hipGetLastError());
  OK(hipMemcpy(c.data(), d[2], bytes, hipMemcpyDeviceToHost));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int k = 0; k < n; ++k) sum += a[i * n + k] * b[k * n + j];
      CHECK(c[i * n + j] == sum);  // every product and sum is a multiple of 1/8: exact in any order
    }
  for (T* p : d) OK(hipFree(p));
}

int main() {
  check<float, 16>(50);
  check<double, 8>(33);
  std::printf("tiled gemm ok\n");
}
