// The device memory that a dispatch reads and writes, by pages, and fingerprints of memory contents.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/machine.h"

namespace hipsynth {

// Consecutive pages.
struct Extent {
  uint64_t start = 0, bytes = 0;
};
using Extents = std::vector<Extent>;

// A hash of everything in these pages. Memory that was never touched reads as zeros.
uint64_t fingerprint(const Extents& pages);

class Footprint {
 public:
  // decides: read by loads that addresses or control flow may depend on (Step::decides).
  enum Use : uint8_t { decides = 1, reads = 2, writes = 4 };

  explicit Footprint(const Memory& memory) : base_(memory.start()) {}
  void clear();

  void add(Use use, uint64_t first, uint64_t bytes) {
    const uint64_t last = page_of(first + bytes - 1);
    for (uint64_t page = page_of(first); page <= last; ++page) {
      Chunk& c = chunk(page / kPagesPerChunk);
      const uint64_t bit = uint64_t{1} << page % kPagesPerChunk;
      if (use & decides) c.decides |= bit;
      if (use & writes) c.writes |= bit;
      if (use & reads) c.reads |= bit;
    }
  }
  // An access of `bytes` per lane.
  void add_lanes(Use use, const uint64_t* address, uint64_t exec, uint32_t bytes) {
    uint64_t known = ~0ull;
    for (uint64_t rest = exec; rest; rest &= rest - 1) {
      const uint64_t at = address[std::countr_zero(rest)], page = page_of(at);
      if (page == known && page_of(at + bytes - 1) == page) continue;
      add(use, at, bytes);
      known = page;
    }
  }
  void add_unknown() { complete_ = false; }  // an access that is not followed

  // Forgets accesses to these bytes' pages. True if any was a write.
  bool forget(const Extent& bytes);
  // Whether every access was in device memory and is included.
  bool complete() const { return complete_; }
  // The pages with any of these uses, in ascending order.
  Extents pages(uint8_t uses) const;
  // Whether some page has both `use` and a use among `others`.
  bool overlap(Use use, uint8_t others) const;

 private:
  static constexpr uint64_t kPage = Memory::kPageBytes, kPagesPerChunk = 64;
  static constexpr uint64_t kMostChunks = 1 << 20;  // of internal memory, and of the user's: 256 GiB each
  struct Chunk {
    uint64_t decides = 0, reads = 0, writes = 0;
    uint64_t with(uint8_t uses) const {
      return (uses & Footprint::decides ? decides : 0) | (uses & Footprint::reads ? reads : 0) |
             (uses & Footprint::writes ? writes : 0);
    }
  };
  // The chunks of one range of memory, and which of them may be in use.
  struct Range {
    std::vector<Chunk> chunks;
    uint64_t low = ~0ull, high = 0;
  };

  uint64_t page_of(uint64_t address) const { return (address - base_) / kPage; }
  Chunk& chunk(uint64_t i) {
    Range& range = i < kUserChunk ? internal_ : user_;
    if (i >= kUserChunk) i -= kUserChunk;
    if (i < range.low || i > range.high || i >= range.chunks.size()) [[unlikely]]
      return extend(&range, i);
    return range.chunks[i];
  }
  Chunk& extend(Range* range, uint64_t i);

  static constexpr uint64_t kUserChunk = Memory::kInternalBytes / kPage / kPagesPerChunk;
  uint64_t base_;
  Range internal_, user_;
  Chunk outside_;
  bool complete_ = true;
};

}  // namespace hipsynth
