// Two million keys go into a table of four million slots by compare-and-swap with linear probing, then every key looks up
// its value: scattered atomics and scattered reads all over memory.
//
// step: hash_table 1 hash_linear_probing
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// check: 4096
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

struct Slot {
  unsigned key, value;  // key 0 is empty
};

__host__ __device__ unsigned hash(unsigned k) {
  k ^= k >> 16;
  k *= 0x85ebca6bu;
  k ^= k >> 13;
  return k * 0xc2b2ae35u;
}

__global__ void insert(Slot* table, unsigned mask, const unsigned* keys, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned key = keys[i];
  for (unsigned at = hash(key) & mask;; at = (at + 1) & mask) {
    const unsigned old = atomicCAS(&table[at].key, 0u, key);
    if (old == 0 || old == key) {
      table[at].value = i;
      return;
    }
  }
}

__global__ void look_up(const Slot* table, unsigned mask, const unsigned* keys, unsigned* found, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned at = hash(keys[i]) & mask;
  for (unsigned probes = 0; probes <= mask && table[at].key != keys[i]; ++probes) at = (at + 1) & mask;
  found[i] = table[at].value;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 21;  // a power of two
  const unsigned slots = 2u * n;
  std::vector<unsigned> keys(n), found(n);
  for (int i = 0; i < n; ++i) keys[i] = (i + 1) * 2654435769u | 1u << 31;  // different as n < 2^31
  Slot* table;
  unsigned *dk, *df;
  if (hipMalloc(&table, slots * sizeof(Slot)) != hipSuccess) return 1;
  if (hipMalloc(&dk, n * 4) != hipSuccess || hipMalloc(&df, n * 4) != hipSuccess) return 1;
  (void)hipMemset(table, 0, slots * sizeof(Slot));
  (void)hipMemcpy(dk, keys.data(), n * 4, hipMemcpyHostToDevice);
  insert<<<(n + 255) / 256, 256>>>(table, slots - 1, dk, n);
  look_up<<<(n + 255) / 256, 256>>>(table, slots - 1, dk, df, n);
  (void)hipMemcpy(found.data(), df, n * 4, hipMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < n; ++i) wrong += found[i] >= static_cast<unsigned>(n) || keys[found[i]] != keys[i];
  std::printf("%s (%d of %d wrong)\n", wrong ? "FAIL" : "PASS", wrong, n);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
