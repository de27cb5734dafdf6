// Sums of a work-group collect in LDS, where 64 centres fit many times over, and are merged once per 2,048 points.
//
// step: kmeans 2 kmeans_lds_sums, after kmeans_global_atomics
// paradigm: privatised
// bound: gfx90a valu, gfx942 valu
// moves: TCC_ATOMIC down, Duration down
// check: 5000
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>

#include <cstdlib>
#include <iostream>
#include <vector>

constexpr int K = 64, kThreads = 256, kPerGroup = 2048;

struct Sum {
  int x, y, z, w, count;
  bool operator==(const Sum& o) const { return x == o.x && y == o.y && z == o.z && w == o.w && count == o.count; }
};

__host__ __device__ int closest(const int4& p, const int4* centres) {
  int best = 0;
  unsigned least = ~0u;
  for (int c = 0; c < K; ++c) {
    const int d[4] = {p.x - centres[c].x, p.y - centres[c].y, p.z - centres[c].z, p.w - centres[c].w};
    const unsigned distance = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + d[3] * d[3];
    if (distance < least) least = distance, best = c;
  }
  return best;
}

__global__ __launch_bounds__(kThreads) void kmeans_round(const int4* points, const int4* centres, Sum* sums, int n) {
  __shared__ int4 local[K];
  __shared__ Sum mine[K];
  if (threadIdx.x < K) {
    local[threadIdx.x] = centres[threadIdx.x];
    mine[threadIdx.x] = {};
  }
  __syncthreads();
  for (int i = blockIdx.x * kPerGroup + threadIdx.x; i < min(n, (blockIdx.x + 1) * kPerGroup); i += kThreads) {
    const int4 p = points[i];
    Sum& s = mine[closest(p, local)];
    atomicAdd(&s.x, p.x);
    atomicAdd(&s.y, p.y);
    atomicAdd(&s.z, p.z);
    atomicAdd(&s.w, p.w);
    atomicAdd(&s.count, 1);
  }
  __syncthreads();
  const int* from = reinterpret_cast<const int*>(mine);
  for (int k = threadIdx.x; k < K * 5; k += kThreads) atomicAdd(reinterpret_cast<int*>(sums) + k, from[k]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 19;
  std::vector<int4> points(n), centres(K);
  for (int i = 0; i < n; ++i) points[i] = make_int4(i * 41 % 1013, i * 59 % 1019, i * 73 % 1021, i * 97 % 1031);
  for (int c = 0; c < K; ++c) centres[c] = points[(c * 211 + 7) % n];
  thrust::device_vector<int4> d_points(points), d_centres(centres);
  thrust::device_vector<Sum> d_sums(K, Sum{});
  kmeans_round<<<(n + kPerGroup - 1) / kPerGroup, kThreads>>>(d_points.data().get(), d_centres.data().get(),
                                                              d_sums.data().get(), n);
  std::vector<Sum> want(K, Sum{}), got(K);
  thrust::copy(d_sums.begin(), d_sums.end(), got.begin());
  for (const auto& p : points) {
    Sum& s = want[closest(p, centres.data())];
    s = {s.x + p.x, s.y + p.y, s.z + p.z, s.w + p.w, s.count + 1};
  }
  std::cout << (got == want ? "PASS" : "FAIL") << std::endl;
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
