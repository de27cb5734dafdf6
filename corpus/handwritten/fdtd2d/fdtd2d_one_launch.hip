// A whole time step in one launch: a work-group updates Ex and Ey of its tile and of one row and column beyond it in LDS,
// computes Hz from there, and writes all three. Neighbours compute the seam twice, and fields need two copies.
//
// step: fdtd2d 3 fdtd2d_one_launch, after fdtd2d_two_launches
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: FETCH_SIZE down, SQ_INSTS_LDS up
// check: 96 3
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int W = 64, H = 8;

struct Fields {
  float *ex, *ey, *hz;
};

__global__ __launch_bounds__(256) void time_step(Fields in, Fields out, int n, float source) {
  __shared__ float ex[H + 1][W + 1], ey[H + 1][W + 1], hz[H + 1][W + 1];
  const int x0 = blockIdx.x * W, y0 = blockIdx.y * H;
  for (int k = threadIdx.x; k < (H + 1) * (W + 1); k += 256) {
    const int ty = k / (W + 1), tx = k % (W + 1), y = y0 + ty, x = x0 + tx, i = y * n + x;
    if (x >= n || y >= n) continue;
    const float h = in.hz[i];
    hz[ty][tx] = h;
    ey[ty][tx] = y == 0 ? source : in.ey[i] - 0.5f * (h - in.hz[i - n]);
    ex[ty][tx] = x == 0 ? in.ex[i] : in.ex[i] - 0.5f * (h - in.hz[i - 1]);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < H * W; k += 256) {
    const int ty = k / W, tx = k % W, y = y0 + ty, x = x0 + tx, i = y * n + x;
    if (x >= n || y >= n) continue;
    out.ex[i] = ex[ty][tx];
    out.ey[i] = ey[ty][tx];
    const bool edge = x == n - 1 || y == n - 1;
    const float curl = edge ? 0 : ex[ty][tx + 1] - ex[ty][tx] + ey[ty + 1][tx] - ey[ty][tx];
    out.hz[i] = hz[ty][tx] - 0.7f * curl;
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 2048, steps = argc > 2 ? std::atoi(argv[2]) : 3;
  const std::size_t count = static_cast<std::size_t>(n) * n, bytes = count * sizeof(float);
  std::vector<float> x(count), y(count), z(count), got(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = (i % 9) / 9.f, y[i] = (i % 8) / 8.f, z[i] = (i % 11) / 11.f;
  Fields a, b;
  for (float** p : {&a.ex, &a.ey, &a.hz, &b.ex, &b.ey, &b.hz})
    if (hipMalloc(p, bytes) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(a.ex, x.data(), bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(a.ey, y.data(), bytes, hipMemcpyHostToDevice);
  (void)hipMemcpy(a.hz, z.data(), bytes, hipMemcpyHostToDevice);
  for (int t = 0; t < steps; ++t, std::swap(a, b))
    time_step<<<dim3((n + W - 1) / W, (n + H - 1) / H), 256>>>(a, b, n, 1.0f + t);
  (void)hipMemcpy(got.data(), a.hz, bytes, hipMemcpyDeviceToHost);
  for (int t = 0; t < steps; ++t) {
    for (int i = 0; i < n * n; ++i) y[i] = i < n ? 1.0f + t : y[i] - 0.5f * (z[i] - z[i - n]);
    for (int i = 0; i < n * n; ++i) x[i] -= i % n ? 0.5f * (z[i] - z[i - 1]) : 0;
    for (int i = 0; i < n * (n - 1); ++i) z[i] -= i % n < n - 1 ? 0.7f * (x[i + 1] - x[i] + y[i + n] - y[i]) : 0;
  }
  const bool same = std::equal(z.begin(), z.end(), got.begin(), [](float u, float v) { return std::fabs(u - v) < 1e-3f; });
  std::puts(same ? "PASS" : "FAIL");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}
