// Inclusive prefix sum by doubling distances over the whole array: log2(n) launches, each reads and writes all of it.
//
// step: scan 1 scan_global_doubling
// paradigm: multi-pass
// bound: gfx90a hbm, gfx942 dispatch
// check: 5000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

__global__ void add_at_distance(const int* from, int* to, int distance, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i >= distance ? from[i] + from[i - distance] : from[i];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  std::vector<int> values(n), scanned(n);
  for (int i = 0; i < n; ++i) values[i] = i % 5 - 1;
  int *a, *b;
  if (hipMalloc(&a, n * sizeof(int)) != hipSuccess || hipMalloc(&b, n * sizeof(int)) != hipSuccess) return 1;
  (void)hipMemcpy(a, values.data(), n * sizeof(int), hipMemcpyHostToDevice);
  for (int distance = 1; distance < n; distance *= 2) {
    add_at_distance<<<(n + 255) / 256, 256>>>(a, b, distance, n);
    std::swap(a, b);
  }
  (void)hipMemcpy(scanned.data(), a, n * sizeof(int), hipMemcpyDeviceToHost);
  int sum = 0;
  for (int i = 0; i < n; ++i) {
    sum += values[i];
    if (scanned[i] != sum) {
      std::printf("FAIL at %d: %d instead of %d\n", i, scanned[i], sum);
      return EXIT_FAILURE;
    }
  }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
