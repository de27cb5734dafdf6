// Three passes: each work-group scans 256 elements by doubling in LDS, one work-group scans their sums, and a last
// launch adds the sums to the elements.
//
// step: scan 2 scan_blocks, after scan_global_doubling
// paradigm: multi-pass
// bound: gfx90a latency, gfx942 latency
// moves: TCC_REQ down, Duration down
// check: 5000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kBlock = 256;

__device__ int scan_in_lds(int value, int* line) {
  line[threadIdx.x] = value;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    const int other = threadIdx.x >= d ? line[threadIdx.x - d] : 0;
    __syncthreads();
    line[threadIdx.x] += other;
    __syncthreads();
  }
  return line[threadIdx.x];
}

__global__ void scan_blocks(int* data, int* sums, int n) {
  __shared__ int line[kBlock];
  const int i = blockIdx.x * kBlock + threadIdx.x;
  const int mine = scan_in_lds(i < n ? data[i] : 0, line);
  if (i < n) data[i] = mine;
  if (threadIdx.x == kBlock - 1) sums[blockIdx.x] = mine;
}

__global__ void scan_sums(int* sums, int count) {
  __shared__ int line[kBlock];
  int carry = 0;
  for (int base = 0; base < count; base += kBlock) {
    const int i = base + threadIdx.x;
    const int mine = carry + scan_in_lds(i < count ? sums[i] : 0, line);
    if (i < count) sums[i] = mine;
    __syncthreads();
    carry += line[kBlock - 1];
    __syncthreads();
  }
}

__global__ void add_sums(int* data, const int* sums, int n) {
  const int i = (blockIdx.x + 1) * kBlock + threadIdx.x;
  if (i < n) data[i] += sums[blockIdx.x];
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 22;
  const int blocks = (n + kBlock - 1) / kBlock;
  std::vector<int> values(n), scanned(n);
  for (int i = 0; i < n; ++i) values[i] = (i * 7) % 11 - 4;
  int *data = nullptr, *sums = nullptr;
  if (hipMalloc(&data, n * sizeof(int)) != hipSuccess || hipMalloc(&sums, blocks * sizeof(int)) != hipSuccess) return 1;
  (void)hipMemcpy(data, values.data(), n * sizeof(int), hipMemcpyHostToDevice);
  scan_blocks<<<blocks, kBlock>>>(data, sums, n);
  scan_sums<<<1, kBlock>>>(sums, blocks);
  if (blocks > 1) add_sums<<<blocks - 1, kBlock>>>(data, sums, n);
  (void)hipMemcpy(scanned.data(), data, n * sizeof(int), hipMemcpyDeviceToHost);
  int sum = 0, wrong = 0;
  for (int i = 0; i < n; ++i) wrong += scanned[i] != (sum += values[i]);
  std::printf("%s (%d wrong)\n", wrong ? "FAIL" : "PASS", wrong);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
