// Pi from random points. The state of each generator lies in memory and is read and written for every point, and every hit
// is an atomic addition.
//
// step: monte_carlo 1 monte_carlo_state_in_memory
// paradigm: per-thread
// bound: gfx90a atomics, gfx942 atomics
// check: 512
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

__host__ __device__ unsigned next(unsigned s) {
  s ^= s << 13;
  s ^= s >> 17;
  return s ^ s << 5;
}
__host__ __device__ bool inside(unsigned a, unsigned b) {
  const float x = (a >> 8) * (1.0f / (1 << 24)), y = (b >> 8) * (1.0f / (1 << 24));
  return x * x + y * y < 1.0f;
}

__global__ void throw_points(volatile unsigned* states, unsigned* hits, int points) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int p = 0; p < points; ++p) {
    const unsigned a = next(states[i]), b = next(a);
    states[i] = b;
    if (inside(a, b)) atomicAdd(&hits[i % 1024], 1u);
  }
}

int main(int argc, char** argv) {
  const int generators = argc > 1 ? std::atoi(argv[1]) : 1 << 19, points = 16;  // a multiple of 256
  std::vector<unsigned> states(generators), counts(1024);
  for (int i = 0; i < generators; ++i) states[i] = (i + 1) * 2654435761u | 1;
  unsigned *ds, *dh;
  if (hipMalloc(&ds, generators * 4) != hipSuccess || hipMalloc(&dh, 4096) != hipSuccess) return 1;
  (void)hipMemcpy(ds, states.data(), generators * 4, hipMemcpyHostToDevice);
  (void)hipMemset(dh, 0, 4096);
  throw_points<<<generators / 256, 256>>>(ds, dh, points);
  (void)hipMemcpy(counts.data(), dh, 4096, hipMemcpyDeviceToHost);
  long long hits = 0, want = 0;
  for (unsigned c : counts) hits += c;
  for (unsigned s : states)
    for (int p = 0; p < points; ++p) {
      const unsigned a = next(s);
      want += inside(a, s = next(a));
    }
  std::printf("%s pi = %.5f\n", hits == want ? "PASS" : "FAIL", 4.0 * hits / points / generators);
  return hits == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
