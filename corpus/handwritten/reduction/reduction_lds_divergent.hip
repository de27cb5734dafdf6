// A tree in LDS where work-item t adds its neighbour at distance s if t is a multiple of 2 s: at every level half of the
// remaining lanes idle, spread over all wavefronts.
//
// step: reduction 2 reduction_lds_divergent, after atomic_sum
// paradigm: per-tile
// bound: gfx90a latency, gfx942 dispatch
// moves: TCC_ATOMIC down, Duration down
// check: 40000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBlock = 256;

__global__ void sum_blocks(const float* in, float* partial, int n) {
  __shared__ float tree[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  tree[threadIdx.x] = i < n ? in[i] : 0.0f;
  __syncthreads();
  for (int s = 1; s < kBlock; s *= 2) {
    if (threadIdx.x % (2 * s) == 0) tree[threadIdx.x] += tree[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = tree[0];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 24;
  const int groups = (n + kBlock - 1) / kBlock;
  std::vector<float> host(n), partial(groups);
  for (int i = 0; i < n; ++i) host[i] = static_cast<float>(i % 7);
  float *in, *out;
  if (hipMalloc(&in, n * sizeof(float)) != hipSuccess || hipMalloc(&out, groups * sizeof(float)) != hipSuccess) return 1;
  (void)hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  sum_blocks<<<groups, kBlock>>>(in, out, n);
  (void)hipMemcpy(partial.data(), out, groups * sizeof(float), hipMemcpyDeviceToHost);
  double sum = 0, expected = 0;
  for (float v : partial) sum += v;
  for (float v : host) expected += v;
  std::printf("%s: sum %.0f, expected %.0f\n", sum == expected ? "PASS" : "FAIL", sum, expected);
  return sum == expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
