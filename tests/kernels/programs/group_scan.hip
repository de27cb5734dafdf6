// Inclusive scan with cooperative groups: tiles shuffle, the block combines its tiles, a second kernel adds offsets.
#include "check.h"

#include <hip/hip_cooperative_groups.h>

#include <vector>

namespace cg = cooperative_groups;

constexpr int kBlock = 256, kTile = 32;

__global__ void scan_blocks(const int* in, int* out, int* totals, int n) {
  __shared__ int sums[kBlock / kTile];
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<kTile>(block);
  int i = blockIdx.x * blockDim.x + block.thread_rank();
  int value = i < n ? in[i] : 0;
  for (unsigned offset = 1; offset < tile.size(); offset *= 2) {
    int below = tile.shfl_up(value, offset);
    if (tile.thread_rank() >= offset) value += below;
  }
  int which = block.thread_rank() / kTile;
  if (tile.thread_rank() == tile.size() - 1) sums[which] = value;
  block.sync();
  for (int before = 0; before < which; ++before) value += sums[before];
  if (i < n) out[i] = value;
  if (block.thread_rank() == block.size() - 1) totals[blockIdx.x] = value;
}

__global__ void add_offsets(int* out, const int* totals, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (unsigned before = 0; before < blockIdx.x; ++before)
    if (i < n) out[i] += totals[before];
}

int main() {
  const int n = 5000, blocks = (n + kBlock - 1) / kBlock;
  std::vector<int> in(n), out(n);
  for (int i = 0; i < n; ++i) in[i] = i * 37 % 101 - 50;
  int *din, *dout, *dtotals;
  OK(hipMalloc(&din, n * sizeof(int)));
  OK(hipMalloc(&dout, n * sizeof(int)));
  OK(hipMalloc(&dtotals, blocks * sizeof(int)));
  OK(hipMemcpy(din, in.data(), n * sizeof(int), hipMemcpyHostToDevice));
  scan_blocks<<<blocks, kBlock>>>(din, dout, dtotals, n);
  add_offsets<<<blocks, kBlock>>>(dout, dtotals, n);
  OK(hipMemcpy(out.data(), dout, n * sizeof(int), hipMemcpyDeviceToHost));
  for (int i = 0, sum = 0; i < n; ++i) {
    sum += in[i];
    CHECK(out[i] == sum);
  }
  std::printf("group scan ok\n");
}
