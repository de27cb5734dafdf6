// One round of k-means, 64 centres in four dimensions: every point reads all centres, and adds itself to its centre by
// global atomics.
//
// step: kmeans 1 kmeans_global_atomics
// paradigm: per-thread
// bound: gfx90a atomics, gfx942 atomics
// check: 5000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kCentres = 64;

__host__ __device__ int nearest(int4 p, const int4* centres) {
  int best = 0, least = 1 << 30;
  for (int c = 0; c < kCentres; ++c) {
    const int4 q = centres[c];
    const int dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, dw = p.w - q.w;
    const int distance = dx * dx + dy * dy + dz * dz + dw * dw;
    if (distance < least) {
      least = distance;
      best = c;
    }
  }
  return best;
}

__global__ void assign(const int4* points, const int4* centres, int* sums, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int4 p = points[i];
  int* sum = sums + 5 * nearest(p, centres);
  atomicAdd(sum + 0, p.x);
  atomicAdd(sum + 1, p.y);
  atomicAdd(sum + 2, p.z);
  atomicAdd(sum + 3, p.w);
  atomicAdd(sum + 4, 1);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 19;
  std::vector<int4> points(n), centres(kCentres);
  for (int i = 0; i < n; ++i) points[i] = {i * 37 % 1009, i * 53 % 997, i * 71 % 991, i * 89 % 983};
  for (int c = 0; c < kCentres; ++c) centres[c] = points[c * 101 % n];
  std::vector<int> got(5 * kCentres), want(5 * kCentres);
  int4 *dp, *dc;
  int* ds;
  if (hipMalloc(&dp, n * sizeof(int4)) || hipMalloc(&dc, kCentres * sizeof(int4)) || hipMalloc(&ds, got.size() * 4)) return 1;
  (void)hipMemcpy(dp, points.data(), n * sizeof(int4), hipMemcpyHostToDevice);
  (void)hipMemcpy(dc, centres.data(), kCentres * sizeof(int4), hipMemcpyHostToDevice);
  (void)hipMemset(ds, 0, got.size() * 4);
  assign<<<(n + 255) / 256, 256>>>(dp, dc, ds, n);
  (void)hipMemcpy(got.data(), ds, got.size() * 4, hipMemcpyDeviceToHost);
  for (const int4& p : points) {
    int* sum = &want[5 * nearest(p, centres.data())];
    sum[0] += p.x, sum[1] += p.y, sum[2] += p.z, sum[3] += p.w, ++sum[4];
  }
  std::printf("%s\n", got == want ? "PASS" : "FAIL");
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
