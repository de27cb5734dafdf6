// 256 bins in global memory, one atomic per input byte: all work-groups meet on 16 cache lines.
//
// step: histogram 1 histogram_global_atomics
// paradigm: per-thread
// bound: gfx90a atomics, gfx942 atomics
// check: 20000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void count(const unsigned char* data, unsigned* bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&bins[data[i]], 1u);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 25;
  std::vector<unsigned char> data(n);
  std::vector<unsigned> want(256), got(256);
  unsigned x = 1;
  for (auto& v : data) ++want[v = (x = x * 1664525u + 1013904223u) >> 24];
  unsigned char* d;
  unsigned* bins;
  if (hipMalloc(&d, n) != hipSuccess || hipMalloc(&bins, 1024) != hipSuccess) return 1;
  (void)hipMemcpy(d, data.data(), n, hipMemcpyHostToDevice);
  (void)hipMemset(bins, 0, 1024);
  count<<<(n + 255) / 256, 256>>>(d, bins, n);
  (void)hipMemcpy(got.data(), bins, 1024, hipMemcpyDeviceToHost);
  std::printf("%s\n", got == want ? "PASS" : "FAIL");
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
