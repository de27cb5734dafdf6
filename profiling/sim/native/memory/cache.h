// A set-associative tag store with true LRU order and, for write-back caches, dirty sectors per line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hipsynth {

// One set is a run of `ways` words, most recently used first; a word is line number << 8 | dirty sectors << 1 | valid.
// Dirty lines are kept only in the `dirty_ways` most recently used positions: when a line grows older than that it is
// written back. (Recorded on gfx90a and MI300A: a pure write stream leaves exactly half of the L2 dirty.)
class Cache {
 public:
  struct Geometry {
    uint64_t bytes = 0;
    uint32_t line_bytes = 64, ways = 4, dirty_ways = 0;
    bool hashed = false;  // fold upper line-number bits into the set index
  };
  struct Result {
    bool hit = false;
    bool evicted = false;      // a valid line left
    uint8_t written_back = 0;  // dirty sectors of the line that was written back, 0 if none
    uint64_t written_back_line = 0;
  };

  Cache() = default;
  explicit Cache(const Geometry& geometry);

  // Looks the line up, makes it most recently used, allocates it on a miss. `dirty` marks sectors as modified.
  Result access(uint64_t line, uint8_t dirty = 0) {
    uint64_t* set = set_of(line);
    const uint64_t tag = line << kTagShift;
    uint32_t way = 0;
    while (way < ways_ && (set[way] & kTagMask) != (tag | kValid)) ++way;
    Result r;
    r.hit = way < ways_;
    uint64_t entry = tag | kValid | static_cast<uint64_t>(dirty) << kDirtyShift;
    if (r.hit) {
      entry |= set[way];
    } else {
      way = ways_ - 1;
      r.evicted = set[way] & kValid;
      take_dirty(&set[way], &r);
    }
    for (uint32_t i = way; i > 0; --i) set[i] = set[i - 1];
    set[0] = entry;
    if (dirty_ways_ < ways_ && way >= dirty_ways_) take_dirty(&set[dirty_ways_], &r);
    return r;
  }

  // Asks the host for the set that `line` maps to. Large tag stores do not fit the host's caches.
  void prefetch(uint64_t line) {
    const char* set = reinterpret_cast<const char*>(set_of(line));
    for (uint32_t at = 0; at < ways_ * sizeof(uint64_t); at += 64) __builtin_prefetch(set + at, 1);
  }

  // Forgets every line; calls back(line, dirty sectors) for the modified ones first.
  template <class F>
  void flush(F&& back) {
    for (uint64_t& entry : entries_) {
      if (entry & kDirtyMask) back(entry >> kTagShift, static_cast<uint8_t>((entry & kDirtyMask) >> kDirtyShift));
      entry = 0;
    }
  }
  void invalidate() {
    if (!entries_.empty()) std::fill(entries_.begin(), entries_.end(), 0);
  }
  bool present() const { return !entries_.empty(); }

 private:
  static constexpr uint32_t kTagShift = 8, kDirtyShift = 1;
  static constexpr uint64_t kValid = 1, kDirtyMask = 0x1e, kTagMask = ~0xffull | kValid;

  uint64_t* set_of(uint64_t line) {
    if (hashed_) line ^= line >> 7 ^ line >> 14 ^ line >> 21;
    return &entries_[(power_of_two_ ? line & (sets_ - 1) : line % sets_) * ways_];
  }
  static void take_dirty(uint64_t* entry, Result* r) {
    if (!(*entry & kDirtyMask)) return;
    r->written_back = static_cast<uint8_t>((*entry & kDirtyMask) >> kDirtyShift);
    r->written_back_line = *entry >> kTagShift;
    *entry &= ~kDirtyMask;
  }

  uint64_t sets_ = 0;
  uint32_t ways_ = 0, dirty_ways_ = 0;
  bool hashed_ = false, power_of_two_ = true;
  std::vector<uint64_t> entries_;
};

inline Cache::Cache(const Geometry& g)
    : sets_(g.bytes / (static_cast<uint64_t>(g.line_bytes) * g.ways)),
      ways_(g.ways),
      dirty_ways_(g.dirty_ways ? g.dirty_ways : g.ways),
      hashed_(g.hashed),
      power_of_two_((sets_ & (sets_ - 1)) == 0),
      entries_(sets_ * g.ways) {}

}  // namespace hipsynth
