// Least significant digit first, four bits a pass: count digits per tile, scan the counts, scatter. Eight passes move
// each key eight times, whatever n is.
//
// step: sort 3 sort_radix, after sort_bitonic_lds
// paradigm: multi-pass
// bound: gfx90a l2, gfx942 latency
// moves: SQ_INSTS down, Duration down
// check: 10000
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 1024, kThreads = 256, kDigits = 16;

__global__ void count_digits(const unsigned* keys, int* counts, int n, int shift, int tiles) {
  __shared__ int local[kDigits];
  if (threadIdx.x < kDigits) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * kTile + threadIdx.x; i < min(n, (blockIdx.x + 1) * kTile); i += kThreads)
    atomicAdd(&local[keys[i] >> shift & 15], 1);
  __syncthreads();
  if (threadIdx.x < kDigits) counts[threadIdx.x * tiles + blockIdx.x] = local[threadIdx.x];
}

// Exclusive scan of all counts by one work-group, 1,024 at a time.
__global__ __launch_bounds__(1024) void scan_counts(int* counts, int count) {
  __shared__ int sums[16];
  int carry = 0;
  for (int base = 0; base < count; base += 1024) {
    const int i = base + threadIdx.x, mine = i < count ? counts[i] : 0;
    int sum = mine;
    for (int d = 1; d < 64; d *= 2) {
      const int below = __shfl_up(sum, d);
      if (threadIdx.x % 64 >= d) sum += below;
    }
    if (threadIdx.x % 64 == 63) sums[threadIdx.x / 64] = sum;
    __syncthreads();
    int total = 0;
    for (int w = 0; w < 16; ++w) {
      if (w < threadIdx.x / 64) sum += sums[w];
      total += sums[w];
    }
    if (i < count) counts[i] = carry + sum - mine;
    carry += total;
    __syncthreads();
  }
}

// One wavefront per tile keeps the order of equal digits: a lane's rank is the number of lower lanes with its digit.
__global__ __launch_bounds__(64) void scatter(const unsigned* from, unsigned* to, const int* starts, int n, int shift,
                                              int tiles) {
  __shared__ int next[kDigits];
  if (threadIdx.x < kDigits) next[threadIdx.x] = starts[threadIdx.x * tiles + blockIdx.x];
  __syncthreads();
  for (int base = blockIdx.x * kTile; base < min(n, (blockIdx.x + 1) * kTile); base += 64) {
    const int i = base + threadIdx.x;
    const bool valid = i < n;
    const unsigned key = valid ? from[i] : 0, digit = key >> shift & 15;
    unsigned long long same = __ballot(valid);
    for (int bit = 0; bit < 4; ++bit) {
      const unsigned long long set = __ballot(digit >> bit & 1);
      same &= digit >> bit & 1 ? set : ~set;
    }
    const int rank = __popcll(same & ((1ull << threadIdx.x) - 1));
    const int at = next[digit] + rank;
    __syncthreads();
    if (valid && rank == 0) next[digit] += __popcll(same);
    __syncthreads();
    if (valid) to[at < n ? at : 0] = key;
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 19, tiles = (n + kTile - 1) / kTile;
  std::vector<unsigned> keys(n), sorted(n);
  for (int i = 0; i < n; ++i) keys[i] = i * 2654435761u ^ i >> 3;
  unsigned *a, *b;
  int* counts;
  if (hipMalloc(&a, 4 * n) || hipMalloc(&b, 4 * n) || hipMalloc(&counts, 4 * kDigits * tiles)) return 2;
  (void)hipMemcpy(a, keys.data(), 4 * n, hipMemcpyHostToDevice);
  for (int shift = 0; shift < 32; shift += 4, std::swap(a, b)) {
    count_digits<<<tiles, kThreads>>>(a, counts, n, shift, tiles);
    scan_counts<<<1, 1024>>>(counts, kDigits * tiles);
    scatter<<<tiles, 64>>>(a, b, counts, n, shift, tiles);
  }
  (void)hipMemcpy(sorted.data(), a, 4 * n, hipMemcpyDeviceToHost);
  std::sort(keys.begin(), keys.end());
  std::puts(sorted == keys ? "PASS" : "FAIL");
  return sorted == keys ? 0 : 1;
}
