// A ballot counts the lanes that keep their element, one lane takes places for all of them, and each adds its rank: an
// atomic per wavefront.
//
// step: compaction 2 compaction_wave, after compaction_atomics
// paradigm: per-wave
// bound: gfx90a atomics, gfx942 atomics
// moves: Duration down, TCC_REQ down
// check: 5000
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <vector>

struct DivisibleByThree {
  __host__ __device__ bool operator()(int v) const { return v % 3 == 0; }
};

template <typename Predicate>
__global__ void compact(const int* in, int* out, int* count, int n, Predicate wanted) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 64;
  const int value = i < n ? in[i] : 0;
  const bool mine = i < n && wanted(value);
  const unsigned long long keepers = __ballot(mine);
  int base = 0;
  if (lane == 0 && keepers) base = atomicAdd(count, __popcll(keepers));
  base = __builtin_amdgcn_readfirstlane(base);
  if (mine) out[base + __popcll(keepers & ((1ull << lane) - 1))] = value;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  std::vector<int> values(n), want;
  for (int i = 0; i < n; ++i) values[i] = (i * 11) % 8191;
  std::copy_if(values.begin(), values.end(), std::back_inserter(want), DivisibleByThree());
  thrust::device_vector<int> in(values), out(n), count(1, 0);
  compact<<<(n + 255) / 256, 256>>>(in.data().get(), out.data().get(), count.data().get(), n, DivisibleByThree());
  const int kept = count[0];
  if (kept != static_cast<int>(want.size())) {
    std::cout << "FAIL: kept " << kept << " instead of " << want.size() << "\n";
    return EXIT_FAILURE;
  }
  std::vector<int> got(kept);
  thrust::copy(out.begin(), out.begin() + kept, got.begin());
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  std::cout << (got == want ? "PASS" : "FAIL") << "\n";
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
