// The march with four points per lane: planes move in 16-byte pieces, and the neighbours in x come from the next lane's
// registers by a shuffle; only the ends of a row segment load a single element.
//
// step: stencil3d 3 stencil3d_march_vectorised, after stencil3d_plane_march
// paradigm: per-tile
// bound: gfx90a hbm, gfx942 infinity
// moves: SQ_INSTS_VMEM_RD down, SQ_INSTS down
// check: 64 18
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kDepth = 32, kLanes = 16;  // a row segment is 16 lanes of four points

// Rows have nx points, periodic in x; y and z have a layer of halo.
__global__ __launch_bounds__(256) void heat(const float4* a, float4* b, int nx, int ny, int nz) {
  const int lane = threadIdx.x % kLanes, q = blockIdx.x * kLanes + lane, y = blockIdx.y * 16 + threadIdx.x / kLanes + 1;
  const int row = nx / 4, plane = row * ny, z0 = blockIdx.z * kDepth + 1;
  if (y >= ny - 1) return;
  const float* scalars = reinterpret_cast<const float*>(a);
  float4 down = a[(z0 - 1) * plane + y * row + q], mid = a[z0 * plane + y * row + q];
  for (int z = z0; z < min(z0 + kDepth, nz - 1); ++z) {
    const int i = z * plane + y * row + q, line = (z * ny + y) * nx;
    const float4 up = a[i + plane], north = a[i - row], south = a[i + row];
    float left = __shfl_up(mid.w, 1, kLanes), right = __shfl_down(mid.x, 1, kLanes);
    if (lane == 0) left = scalars[line + (4 * q + nx - 1) % nx];
    if (lane == kLanes - 1) right = scalars[line + (4 * q + 4) % nx];
    auto step = [](float c, float l, float r, float n, float s, float d, float u) {
      return 0.4f * c + 0.1f * (l + r + n + s + d + u);
    };
    b[i] = make_float4(step(mid.x, left, mid.y, north.x, south.x, down.x, up.x),
                       step(mid.y, mid.x, mid.z, north.y, south.y, down.y, up.y),
                       step(mid.z, mid.y, mid.w, north.z, south.z, down.z, up.z),
                       step(mid.w, mid.z, right, north.w, south.w, down.w, up.w));
    down = mid;
    mid = up;
  }
}

int main(int argc, char** argv) {
  const int nx = argc > 1 ? std::atoi(argv[1]) : 256;  // a multiple of 64
  const int ny = argc > 2 ? std::atoi(argv[2]) : 258, nz = ny;
  const std::size_t count = static_cast<std::size_t>(nx) * ny * nz;
  std::vector<float> a(count), b(count);
  for (std::size_t i = 0; i < count; ++i) a[i] = i % 89 * 0.5f;
  float4 *da, *db;
  if (hipMalloc(&da, count * 4) != hipSuccess || hipMalloc(&db, count * 4) != hipSuccess) return 1;
  (void)hipMemcpy(da, a.data(), count * 4, hipMemcpyHostToDevice);
  heat<<<dim3(nx / 64, (ny - 2 + 15) / 16, (nz - 2 + kDepth - 1) / kDepth), 256>>>(da, db, nx, ny, nz);
  (void)hipMemcpy(b.data(), db, count * 4, hipMemcpyDeviceToHost);
  auto at = [&](int x, int y, int z) { return a[(static_cast<std::size_t>(z) * ny + y) * nx + (x + nx) % nx]; };
  bool ok = true;
  for (int z = 1; z < nz - 1; ++z)
    for (int y = 1 + z % 3; y < ny - 1; y += 3)
      for (int x = 0; x < nx; ++x) {
        const float sum = at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) + at(x, y, z - 1) +
                          at(x, y, z + 1);
        ok &= std::fabs(0.4f * at(x, y, z) + 0.1f * sum - b[(static_cast<std::size_t>(z) * ny + y) * nx + x]) < 1e-3f;
      }
  std::puts(ok ? "PASS" : "FAIL");
  return !ok;
}
