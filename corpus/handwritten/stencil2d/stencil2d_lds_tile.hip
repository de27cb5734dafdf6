// A 64 x 16 tile and its halo in LDS, filled once, so that each point is loaded once from the cache instead of five times.
//
// step: stencil2d 3 stencil2d_lds_tile, after stencil2d_row_lanes
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: TCP_TOTAL_CACHE_ACCESSES down, SQ_INSTS_LDS up
// check: 130
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

enum { W = 64, H = 16, TY = 4 };

__global__ void laplace_tile(const int* u, int* v, int n) {
  __shared__ int tile[H + 2][W + 2];
  const int x0 = blockIdx.x * W, y0 = blockIdx.y * H;  // the halo's corner
  for (int i = threadIdx.y * W + threadIdx.x; i < (H + 2) * (W + 2); i += W * TY) {
    const int y = i / (W + 2), x = i % (W + 2);
    tile[y][x] = x0 + x < n && y0 + y < n ? u[(y0 + y) * n + x0 + x] : 0;
  }
  __syncthreads();
  const int x = threadIdx.x + 1;
  for (int y = threadIdx.y + 1; y <= H; y += TY)
    if (x0 + x < n - 1 && y0 + y < n - 1)
      v[(y0 + y) * n + x0 + x] = tile[y][x - 1] + tile[y][x + 1] + tile[y - 1][x] + tile[y + 1][x] - 4 * tile[y][x];
}

int main(int argc, char** argv) {
  int n = 3072;
  if (argc > 1) n = atoi(argv[1]);
  size_t bytes = sizeof(int) * n * n;
  std::vector<int> u(n * n), v(n * n);
  for (int i = 0; i < n * n; i++) u[i] = (i * 17) % 1000;
  int *du, *dv;
  if (hipMalloc((void**)&du, bytes) != hipSuccess) return 1;
  if (hipMalloc((void**)&dv, bytes) != hipSuccess) return 1;
  if (hipMemcpy(du, u.data(), bytes, hipMemcpyHostToDevice) != hipSuccess) return 1;
  dim3 grid((n - 2 + W - 1) / W, (n - 2 + H - 1) / H);
  laplace_tile<<<grid, dim3(W, TY)>>>(du, dv, n);
  if (hipMemcpy(v.data(), dv, bytes, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  for (int y = 1; y < n - 1; y++) {
    for (int x = 1; x < n - 1; x++) {
      int i = y * n + x;
      if (v[i] != u[i - 1] + u[i + 1] + u[i - n] + u[i + n] - 4 * u[i]) {
        printf("FAIL at %d, %d\n", x, y);
        return 1;
      }
    }
  }
  printf("PASS\n");
  return 0;
}
