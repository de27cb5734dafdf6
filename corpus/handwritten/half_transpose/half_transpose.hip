// Transposition of halves in tiles of 32 x 32, work-groups numbered down the columns first: half a line of each row is
// read, half a line of each row is written, and the other halves belong to neighbours that run on other chiplets.
//
// step: half_transpose 1 half_transpose
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// check: 128
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 32, kRows = 8;

__global__ void transpose(const _Float16* in, _Float16* out, int n) {
  __shared__ _Float16 tile[kTile][kTile + 2];
  const int row = blockIdx.x * kTile, column = blockIdx.y * kTile;
  for (int r = threadIdx.y; r < kTile; r += kRows)
    tile[r][threadIdx.x] = in[(size_t)(row + r) * n + column + threadIdx.x];
  __syncthreads();
  for (int r = threadIdx.y; r < kTile; r += kRows)
    out[(size_t)(column + r) * n + row + threadIdx.x] = tile[threadIdx.x][r];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;  // a multiple of 32
  std::vector<_Float16> host((size_t)n * n), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = (_Float16)(int)(i % 2039);
  _Float16 *in, *out;
  const size_t bytes = host.size() * sizeof(_Float16);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(in, host.data(), bytes, hipMemcpyHostToDevice);
  transpose<<<dim3(n / kTile, n / kTile), dim3(kTile, kRows)>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, bytes, hipMemcpyDeviceToHost);
  for (int y = 0; y < n; y += 7)
    for (int x = 0; x < n; ++x)
      if (back[(size_t)x * n + y] != host[(size_t)y * n + x]) return std::printf("FAIL at %d %d\n", x, y), 1;
  std::printf("PASS\n");
  return 0;
}
