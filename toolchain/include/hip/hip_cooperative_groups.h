// Cooperative groups with the names of HIP's public API: blocks, grids, tiles of a wavefront, coalesced lanes.
// A wavefront has 64 lanes on every architecture this tree serves.
#ifndef HIPSYNTH_HIP_COOPERATIVE_GROUPS_H
#define HIPSYNTH_HIP_COOPERATIVE_GROUPS_H

#include <hip/hip_runtime.h>

#if defined(__cplusplus) && defined(__HIP__)

#include <assert.h>
#include <stdint.h>

#include <type_traits>

#define HIPSYNTH_CG static __device__ __forceinline__
#define HIPSYNTH_CG_MEMBER __device__ __forceinline__

namespace cooperative_groups {

typedef unsigned long long lane_mask;

namespace internal {

enum group_type { cg_invalid, cg_multi_grid, cg_grid, cg_workgroup, cg_tiled_group, cg_coalesced_group };

constexpr unsigned int wavefront = 64;

constexpr bool is_tile_size(unsigned int size) { return size != 0 && size <= wavefront && (size & (size - 1)) == 0; }

HIPSYNTH_CG uint32_t block_size() { return blockDim.x * blockDim.y * blockDim.z; }
HIPSYNTH_CG uint32_t block_thread_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
HIPSYNTH_CG uint32_t grid_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
HIPSYNTH_CG uint32_t grid_block_rank() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
HIPSYNTH_CG uint32_t lane() { return __lane_id(); }

// How many lanes of `mask` come before this one.
HIPSYNTH_CG uint32_t lanes_before(lane_mask mask) {
  uint32_t low = __builtin_amdgcn_mbcnt_lo(static_cast<uint32_t>(mask), 0u);
  return __builtin_amdgcn_mbcnt_hi(static_cast<uint32_t>(mask >> 32), low);
}
HIPSYNTH_CG uint32_t count(lane_mask mask) { return static_cast<uint32_t>(__popcll(mask)); }

// The lane that holds the n-th set bit of `mask`; any lane when there are fewer.
HIPSYNTH_CG int nth_lane(lane_mask mask, uint32_t n) {
  for (uint32_t skipped = 0; skipped < n; ++skipped) mask &= mask - 1;
  return mask == 0 ? static_cast<int>(lane()) : __ffsll(mask) - 1;
}

// Lanes run in step; what is left to order is memory.
HIPSYNTH_CG void wave_sync() { __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent"); }

}  // namespace internal

// --- any group -----------------------------------------------------------------------------------------------------

// A group whose kind and size are known at run time. `mask` holds the lanes of a tile or coalesced group.
class thread_group {
 public:
  HIPSYNTH_CG_MEMBER uint32_t size() const { return size_; }
  HIPSYNTH_CG_MEMBER uint32_t num_threads() const { return size_; }
  HIPSYNTH_CG_MEMBER unsigned int cg_type() const { return type_; }
  HIPSYNTH_CG_MEMBER lane_mask lanes() const { return mask_; }
  HIPSYNTH_CG_MEMBER uint32_t thread_rank() const;
  HIPSYNTH_CG_MEMBER bool is_valid() const;
  HIPSYNTH_CG_MEMBER void sync() const;

 protected:
  HIPSYNTH_CG_MEMBER thread_group(internal::group_type type, uint32_t size, lane_mask mask = 0)
      : type_(type), size_(size), mask_(mask) {}

  internal::group_type type_;
  uint32_t size_;
  lane_mask mask_;

  friend __device__ thread_group tiled_partition(const thread_group& parent, unsigned int tile_size);
};

class thread_block : public thread_group {
 public:
  HIPSYNTH_CG_MEMBER static uint32_t size() { return internal::block_size(); }
  HIPSYNTH_CG_MEMBER static uint32_t num_threads() { return internal::block_size(); }
  HIPSYNTH_CG_MEMBER static uint32_t thread_rank() { return internal::block_thread_rank(); }
  HIPSYNTH_CG_MEMBER static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  HIPSYNTH_CG_MEMBER static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  HIPSYNTH_CG_MEMBER static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  HIPSYNTH_CG_MEMBER static dim3 dim_threads() { return group_dim(); }
  HIPSYNTH_CG_MEMBER static bool is_valid() { return true; }
  HIPSYNTH_CG_MEMBER static void sync() { __syncthreads(); }

 private:
  HIPSYNTH_CG_MEMBER thread_block() : thread_group(internal::cg_workgroup, internal::block_size()) {}
  friend __device__ thread_block this_thread_block();
};

class grid_group : public thread_group {
 public:
  HIPSYNTH_CG_MEMBER static uint32_t size() { return internal::grid_blocks() * internal::block_size(); }
  HIPSYNTH_CG_MEMBER static uint32_t num_threads() { return size(); }
  HIPSYNTH_CG_MEMBER static uint32_t thread_rank() {
    return internal::grid_block_rank() * internal::block_size() + internal::block_thread_rank();
  }
  HIPSYNTH_CG_MEMBER static uint32_t block_rank() { return internal::grid_block_rank(); }
  HIPSYNTH_CG_MEMBER static uint32_t num_blocks() { return internal::grid_blocks(); }
  HIPSYNTH_CG_MEMBER static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  HIPSYNTH_CG_MEMBER static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  HIPSYNTH_CG_MEMBER static dim3 dim_blocks() { return group_dim(); }
  HIPSYNTH_CG_MEMBER static bool is_valid() { return __ockl_grid_is_valid() != 0; }
  HIPSYNTH_CG_MEMBER static void sync() { __ockl_grid_sync(); }

 private:
  HIPSYNTH_CG_MEMBER grid_group() : thread_group(internal::cg_grid, size()) {}
  friend __device__ grid_group this_grid();
};

class multi_grid_group : public thread_group {
 public:
  HIPSYNTH_CG_MEMBER static uint32_t size() { return __ockl_multi_grid_size(); }
  HIPSYNTH_CG_MEMBER static uint32_t thread_rank() { return __ockl_multi_grid_thread_rank(); }
  HIPSYNTH_CG_MEMBER static uint32_t num_grids() { return __ockl_multi_grid_num_grids(); }
  HIPSYNTH_CG_MEMBER static uint32_t grid_rank() { return __ockl_multi_grid_grid_rank(); }
  HIPSYNTH_CG_MEMBER static bool is_valid() { return __ockl_multi_grid_is_valid() != 0; }
  HIPSYNTH_CG_MEMBER static void sync() { __ockl_multi_grid_sync(); }

 private:
  HIPSYNTH_CG_MEMBER multi_grid_group() : thread_group(internal::cg_multi_grid, size()) {}
  friend __device__ multi_grid_group this_multi_grid();
};

__device__ __forceinline__ thread_block this_thread_block() { return thread_block(); }
__device__ __forceinline__ grid_group this_grid() { return grid_group(); }
__device__ __forceinline__ multi_grid_group this_multi_grid() { return multi_grid_group(); }

HIPSYNTH_CG_MEMBER uint32_t thread_group::thread_rank() const {
  switch (type_) {
    case internal::cg_grid:
      return grid_group::thread_rank();
    case internal::cg_multi_grid:
      return multi_grid_group::thread_rank();
    case internal::cg_workgroup:
      return thread_block::thread_rank();
    default:
      return internal::lanes_before(mask_);
  }
}

HIPSYNTH_CG_MEMBER bool thread_group::is_valid() const {
  switch (type_) {
    case internal::cg_grid:
      return grid_group::is_valid();
    case internal::cg_multi_grid:
      return multi_grid_group::is_valid();
    default:
      return type_ != internal::cg_invalid;
  }
}

HIPSYNTH_CG_MEMBER void thread_group::sync() const {
  switch (type_) {
    case internal::cg_grid:
      return grid_group::sync();
    case internal::cg_multi_grid:
      return multi_grid_group::sync();
    case internal::cg_workgroup:
      return thread_block::sync();
    default:
      return internal::wave_sync();
  }
}

// --- coalesced lanes -----------------------------------------------------------------------------------------------

// The lanes of a wavefront that are active together, or a part of them.
class coalesced_group : public thread_group {
 public:
  HIPSYNTH_CG_MEMBER uint32_t thread_rank() const { return internal::lanes_before(mask_); }
  HIPSYNTH_CG_MEMBER uint32_t meta_group_rank() const { return meta_rank_; }
  HIPSYNTH_CG_MEMBER uint32_t meta_group_size() const { return meta_size_; }
  HIPSYNTH_CG_MEMBER void sync() const { internal::wave_sync(); }

  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl(T value, int rank) const {
    return __shfl(value, internal::nth_lane(mask_, static_cast<uint32_t>(rank) % size_), internal::wavefront);
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl_down(T value, unsigned int delta) const {
    uint32_t from = thread_rank() + delta;
    return __shfl(value, from < size_ ? internal::nth_lane(mask_, from) : static_cast<int>(internal::lane()),
                  internal::wavefront);
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl_up(T value, unsigned int delta) const {
    uint32_t rank = thread_rank();
    return __shfl(value, rank >= delta ? internal::nth_lane(mask_, rank - delta) : static_cast<int>(internal::lane()),
                  internal::wavefront);
  }

  // Bit i of the result: the predicate of the group's thread i.
  HIPSYNTH_CG_MEMBER unsigned long long ballot(int predicate) const {
    lane_mask lanes = __ballot(predicate) & mask_;
    unsigned long long packed = 0;
    uint32_t position = 0;
    for (lane_mask rest = mask_; rest != 0; rest &= rest - 1, ++position) {
      packed |= static_cast<unsigned long long>((lanes & rest & -rest) != 0) << position;
    }
    return packed;
  }
  HIPSYNTH_CG_MEMBER int any(int predicate) const { return (__ballot(predicate) & mask_) != 0; }
  HIPSYNTH_CG_MEMBER int all(int predicate) const { return (__ballot(predicate) & mask_) == mask_; }

  // The group's threads whose value equals this thread's, as a ballot.
  template <typename T>
  HIPSYNTH_CG_MEMBER unsigned long long match_any(T value) const {
    unsigned long long same = 0;
    uint32_t position = 0;
    for (lane_mask rest = mask_; rest != 0; rest &= rest - 1, ++position) {
      same |= static_cast<unsigned long long>(shfl(value, static_cast<int>(position)) == value) << position;
    }
    return same;
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER unsigned long long match_all(T value, int& all_same) const {
    all_same = all(shfl(value, 0) == value);
    return all_same ? ~0ull >> (internal::wavefront - size_) : 0;
  }

  HIPSYNTH_CG_MEMBER explicit coalesced_group(lane_mask mask, uint32_t meta_rank = 0, uint32_t meta_size = 1)
      : thread_group(internal::cg_coalesced_group, internal::count(mask), mask),
        meta_rank_(meta_rank),
        meta_size_(meta_size) {}

 private:
  uint32_t meta_rank_;
  uint32_t meta_size_;
};

HIPSYNTH_CG coalesced_group coalesced_threads() { return coalesced_group(__ballot(1)); }

// --- tiles ---------------------------------------------------------------------------------------------------------

// `Size` neighbouring lanes of a wavefront; a power of two up to 64.
template <unsigned int Size, class ParentT = void>
class thread_block_tile : public thread_group {
  static_assert(internal::is_tile_size(Size), "a tile's size is a power of two up to the wavefront's 64 lanes");

 public:
  static constexpr unsigned int numThreads = Size;

  HIPSYNTH_CG_MEMBER static constexpr unsigned int size() { return Size; }
  HIPSYNTH_CG_MEMBER static constexpr unsigned int num_threads() { return Size; }
  HIPSYNTH_CG_MEMBER static uint32_t thread_rank() { return internal::block_thread_rank() & (Size - 1); }
  HIPSYNTH_CG_MEMBER uint32_t meta_group_rank() const { return meta_rank_; }
  HIPSYNTH_CG_MEMBER uint32_t meta_group_size() const { return meta_size_; }
  HIPSYNTH_CG_MEMBER static bool is_valid() { return true; }
  HIPSYNTH_CG_MEMBER static void sync() { internal::wave_sync(); }

  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl(T value, int rank) const {
    return __shfl(value, rank, Size);
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl_down(T value, unsigned int delta) const {
    return __shfl_down(value, delta, Size);
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl_up(T value, unsigned int delta) const {
    return __shfl_up(value, delta, Size);
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER T shfl_xor(T value, unsigned int mask) const {
    return __shfl_xor(value, static_cast<int>(mask), Size);
  }

  HIPSYNTH_CG_MEMBER unsigned long long ballot(int predicate) const {
    return (__ballot(predicate) >> first_lane()) & (~0ull >> (internal::wavefront - Size));
  }
  HIPSYNTH_CG_MEMBER int any(int predicate) const { return ballot(predicate) != 0; }
  HIPSYNTH_CG_MEMBER int all(int predicate) const { return ballot(!predicate) == 0; }

  // The threads of the tile that hold the same value as this one.
  template <typename T>
  HIPSYNTH_CG_MEMBER unsigned long long match_any(T value) const {
    unsigned long long same = 0;
    for (unsigned int rank = 0; rank < Size; ++rank) {
      same |= static_cast<unsigned long long>(shfl(value, static_cast<int>(rank)) == value) << rank;
    }
    return same;
  }
  template <typename T>
  HIPSYNTH_CG_MEMBER unsigned long long match_all(T value, int& predicate) const {
    predicate = all(shfl(value, 0) == value);
    return predicate ? ~0ull >> (internal::wavefront - Size) : 0;
  }

  HIPSYNTH_CG_MEMBER thread_block_tile(uint32_t meta_rank, uint32_t meta_size)
      : thread_group(internal::cg_tiled_group, Size, (~0ull >> (internal::wavefront - Size)) << first_lane()),
        meta_rank_(meta_rank),
        meta_size_(meta_size) {}

  // A tile of a tile is also a tile of the block.
  template <class Other>
  HIPSYNTH_CG_MEMBER thread_block_tile(const thread_block_tile<Size, Other>& other)
      : thread_block_tile(other.meta_group_rank(), other.meta_group_size()) {}

 private:
  HIPSYNTH_CG_MEMBER static uint32_t first_lane() { return internal::lane() & ~(Size - 1); }

  uint32_t meta_rank_;
  uint32_t meta_size_;
};

template <unsigned int Size>
HIPSYNTH_CG thread_block_tile<Size, thread_block> tiled_partition(const thread_block& parent) {
  return thread_block_tile<Size, thread_block>(parent.thread_rank() / Size, (parent.size() + Size - 1) / Size);
}
template <unsigned int Size, unsigned int ParentSize, class Grand>
HIPSYNTH_CG thread_block_tile<Size, thread_block_tile<ParentSize, Grand>> tiled_partition(
    const thread_block_tile<ParentSize, Grand>& parent) {
  static_assert(Size <= ParentSize, "a tile is not larger than what it is cut from");
  return thread_block_tile<Size, thread_block_tile<ParentSize, Grand>>(parent.thread_rank() / Size, ParentSize / Size);
}

// A tile whose size is known at run time only.
HIPSYNTH_CG coalesced_group tiled_partition(const coalesced_group& parent, unsigned int tile_size) {
  assert(internal::is_tile_size(tile_size) && "invalid tile size");
  uint32_t tile = parent.thread_rank() / tile_size, position = 0;
  lane_mask lanes = 0;
  for (lane_mask rest = parent.lanes(); rest != 0; rest &= rest - 1, ++position) {
    if (position / tile_size == tile) lanes |= rest & -rest;
  }
  return coalesced_group(lanes, tile, (parent.size() + tile_size - 1) / tile_size);
}
__device__ __forceinline__ thread_group tiled_partition(const thread_group& parent, unsigned int tile_size) {
  assert(internal::is_tile_size(tile_size) && "invalid tile size");
  if (parent.type_ == internal::cg_coalesced_group) return tiled_partition(coalesced_group(parent.mask_), tile_size);
  uint32_t first = parent.thread_rank() & ~(tile_size - 1);  // the last tile of a group may be a part of one
  uint32_t size = parent.size() - first < tile_size ? parent.size() - first : tile_size;
  lane_mask lanes = (~0ull >> (internal::wavefront - size)) << (internal::lane() & ~(tile_size - 1));
  return thread_group(internal::cg_tiled_group, size, lanes);
}

// The threads of a group that agree with this one on the predicate.
template <unsigned int Size, class ParentT>
HIPSYNTH_CG coalesced_group binary_partition(const thread_block_tile<Size, ParentT>& group, bool predicate) {
  unsigned long long votes = group.ballot(predicate);
  unsigned long long mine = predicate ? votes : ~votes & (~0ull >> (internal::wavefront - Size));
  return coalesced_group(mine << (internal::lane() & ~(Size - 1)), predicate ? 1 : 0, 2);
}
HIPSYNTH_CG coalesced_group binary_partition(const coalesced_group& group, bool predicate) {
  lane_mask votes = __ballot(predicate);
  return coalesced_group(group.lanes() & (predicate ? votes : ~votes), predicate ? 1 : 0, 2);
}

// --- free functions ------------------------------------------------------------------------------------------------

template <class Group>
HIPSYNTH_CG uint32_t group_size(const Group& group) {
  return group.size();
}
template <class Group>
HIPSYNTH_CG uint32_t thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
HIPSYNTH_CG bool is_valid(const Group& group) {
  return group.is_valid();
}
template <class Group>
HIPSYNTH_CG void sync(const Group& group) {
  group.sync();
}

}  // namespace cooperative_groups

#undef HIPSYNTH_CG
#undef HIPSYNTH_CG_MEMBER

#endif  // __cplusplus && __HIP__

#endif  // HIPSYNTH_HIP_COOPERATIVE_GROUPS_H
