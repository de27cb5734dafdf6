// State and hits stay in registers, wavefronts add their hits by shuffles, and one atomic per wavefront remains.
//
// step: monte_carlo 2 monte_carlo_registers, after monte_carlo_state_in_memory
// paradigm: privatised
// bound: gfx90a atomics, gfx942 atomics
// moves: TCC_ATOMIC down, TCC_REQ down, Duration down
// check: 512 64
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

__host__ __device__ inline unsigned xorshift(unsigned& s) {
  s ^= s << 13;
  s ^= s >> 17;
  s ^= s << 5;
  return s;
}
__host__ __device__ inline int hits_of(unsigned seed, int points) {
  int hits = 0;
  for (int p = 0; p < points; ++p) {
    const float x = (xorshift(seed) >> 8) * 0x1p-24f, y = (xorshift(seed) >> 8) * 0x1p-24f;
    hits += x * x + y * y < 1.0f;
  }
  return hits;
}
__host__ __device__ inline unsigned seed_of(int i) { return (i + 1) * 2654435761u | 1u; }

__global__ void pi(unsigned long long* total, int points) {
  int hits = hits_of(seed_of(blockIdx.x * blockDim.x + threadIdx.x), points);
  for (int d = 32; d > 0; d /= 2) hits += __shfl_down(hits, d);
  if (threadIdx.x % 64 == 0) atomicAdd(total, static_cast<unsigned long long>(hits));
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1 << 19, points = argc > 2 ? std::atoi(argv[2]) : 16;
  unsigned long long* total = nullptr;
  if (hipMalloc(&total, sizeof *total) != hipSuccess || hipMemset(total, 0, sizeof *total) != hipSuccess) return 2;
  pi<<<threads / 256, 256>>>(total, points);
  unsigned long long got = 0, want = 0;
  if (hipMemcpy(&got, total, sizeof got, hipMemcpyDeviceToHost) != hipSuccess) return 2;
  for (int i = 0; i < threads; ++i) want += hits_of(seed_of(i), points);
  std::cout << (got == want ? "PASS " : "FAIL ") << 4.0 * got / (static_cast<double>(threads) * points) << '\n';
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
