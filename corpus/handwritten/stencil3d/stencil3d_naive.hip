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

__global__ void heat(const float* a, float* b, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y + 1, z = blockIdx.z + 1;
  if (x >= n - 1) return;
  const int i = (z * n + y) * n + x, s = n * n;
  b[i] = 0.4f * a[i] + 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - s] + a[i + s]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 258, s = n * n;
  std::vector<float> a(n * s), b(n * s);
  for (int i = 0; i < n * s; ++i) a[i] = static_cast<float>(i % 97);
  float *da, *db;
  if (hipMalloc(&da, a.size() * 4) != hipSuccess || hipMalloc(&db, b.size() * 4) != hipSuccess) return 1;
  (void)hipMemcpy(da, a.data(), a.size() * 4, hipMemcpyHostToDevice);
  heat<<<dim3((n - 2 + 255) / 256, n - 2, n - 2), 256>>>(da, db, n);
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
