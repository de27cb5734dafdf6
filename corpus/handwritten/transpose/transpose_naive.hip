// Out-of-place transposition of a square matrix: lanes read a row and write a column, so each store of a wavefront
// touches 64 lines.
//
// step: transpose 1 transpose_naive
// paradigm: per-thread
// bound: gfx90a l2, gfx942 l2
// check: 100
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void transpose(const float* in, float* out, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < n && y < n) out[(size_t)x * n + y] = in[(size_t)y * n + x];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<float> host((size_t)n * n), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = (float)(i % 9973);
  float *in, *out;
  const size_t bytes = host.size() * sizeof(float);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(in, host.data(), bytes, hipMemcpyHostToDevice);
  transpose<<<dim3((n + 63) / 64, (n + 3) / 4), dim3(64, 4)>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, bytes, hipMemcpyDeviceToHost);
  for (int y = 0; y < n; y += 7)
    for (int x = 0; x < n; ++x)
      if (back[(size_t)x * n + y] != host[(size_t)y * n + x]) return std::printf("FAIL at %d %d\n", x, y), 1;
  std::printf("PASS\n");
  return 0;
}
