// Bitonic sorting network in global memory: one launch per stage, log2(n) (log2(n) + 1) / 2 of them, each reads and
// writes everything.
//
// step: sort 1 sort_bitonic_global
// paradigm: multi-pass
// bound: gfx90a launch, gfx942 launch
// check: 4096
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void compare_exchange(unsigned* keys, int distance, int size) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const int i = 2 * t - (t & (distance - 1)), j = i + distance;
  const unsigned a = keys[i], b = keys[j];
  const bool ascending = (i & size) == 0;
  if ((a > b) == ascending) {
    keys[i] = b;
    keys[j] = a;
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 19;  // a power of two, at least 512
  std::vector<unsigned> keys(n), sorted(n);
  unsigned x = 2463534242u;
  for (auto& k : keys) k = x = x * 1103515245u + 12345u;
  unsigned* d;
  if (hipMalloc(&d, n * sizeof(unsigned)) != hipSuccess) return 1;
  (void)hipMemcpy(d, keys.data(), n * sizeof(unsigned), hipMemcpyHostToDevice);
  for (int size = 2; size <= n; size *= 2)
    for (int distance = size / 2; distance > 0; distance /= 2) compare_exchange<<<n / 512, 256>>>(d, distance, size);
  (void)hipMemcpy(sorted.data(), d, n * sizeof(unsigned), hipMemcpyDeviceToHost);
  std::sort(keys.begin(), keys.end());
  std::printf("%s\n", sorted == keys ? "PASS" : "FAIL");
  return sorted == keys ? EXIT_SUCCESS : EXIT_FAILURE;
}
