// Histogram by LDS and global atomics, atomicMax, atomicCAS and a floating-point atomicAdd.
#include "check.h"

__global__ void histogram(const unsigned* data, int n, unsigned* bins, int* largest, float* sum, unsigned* locked) {
  __shared__ unsigned local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&local[data[i] & 15], 1u);
    atomicMax(largest, (int)data[i]);
    atomicAdd(sum, 0.5f);
    unsigned seen = *locked, expected;
    do {
      expected = seen;
      seen = atomicCAS(locked, expected, expected + 3);
    } while (seen != expected);
  }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

int main() {
  const int n = 2000;
  static unsigned data[n];
  unsigned bins[16], expected[16] = {}, locked;
  int largest, top = 0;
  float sum;
  for (int i = 0; i < n; ++i) {
    data[i] = (i * 2654435761u) >> 20;
    ++expected[data[i] & 15];
    top = (int)data[i] > top ? (int)data[i] : top;
  }
  unsigned *ddata, *dbins, *dlocked;
  int* dlargest;
  float* dsum;
  OK(hipMalloc(&ddata, sizeof data));
  OK(hipMalloc(&dbins, sizeof bins));
  OK(hipMalloc(&dlargest, 4));
  OK(hipMalloc(&dsum, 4));
  OK(hipMalloc(&dlocked, 4));
  OK(hipMemset(dbins, 0, sizeof bins));
  OK(hipMemset(dlargest, 0, 4));
  OK(hipMemset(dsum, 0, 4));
  OK(hipMemset(dlocked, 0, 4));
  OK(hipMemcpy(ddata, data, sizeof data, hipMemcpyHostToDevice));
  histogram<<<8, 256>>>(ddata, n, dbins, dlargest, dsum, dlocked);
  OK(hipMemcpy(bins, dbins, sizeof bins, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&largest, dlargest, 4, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&sum, dsum, 4, hipMemcpyDeviceToHost));
  OK(hipMemcpy(&locked, dlocked, 4, hipMemcpyDeviceToHost));
  for (int b = 0; b < 16; ++b) CHECK(bins[b] == expected[b]);
  CHECK(largest == top && sum == n * 0.5f && locked == 3u * n);
  std::printf("atomics ok\n");
  return 0;
}
