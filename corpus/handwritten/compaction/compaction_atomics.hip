// Keeps the elements that pass a test: every one of them takes its place in the result by an atomic of its own.
//
// step: compaction 1 compaction_atomics
// paradigm: per-thread
// bound: gfx90a atomics, gfx942 atomics
// check: 5000
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void keep(const int* in, int* out, int* counts, int lists, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] % 3 == 0) {
    const int list = i % lists;  // one list here, but the compiler cannot know and merge the atomics of a wavefront
    out[list * n + atomicAdd(&counts[list], 1)] = in[i];
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  std::vector<int> in(n), want;
  for (int i = 0; i < n; ++i) in[i] = i * 5 % 4099;
  for (int v : in)
    if (v % 3 == 0) want.push_back(v);
  int *d_in, *d_out, *d_count, count = 0;
  if (hipMalloc(&d_in, n * 4) != hipSuccess || hipMalloc(&d_out, n * 4) != hipSuccess || hipMalloc(&d_count, 4) != hipSuccess)
    return 1;
  (void)hipMemcpy(d_in, in.data(), n * 4, hipMemcpyHostToDevice);
  (void)hipMemset(d_count, 0, 4);
  keep<<<(n + 255) / 256, 256>>>(d_in, d_out, d_count, 1, n);
  (void)hipMemcpy(&count, d_count, 4, hipMemcpyDeviceToHost);
  std::vector<int> got(std::clamp(count, 0, n));
  (void)hipMemcpy(got.data(), d_out, got.size() * 4, hipMemcpyDeviceToHost);
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  std::printf("%s: %d of %d kept\n", got == want ? "PASS" : "FAIL", count, n);
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
