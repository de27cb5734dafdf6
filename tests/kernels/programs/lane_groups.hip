// Coalesced groups, their tiles and partitions, and votes of a whole work-group, against sums made on the host.
#include "check.h"

#include <hip/hip_cooperative_groups.h>

#include <vector>

namespace cg = cooperative_groups;

constexpr int kBlock = 128, kTile = 4;

__global__ void groups(const int* in, int* below, int* ranks, int* votes) {
  const int i = threadIdx.x;
  below[i] = ranks[i] = -1;
  if (in[i] % 3 != 0) {
    cg::coalesced_group active = cg::coalesced_threads();
    cg::coalesced_group tile = cg::tiled_partition(active, kTile);
    below[i] = tile.shfl_up(in[i], 1);
    int alike;
    const int odd_lanes = __popcll(active.match_any(in[i] & 1)) + (tile.match_all(tile.size(), alike) != 0) + alike;
    ranks[i] = static_cast<int>(tile.meta_group_rank() * 100 + tile.thread_rank() + 10000 * odd_lanes);
  }
  const int odd = in[i] & 1;
  const int count = __syncthreads_count(odd), all = __syncthreads_and(in[i] >= 0), any = __syncthreads_or(in[i] == 7);
  if (i == 0) votes[0] = count, votes[1] = all != 0, votes[2] = any != 0;
}

// Tiles whose size is known at run time only; the last one of a block may be a part of one.
__global__ void tiles(int* sizes, unsigned int tile_size) {
  cg::thread_group tile = cg::tiled_partition(cg::this_thread_block(), tile_size);
  sizes[threadIdx.x] = static_cast<int>(tile.size() * 100 + tile.thread_rank());
}

static void check_tiles(int* device) {
  for (int block : {1, 6, 64, 100}) {
    for (int tile : {2, 16, 64}) {
      int sizes[kBlock];
      tiles<<<1, block>>>(device, tile);
      OK(hipMemcpy(sizes, device, block * sizeof(int), hipMemcpyDeviceToHost));
      for (int i = 0; i < block; ++i) {
        const int rest = block - i / tile * tile;
        CHECK(sizes[i] == (rest < tile ? rest : tile) * 100 + i % tile);
      }
    }
  }
}

int main() {
  std::vector<int> in(kBlock), below(kBlock), ranks(kBlock), votes(3);
  for (int i = 0; i < kBlock; ++i) in[i] = i * 37 % 101;
  int *din, *dbelow, *dranks, *dvotes;
  OK(hipMalloc(&din, kBlock * sizeof(int)));
  OK(hipMalloc(&dbelow, kBlock * sizeof(int)));
  OK(hipMalloc(&dranks, kBlock * sizeof(int)));
  OK(hipMalloc(&dvotes, 3 * sizeof(int)));
  OK(hipMemcpy(din, in.data(), kBlock * sizeof(int), hipMemcpyHostToDevice));
  groups<<<1, kBlock>>>(din, dbelow, dranks, dvotes);
  OK(hipMemcpy(below.data(), dbelow, kBlock * sizeof(int), hipMemcpyDeviceToHost));
  OK(hipMemcpy(ranks.data(), dranks, kBlock * sizeof(int), hipMemcpyDeviceToHost));
  OK(hipMemcpy(votes.data(), dvotes, 3 * sizeof(int), hipMemcpyDeviceToHost));
  int odd = 0, seven = 0;
  for (int wave = 0; wave < kBlock; wave += 64) {
    int rank = 0, previous = 0, alike[2] = {};
    for (int i = wave; i < wave + 64; ++i) alike[in[i] & 1] += in[i] % 3 != 0;
    for (int i = wave; i < wave + 64; ++i) {
      odd += in[i] & 1;
      seven |= in[i] == 7;
      if (in[i] % 3 == 0) {
        CHECK(below[i] == -1 && ranks[i] == -1);
        continue;
      }
      CHECK(ranks[i] == rank / kTile * 100 + rank % kTile + 10000 * (alike[in[i] & 1] + 2));
      CHECK(below[i] == (rank % kTile == 0 ? in[i] : previous));
      previous = in[i];
      ++rank;
    }
  }
  CHECK(votes[0] == odd && votes[1] == 1 && votes[2] == seven);
  check_tiles(dbelow);
  std::printf("lane groups ok\n");
}
