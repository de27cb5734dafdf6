// A five-point stencil over halves in tiles of 32 x 32 without LDS, work-groups numbered down the columns first: a tile
// is half a line wide, so every line, and every row above and below a tile, is shared with a neighbour.
//
// step: half_stencil 1 half_stencil
// paradigm: per-tile
// bound: gfx90a valu, gfx942 valu
// check: 128
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kTile = 32, kRows = 8;

__device__ float at(const _Float16* in, int n, int row, int column) {
  return row >= 0 && row < n && column >= 0 && column < n ? (float)in[(size_t)row * n + column] : 0.f;
}

__global__ void stencil(const _Float16* in, _Float16* out, int n) {
  const int column = blockIdx.y * kTile + threadIdx.x;
  for (int r = threadIdx.y; r < kTile; r += kRows) {
    const int row = blockIdx.x * kTile + r;
    const float around =
        at(in, n, row - 1, column) + at(in, n, row + 1, column) + at(in, n, row, column - 1) + at(in, n, row, column + 1);
    out[(size_t)row * n + column] = (_Float16)(0.5f * at(in, n, row, column) + 0.125f * around);
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;  // a multiple of 32
  std::vector<_Float16> host((size_t)n * n), back(host.size());
  for (size_t i = 0; i < host.size(); ++i) host[i] = (_Float16)(float)(i % 31);
  _Float16 *in, *out;
  const size_t bytes = host.size() * sizeof(_Float16);
  if (hipMalloc(&in, bytes) != hipSuccess || hipMalloc(&out, bytes) != hipSuccess) return 1;
  (void)hipMemcpy(in, host.data(), bytes, hipMemcpyHostToDevice);
  stencil<<<dim3(n / kTile, n / kTile), dim3(kTile, kRows)>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, bytes, hipMemcpyDeviceToHost);
  for (int y = 1; y < n - 1; y += 5) {
    for (int x = 1; x < n - 1; ++x) {
      const size_t i = (size_t)y * n + x;
      const float around = (float)host[i - n] + (float)host[i + n] + (float)host[i - 1] + (float)host[i + 1];
      const float expected = 0.5f * (float)host[i] + 0.125f * around;
      if (std::fabs((float)back[i] - expected) > 0.02f) return std::printf("FAIL at %d %d\n", y, x), 1;
    }
  }
  std::printf("PASS\n");
  return 0;
}
