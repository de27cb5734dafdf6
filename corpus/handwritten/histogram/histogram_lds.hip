// Each work-group counts 4,096 bytes into bins of its own in LDS and merges them with one global atomic per bin.
//
// step: histogram 2 histogram_lds, after histogram_global_atomics
// paradigm: privatised
// bound: gfx90a latency, gfx942 atomics
// moves: TCC_ATOMIC down, Duration down
// check: 20000
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

constexpr unsigned kBins = 256, kPerGroup = 4096;

__global__ void histogram(const unsigned char* in, unsigned* out, unsigned n) {
  __shared__ unsigned mine[kBins];
  mine[threadIdx.x] = 0;
  __syncthreads();
  const unsigned end = min(n, (blockIdx.x + 1) * kPerGroup);
  for (unsigned i = blockIdx.x * kPerGroup + threadIdx.x; i < end; i += blockDim.x) atomicAdd(&mine[in[i]], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], mine[threadIdx.x]);
}

int main(int argc, char** argv) {
  const unsigned n = argc > 1 ? std::atoi(argv[1]) : 1u << 25;
  std::mt19937 random(3);
  std::vector<unsigned char> bytes(n);
  std::vector<unsigned> expected(kBins, 0);
  for (auto& b : bytes) expected[b = random() & 255]++;
  thrust::device_vector<unsigned char> in(bytes);
  thrust::device_vector<unsigned> out(kBins, 0u);
  histogram<<<(n + kPerGroup - 1) / kPerGroup, kBins>>>(in.data().get(), out.data().get(), n);
  if (hipDeviceSynchronize() != hipSuccess) return EXIT_FAILURE;
  for (unsigned b = 0; b < kBins; ++b) {
    if (out[b] != expected[b]) {
      std::cout << "FAIL: bin " << b << ": " << out[b] << " instead of " << expected[b] << "\n";
      return EXIT_FAILURE;
    }
  }
  std::cout << "PASS\n";
  return EXIT_SUCCESS;
}
