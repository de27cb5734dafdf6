// Privatisation: each work-group counts into its own LDS histogram and merges once at the end.
//
// step: privatisation 1 histogram
// paradigm: privatised
// bound: gfx90a latency, gfx942 latency
// check:
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBins = 256;

__global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
  __shared__ unsigned local[kBins];
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < kBins; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

int main() {
  constexpr int n = 1 << 20;
  std::vector<unsigned char> host(n);
  std::vector<unsigned> expected(kBins), counted(kBins);
  unsigned state = 1;
  for (auto& v : host) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<unsigned char>(state >> 24);
    ++expected[v];
  }
  unsigned char* data = nullptr;
  unsigned* bins = nullptr;
  if (hipMalloc(&data, n) != hipSuccess || hipMalloc(&bins, kBins * sizeof(unsigned)) != hipSuccess) return 1;
  (void)hipMemcpy(data, host.data(), n, hipMemcpyHostToDevice);
  (void)hipMemset(bins, 0, kBins * sizeof(unsigned));
  histogram<<<208, 256>>>(data, bins, n);
  (void)hipMemcpy(counted.data(), bins, kBins * sizeof(unsigned), hipMemcpyDeviceToHost);
  const bool same = counted == expected;
  std::printf("%s\n", same ? "counted" : "wrong");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
