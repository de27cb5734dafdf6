// Each work-item walks down 32 rows of its column and keeps the three rows that it needs in registers: one new load and
// two neighbours per point, no LDS, no barrier.
//
// step: stencil2d 4 stencil2d_column_march, after stencil2d_lds_tile
// paradigm: per-thread
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_LDS down, SQ_WAVES down
// check: 130
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <memory>

constexpr int kRows = 32;

template <typename T>
std::shared_ptr<T> on_device(std::size_t count) {
  T* p = nullptr;
  if (hipMalloc(&p, count * sizeof(T)) != hipSuccess) throw std::runtime_error("no device memory");
  return {p, [](T* q) { (void)hipFree(q); }};
}

__global__ __launch_bounds__(256) void march(const float* __restrict__ u, float* __restrict__ v, int n) {
  const int x = 1 + blockIdx.x * blockDim.x + threadIdx.x, first = 1 + blockIdx.y * kRows;
  if (x >= n - 1) return;
  float above = u[(first - 1) * n + x], here = u[first * n + x];
  const int last = min(first + kRows, n - 1);
  for (int y = first; y < last; ++y) {
    const float below = u[(y + 1) * n + x];
    v[y * n + x] = u[y * n + x - 1] + u[y * n + x + 1] + above + below - 4.0f * here;
    above = here;
    here = below;
  }
}

int main(int argc, char** argv) try {
  const int n = argc > 1 ? std::atoi(argv[1]) : 3072;
  const std::size_t count = static_cast<std::size_t>(n) * n;
  auto u = std::make_unique<float[]>(count), v = std::make_unique<float[]>(count);
  for (std::size_t i = 0; i < count; ++i) u[i] = 0.125f * (i % 333);
  auto du = on_device<float>(count), dv = on_device<float>(count);
  (void)hipMemcpy(du.get(), u.get(), count * sizeof(float), hipMemcpyHostToDevice);
  march<<<dim3((n - 2 + 255) / 256, (n - 2 + kRows - 1) / kRows), 256>>>(du.get(), dv.get(), n);
  (void)hipMemcpy(v.get(), dv.get(), count * sizeof(float), hipMemcpyDeviceToHost);
  bool same = true;
  for (int y = 1; y < n - 1; ++y)
    for (int x = 1 + y % 4; x < n - 1; x += 4) {
      const float* p = &u[static_cast<std::size_t>(y) * n + x];
      same = same && std::fabs(p[-1] + p[1] + p[-n] + p[n] - 4 * p[0] - v[p - &u[0]]) < 1e-3f;
    }
  std::cout << (same ? "PASS\n" : "FAIL\n");
  return same ? 0 : 1;
} catch (const std::exception& problem) {
  std::cerr << problem.what() << '\n';
  return 2;
}
