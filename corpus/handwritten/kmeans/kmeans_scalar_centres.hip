// Centres are kernel arguments in scalar registers instead of LDS reads, and a work-item tests four points against each:
// what remains is subtraction, multiplication and comparison.
//
// step: kmeans 3 kmeans_scalar_centres, after kmeans_lds_sums
// paradigm: privatised
// bound: gfx90a valu, gfx942 valu
// moves: SQ_INSTS_LDS down, SQ_INSTS_SMEM up
// check: 8192
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kCentres = 64, kOwn = 4, kThreads = 256;

__global__ __launch_bounds__(kThreads) void assign(const float4* __restrict__ points, const float4* __restrict__ centres,
                                                   unsigned* sums) {
  __shared__ unsigned mine[kCentres * 5];
  for (int k = threadIdx.x; k < kCentres * 5; k += kThreads) mine[k] = 0;
  float4 p[kOwn];
  float least[kOwn];
  int best[kOwn] = {};
  for (int o = 0; o < kOwn; ++o) {
    p[o] = points[(blockIdx.x * kOwn + o) * kThreads + threadIdx.x];
    least[o] = 1e30f;
  }
  for (int c = 0; c < kCentres; ++c) {
    const float4 q = centres[c];  // the same for all lanes: a scalar load
#pragma unroll
    for (int o = 0; o < kOwn; ++o) {
      const float dx = p[o].x - q.x, dy = p[o].y - q.y, dz = p[o].z - q.z, dw = p[o].w - q.w;
      const float distance = dx * dx + dy * dy + dz * dz + dw * dw;
      best[o] = distance < least[o] ? c : best[o];
      least[o] = fminf(distance, least[o]);
    }
  }
  __syncthreads();
  for (int o = 0; o < kOwn; ++o) {
    unsigned* s = mine + best[o] * 5;
    atomicAdd(s + 0, static_cast<unsigned>(p[o].x));
    atomicAdd(s + 1, static_cast<unsigned>(p[o].y));
    atomicAdd(s + 2, static_cast<unsigned>(p[o].z));
    atomicAdd(s + 3, static_cast<unsigned>(p[o].w));
    atomicAdd(s + 4, 1u);
  }
  __syncthreads();
  for (int k = threadIdx.x; k < kCentres * 5; k += kThreads) atomicAdd(&sums[k], mine[k]);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? std::atoi(argv[1]) : 1 << 19;
  n -= n % (kOwn * kThreads);
  std::vector<float4> points(n), centres(kCentres);
  for (int i = 0; i < n; ++i)  // whole numbers below 1,024: sums of squares are exact
    points[i] = make_float4(i * 41 % 1013, i * 59 % 1019, i * 73 % 1021, i * 97 % 1013);
  for (int c = 0; c < kCentres; ++c) centres[c] = points[(c * 307 + 11) % n];
  float4 *dp = nullptr, *dc = nullptr;
  unsigned* ds = nullptr;
  std::vector<unsigned> got(kCentres * 5), want(kCentres * 5);
  bool ok = hipMalloc(&dp, n * sizeof(float4)) == hipSuccess && hipMalloc(&dc, kCentres * sizeof(float4)) == hipSuccess &&
            hipMalloc(&ds, got.size() * 4) == hipSuccess && hipMemset(ds, 0, got.size() * 4) == hipSuccess;
  if (!ok) return EXIT_FAILURE;
  (void)hipMemcpy(dp, points.data(), n * sizeof(float4), hipMemcpyHostToDevice);
  (void)hipMemcpy(dc, centres.data(), kCentres * sizeof(float4), hipMemcpyHostToDevice);
  assign<<<n / (kOwn * kThreads), kThreads>>>(dp, dc, ds);
  (void)hipMemcpy(got.data(), ds, got.size() * 4, hipMemcpyDeviceToHost);
  for (const float4& p : points) {
    int best = 0;
    double least = 1e30;
    for (int c = 0; c < kCentres; ++c) {
      const double x = p.x - centres[c].x, y = p.y - centres[c].y, z = p.z - centres[c].z, w = p.w - centres[c].w;
      const double distance = x * x + y * y + z * z + w * w;
      if (distance < least) least = distance, best = c;
    }
    const float parts[5] = {p.x, p.y, p.z, p.w, 1};
    for (int k = 0; k < 5; ++k) want[best * 5 + k] += static_cast<unsigned>(parts[k]);
  }
  std::puts(got == want ? "PASS" : "FAIL");
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
