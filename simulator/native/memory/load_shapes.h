// Coalesced forms of the scattered loads that a dispatch did last: most repeat the pattern of an earlier one at another
// address, and comparing 64 addresses takes a tenth of coalescing them.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "memory/access.h"

namespace hipsynth {

class LoadShapes {
 public:
  // `start` is the offset of the first active lane's address in its vL1D line. compute(shape) fills the shape of a load
  // that is not known.
  template <class Compute>
  const LoadShape& of(const WaveAccess& a, uint32_t start, Compute compute) {
    const uint64_t first = a.address[std::countr_zero(a.exec)];
    const uint64_t last = a.address[63 - std::countl_zero(a.exec)];
    const uint64_t key = ((last - first) * kOdd ^ a.exec) * kOdd + (uint64_t{a.bytes} << 32 | start);
    Entry& e = entries_[key * kOdd >> (64 - kPlaceBits)];
    if (e.key == key && e.bytes == a.bytes && e.start == start && e.exec == a.exec && same(a, first, e.offset))
      return e.shape;
    e.key = key;
    e.exec = a.exec;
    e.bytes = a.bytes;
    e.start = start;
    for (uint32_t i = 0; i < kLanes; ++i) e.offset[i] = a.address[i] - first;
    compute(&e.shape);
    return e.shape;
  }

 private:
  static constexpr int kPlaceBits = 4;
  static constexpr uint32_t kLanes = 64;
  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ull;
  struct Entry {
    uint64_t key = 0, exec = 0;
    uint32_t bytes = 0, start = 0;  // bytes 0: free
    uint64_t offset[kLanes];        // from the first active lane's address
    LoadShape shape;
  };

  static bool same(const WaveAccess& a, uint64_t first, const uint64_t* offset) {
    uint64_t differ = 0;
    if (a.exec == ~uint64_t{0}) {
      for (uint32_t i = 0; i < kLanes; ++i) differ |= (a.address[i] - first) ^ offset[i];
    } else {
      for (uint64_t rest = a.exec; rest; rest &= rest - 1) {
        const int i = std::countr_zero(rest);
        differ |= (a.address[i] - first) ^ offset[i];
      }
    }
    return differ == 0;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(size_t{1} << kPlaceBits);
};

}  // namespace hipsynth
