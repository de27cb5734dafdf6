// The keys come partitioned by the upper bits of their hash, as a radix pass leaves them: a work-group builds the table of
// its partition in LDS, where the same probing costs a fraction, and answers its look-ups from there.
//
// step: hash_table 2 hash_lds_partitions, after hash_linear_probing
// paradigm: per-tile
// bound: gfx90a latency, gfx942 latency
// moves: TCC_ATOMIC down, TCC_MISS down, Duration down
// check: 4096
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

namespace {
constexpr unsigned kSlots = 4096, kEmpty = ~0u;
constexpr int kPerPartition = 2048, kThreads = 256;

__host__ __device__ unsigned mix(unsigned x) {
  x = (x ^ (x >> 15)) * 0x2c1b3c6du;
  x = (x ^ (x >> 12)) * 0x297a2d39u;
  return x ^ (x >> 15);
}

__global__ __launch_bounds__(kThreads) void build_and_probe(const unsigned* keys, const int* starts, unsigned* found) {
  __shared__ unsigned table_keys[kSlots], table_values[kSlots];
  for (unsigned s = threadIdx.x; s < kSlots; s += kThreads) table_keys[s] = kEmpty;
  __syncthreads();
  const int first = starts[blockIdx.x], last = min(starts[blockIdx.x + 1], first + static_cast<int>(kSlots) - 1);
  for (int i = first + threadIdx.x; i < last; i += kThreads) {
    unsigned at = mix(keys[i]) % kSlots;
    while (atomicCAS(&table_keys[at], kEmpty, keys[i]) != kEmpty) at = (at + 1) % kSlots;
    table_values[at] = i;
  }
  __syncthreads();
  for (int i = first + threadIdx.x; i < last; i += kThreads) {
    unsigned at = mix(keys[i]) % kSlots;
    while (table_keys[at] != keys[i]) at = (at + 1) % kSlots;
    found[i] = table_values[at];
  }
}
}  // namespace

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 21;
  const int partitions = (n + kPerPartition - 1) / kPerPartition;
  std::vector<std::vector<unsigned>> lists(partitions);
  for (int i = 0; i < n; ++i) {
    const unsigned key = i * 2654435769u + 12345u;
    lists[(static_cast<unsigned long long>(mix(key)) * partitions) >> 32].push_back(key);
  }
  std::vector<unsigned> keys, found(n);
  std::vector<int> starts{0};
  for (const auto& list : lists) {
    keys.insert(keys.end(), list.begin(), list.end());
    starts.push_back(static_cast<int>(keys.size()));
  }
  unsigned *d_keys = nullptr, *d_found = nullptr;
  int* d_starts = nullptr;
  if (hipMalloc(&d_keys, 4 * n) != hipSuccess || hipMalloc(&d_found, 4 * n) != hipSuccess ||
      hipMalloc(&d_starts, 4 * starts.size()) != hipSuccess) {
    std::cerr << "out of device memory\n";
    return 2;
  }
  (void)hipMemcpy(d_keys, keys.data(), 4 * n, hipMemcpyHostToDevice);
  (void)hipMemcpy(d_starts, starts.data(), 4 * starts.size(), hipMemcpyHostToDevice);
  build_and_probe<<<partitions, kThreads>>>(d_keys, d_starts, d_found);
  (void)hipMemcpy(found.data(), d_found, 4 * n, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += found[i] != static_cast<unsigned>(i);
  std::cout << (wrong ? "FAIL" : "PASS") << ": " << wrong << " wrong\n";
  return wrong ? 1 : 0;
}
