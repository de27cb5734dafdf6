// Work-groups of 64 x 4 columns march through z: the points below and above stay in registers, so each plane is read
// once per work-group instead of three times.
//
// step: stencil3d 2 stencil3d_plane_march, after stencil3d_naive
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_WAVES down, TCP_TOTAL_CACHE_ACCESSES down
// check: 66
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int kDepth = 32;  // planes per work-group

__global__ void heat_march(const float* __restrict__ from, float* __restrict__ to, int n) {
  const int x = blockIdx.x * 64 + threadIdx.x + 1, y = blockIdx.y * 4 + threadIdx.y + 1;
  if (x >= n - 1 || y >= n - 1) return;
  const int plane = n * n, z0 = blockIdx.z * kDepth + 1, z1 = min(z0 + kDepth, n - 1);
  const float* p = from + z0 * plane + y * n + x;
  float* q = to + z0 * plane + y * n + x;
  float down = p[-plane], mid = p[0];
  for (int z = z0; z < z1; ++z, p += plane, q += plane) {
    const float up = p[plane];
    *q = 0.4f * mid + 0.1f * (p[-1] + p[1] + p[-n] + p[n] + down + up);
    down = mid;
    mid = up;
  }
}

class Field {
 public:
  explicit Field(int n) : bytes_(sizeof(float) * n * n * n) {
    if (hipMalloc(&data, bytes_) != hipSuccess) std::exit(EXIT_FAILURE);
  }
  ~Field() { (void)hipFree(data); }
  void operator<<(const std::vector<float>& v) { (void)hipMemcpy(data, v.data(), bytes_, hipMemcpyHostToDevice); }
  void operator>>(std::vector<float>& v) { (void)hipMemcpy(v.data(), data, bytes_, hipMemcpyDeviceToHost); }
  float* data;

 private:
  std::size_t bytes_;
};

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 258;
  std::vector<float> h(n * n * n), r(h.size());
  for (std::size_t i = 0; i < h.size(); ++i) h[i] = static_cast<float>(i * 7 % 113) - 50;
  Field a(n), b(n);
  a << h;
  heat_march<<<dim3((n + 61) / 64, (n + 1) / 4, (n - 2 + kDepth - 1) / kDepth), dim3(64, 4)>>>(a.data, b.data, n);
  b >> r;
  int bad = 0;
  auto at = [&](int x, int y, int z) { return h[(z * n + y) * n + x]; };
  for (int z = 1; z < n - 1; ++z)
    for (int y = 1; y < n - 1; y += 5)
      for (int x = 1; x < n - 1; x += 2) {
        const float want = 0.4f * at(x, y, z) + 0.1f * (at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) +
                                                        at(x, y + 1, z) + at(x, y, z - 1) + at(x, y, z + 1));
        bad += std::abs(r[(z * n + y) * n + x] - want) > 1e-3f;
      }
  std::cout << (bad ? "FAIL" : "PASS") << '\n';
  return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
