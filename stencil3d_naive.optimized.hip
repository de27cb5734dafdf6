// Seven-point heat step in 3-D, one work-item per point, work-groups of one row segment: the planes above and below come
// from the L2 or from memory.
//
// step: stencil3d 1 stencil3d_naive
// paradigm: per-thread
// bound: gfx90a l2, gfx942 infinity
// check: 66
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

// One work-item of `heat`; the last parameters stand for the built-in coordinates.
static __device__ __forceinline__ void heat_item(const float* a, float* b, int n, const dim3 threadIdx, const dim3 blockIdx, const dim3 blockDim, const dim3 gridDim) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1, z = blockIdx.z + 1;
  if (x >= n - 1) return;
  const int i = (z * n + y) * n + x, s = n * n;
  b[i] = 0.4f * a[i] + 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - s] + a[i + s]);
}

__global__ __launch_bounds__(256) void heat(const float* a, float* b, int n, unsigned lane_groups_x, unsigned lane_groups_y, unsigned lane_groups_z) {
  const dim3 lane_block(256, 1, 1), lane_groups(lane_groups_x, lane_groups_y, lane_groups_z);
  const unsigned lane_x = blockIdx.x * 256 + threadIdx.x;
  const unsigned first_y = blockIdx.y * 16, step_y = 1;
  const unsigned lane_z = blockIdx.z;
#pragma unroll
    for (unsigned at_y = 0; at_y < 16; ++at_y) {
      const unsigned item_y = first_y + at_y * step_y;
      if (item_y < lane_groups.y * 1) heat_item(a, b, n, dim3(lane_x % 256, 0, 0), dim3(lane_x / 256, item_y, lane_z), lane_block, lane_groups);
    }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 258, s = n * n;
  std::vector<float> a(n * s), b(n * s);
  for (int i = 0; i < n * s; ++i) a[i] = static_cast<float>(i % 97);
  float *da, *db;
  if (hipMalloc(&da, a.size() * 4) != hipSuccess || hipMalloc(&db, b.size() * 4) != hipSuccess) return 1;
  (void)hipMemcpy(da, a.data(), a.size() * 4, hipMemcpyHostToDevice);
  {
    const dim3 lane_groups = dim3((n - 2 + 255) / 256, n - 2, n - 2);
    heat<<<dim3(lane_groups.x, (lane_groups.y + 15) / 16, lane_groups.z), dim3(256, 1, 1)>>>(da, db, n, lane_groups.x, lane_groups.y, lane_groups.z);
  }
  (void)hipMemcpy(b.data(), db, b.size() * 4, hipMemcpyDeviceToHost);
  for (int z = 1; z < n - 1; z += 2)
    for (int y = 1; y < n - 1; y += 3)
      for (int x = 1; x < n - 1; ++x) {
        const int i = (z * n + y) * n + x;
        const float want = 0.4f * a[i] + 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - s] + a[i + s]);
        if (std::fabs(b[i] - want) > 1e-3f) return std::printf("FAIL at %d %d %d\n", x, y, z), EXIT_FAILURE;
      }
  std::printf("PASS\n");
  return EXIT_SUCCESS;
}
