// The tree in LDS with the active work-items packed together: whole wavefronts retire instead of idling lane by lane, no
// remainder is computed, and each work-item adds two elements while it loads.
//
// step: reduction 3 reduction_lds_sequential, after reduction_lds_divergent
// paradigm: per-tile
// bound: gfx90a latency, gfx942 dispatch
// moves: SQ_INSTS_VALU down, Duration down
// check: 40000
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>

#define HIP_CHECK(call)                                                                \
  if (hipError_t e = (call); e != hipSuccess) {                                        \
    std::cerr << __FILE__ << ":" << __LINE__ << ": " << hipGetErrorString(e) << "\n"; \
    std::exit(2);                                                                      \
  }

__global__ void reduce(const int* __restrict__ values, long long* __restrict__ sums, int n) {
  __shared__ int shared[256];
  const int tid = threadIdx.x;
  const int i = blockIdx.x * 512 + tid;
  int mine = i < n ? values[i] : 0;
  if (i + 256 < n) mine += values[i + 256];
  shared[tid] = mine;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (tid < half) shared[tid] += shared[tid + half];
    __syncthreads();
  }
  if (tid == 0) sums[blockIdx.x] = shared[0];
}

int main(int argc, char* argv[]) {
  const int n = argc > 1 ? atoi(argv[1]) : 16777216;
  const int blocks = (n + 511) / 512;
  std::vector<int> h_values(n);
  for (int i = 0; i < n; i++) h_values[i] = (i * 37) % 101 - 50;
  int* d_values;
  long long* d_sums;
  HIP_CHECK(hipMalloc(&d_values, n * sizeof(int)));
  HIP_CHECK(hipMalloc(&d_sums, blocks * sizeof(long long)));
  HIP_CHECK(hipMemcpy(d_values, h_values.data(), n * sizeof(int), hipMemcpyHostToDevice));

  reduce<<<blocks, 256>>>(d_values, d_sums, n);
  HIP_CHECK(hipGetLastError());

  std::vector<long long> h_sums(blocks);
  HIP_CHECK(hipMemcpy(h_sums.data(), d_sums, blocks * sizeof(long long), hipMemcpyDeviceToHost));
  const long long got = std::accumulate(h_sums.begin(), h_sums.end(), 0LL);
  const long long want = std::accumulate(h_values.begin(), h_values.end(), 0LL);
  std::cout << (got == want ? "PASS " : "FAIL ") << got << " " << want << "\n";
  HIP_CHECK(hipFree(d_values));
  HIP_CHECK(hipFree(d_sums));
  return got == want ? 0 : 1;
}
