// A set-associative tag store with true LRU order and, for write-back caches, dirty sectors per line.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory/pages.h"
#include "memory/set_hash.h"

namespace hipsynth {

// Each set is an array of `ways` tags, most recently used first; tag 0 is an empty way. Tags are compact, 32 bits if
// there are many sets: these stores are larger than the host's caches. A line number is optionally hashed; its lower
// part is the set and its upper part plus one the tag, so that both together give the line number.
// Only the `dirty_ways` most recently used positions can be dirty: a line that ages past them is written back.
// (Recorded on gfx90a and MI300A: a pure write stream leaves exactly half of the L2 dirty.) Each set has a word with
// four bits for each of these positions: the line's dirty sectors.
template <class Tag>
class BasicCache {
 public:
  struct Geometry {
    uint64_t bytes = 0;
    uint32_t line_bytes = 64, ways = 4;
    uint32_t dirty_ways = 0;  // at most 16; 0: all ways, or the first 16
    Hash hash = Hash::none;   // how upper address bits choose the set, too; none unless there are 2^n sets
  };
  struct Result {
    bool hit = false;
    bool evicted = false;      // a valid line was evicted
    uint8_t dirtied = 0;       // sectors that became dirty
    uint8_t written_back = 0;  // dirty sectors of a line that was written back, 0 if none
    uint64_t written_back_line = 0;
  };

  BasicCache() = default;
  explicit BasicCache(const Geometry& geometry);  // throws std::invalid_argument

  // Set and tag of a line, computed once for several operations.
  struct Place {
    uint64_t set;
    Tag tag;
  };
  Place place_of(uint64_t line) const {
    if (power_of_two_) {
      const uint64_t upper = line >> set_bits_;
      return {hash_.spread(line & (sets_ - 1)) ^ hash_.of(upper), static_cast<Tag>(upper + 1)};
    }
    return {line % sets_, static_cast<Tag>(line / sets_ + 1)};
  }

  // Looks the line up, makes it the most recently used one and allocates it on a miss. `dirty` marks sectors as
  // modified.
  Result access(uint64_t line, uint8_t dirty = 0) { return access(place_of(line), dirty); }
  Result access(Place at, uint8_t dirty) {
    Tag* set = &tags_[at.set * ways_];
    touch(at.set);
    const Tag oldest = set[ways_ - 1];
    const Found found = ways_ == 16 && sizeof(Tag) == 4  ? promote_16(set, at.tag)
                        : ways_ == 4 && sizeof(Tag) == 8 ? promote_4(set, at.tag)
                                                         : promote(set, ways_, at.tag);
    if (dirty != 0 && dirty_.size() == 0) dirty_ = PageArray<uint64_t>(sets_);
    Result r{found.hit, !found.hit && oldest != 0};
    if (dirty_.size() != 0) age_dirty(at.set, found, oldest, dirty, &r);
    return r;
  }

  // Whether the line is present; changes nothing.
  bool holds(Place at) {
    const Tag* set = &tags_[at.set * ways_];
    if (ways_ == 16 && sizeof(Tag) == 4) return equal_16(set, at.tag) != 0;
    return std::find(set, set + ways_, at.tag) != set + ways_;
  }

  // The modified line that is written back when an absent line is allocated there.
  std::optional<uint64_t> next_write_back(Place at) {
    const uint32_t way = dirty_ways_ - 1;
    if (dirty_.size() == 0 || !(dirty_[at.set] >> way * kDirtyBits & kDirtyMask)) return std::nullopt;
    return line_of(at.set, tags_[at.set * ways_ + way]);
  }

  // Allocates a line that is absent and stays unmodified in the least recently used position, so that the next miss
  // replaces it; true if a valid line was evicted. For caches whose oldest lines are never dirty.
  bool take_oldest(Place at) {
    touch(at.set);
    return std::exchange(tags_[at.set * ways_ + ways_ - 1], at.tag) != 0;
  }

  // Prefetches the set of a line into the host's caches, which large tag stores do not fit.
  void prefetch(Place at) {
    const char* tags = reinterpret_cast<const char*>(&tags_[at.set * ways_]);
    for (uint32_t byte = 0; byte < ways_ * sizeof(Tag); byte += kHostLine) __builtin_prefetch(tags + byte, 1);
    if (dirty_.size() != 0) __builtin_prefetch(&dirty_[at.set], 1);
  }

  // Empties the cache; first calls back(line, dirty sectors) for the modified lines.
  template <class F>
  void flush(F&& back) {
    write_back(back);
    invalidate();
  }
  // Calls back(line, dirty sectors) for the modified lines, set by set, newest first; they are unmodified then.
  template <class F>
  void write_back(F&& back) {
    each_modified([&](uint64_t line, uint8_t sectors) { back(line, sectors); });
    for (uint64_t blocks = dirty_.size() ? touched_ : 0; blocks; blocks &= blocks - 1) {
      const auto [first, end] = block(std::countr_zero(blocks));
      std::fill(&dirty_[first], &dirty_[0] + end, 0);
    }
  }
  template <class F>
  void each_modified(F&& see) {
    for (uint64_t blocks = dirty_.size() ? touched_ : 0; blocks; blocks &= blocks - 1) {
      const auto [first, end] = block(std::countr_zero(blocks));
      for (uint64_t set = first; set < end; ++set) {
        for (uint64_t word = dirty_[set]; word != 0;) {
          const uint32_t way = static_cast<uint32_t>(std::countr_zero(word)) / kDirtyBits;
          see(line_of(set, tags_[set * ways_ + way]), static_cast<uint8_t>(word >> way * kDirtyBits & kDirtyMask));
          word &= ~(kDirtyMask << way * kDirtyBits);
        }
      }
    }
  }
  // Modified sectors of all lines.
  uint64_t dirty_sectors() const {
    uint64_t sum = 0;
    for (uint64_t blocks = dirty_.size() ? touched_ : 0; blocks; blocks &= blocks - 1) {
      const auto [first, end] = block(std::countr_zero(blocks));
      for (uint64_t set = first; set < end; ++set) sum += static_cast<uint64_t>(std::popcount(dirty_[set]));
    }
    return sum;
  }
  // Empties a cache that has no modified lines.
  void invalidate() {
    for (; touched_; touched_ &= touched_ - 1) {
      const auto [first, end] = block(std::countr_zero(touched_));
      std::fill(&tags_[first * ways_], &tags_[0] + end * ways_, Tag{0});
    }
  }
  // Ages all lines as `lines` others would that nobody looks up later, spread evenly over the sets.
  void age(uint64_t lines) {
    const uint64_t each = lines / sets_, more = lines % sets_;
    for (uint64_t set = 0; set < sets_; ++set) {
      const uint64_t n = std::min<uint64_t>(ways_, each + ((set * kOdd >> kHashBits) * sets_ >> kHashBits < more));
      if (n == 0) continue;
      touch(set);
      Tag* tags = &tags_[set * ways_];
      std::copy_backward(tags, tags + ways_ - n, tags + ways_);
      std::fill(tags, tags + n, kNobody);
      if (dirty_.size() != 0) dirty_[set] = n < kMaxDirtyWays ? dirty_[set] << n * kDirtyBits & dirty_positions_ : 0;
    }
  }
  // Removes a line, if it is there, from a cache that has no modified lines.
  void remove(Place at) {
    Tag* set = &tags_[at.set * ways_];
    Tag* way = std::find(set, set + ways_, at.tag);
    if (way == set + ways_) return;
    std::copy(way + 1, set + ways_, way);
    set[ways_ - 1] = 0;
  }
  bool present() const { return sets_ != 0; }
  uint64_t lines() const { return sets_ * ways_; }

  // A hash of all lines, their order of use and their modified sectors.
  uint64_t fingerprint() const {
    uint64_t sum = 0;
    for (uint64_t blocks = touched_; blocks; blocks &= blocks - 1) {
      const auto [first, end] = block(std::countr_zero(blocks));
      for (uint64_t set = first; set < end; ++set) {
        uint64_t all = dirty_.size() ? dirty_[set] : 0;
        for (uint32_t way = 0; way < ways_; ++way) all = (std::rotl(all, 5) ^ tags_[set * ways_ + way]) * kOdd;
        if (all != 0) sum += (all ^ set) * ((all ^ all >> 32) | 1);
      }
    }
    return sum;
  }

 private:
  static constexpr uint32_t kHostLine = 64, kDirtyBits = 4, kMaxDirtyWays = 16;
  static constexpr uint64_t kDirtyMask = 15;
  static constexpr int kAddressBits = 47;  // of user space
  static constexpr int kHashBits = 32;
  static constexpr Tag kNobody = std::numeric_limits<Tag>::max();  // tag of no line
  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ull;

  // Tracks used sets in 64 blocks, so that only those need to be cleared.
  void touch(uint64_t set) { touched_ |= uint64_t{1} << (set >> block_bits_); }
  std::pair<uint64_t, uint64_t> block(int i) const {
    const auto first = static_cast<uint64_t>(i) << block_bits_;
    return {first, std::min(sets_, first + (uint64_t{1} << block_bits_))};
  }
  uint64_t line_of(uint64_t set, Tag tag) const {
    const uint64_t upper = tag - uint64_t{1};
    if (!power_of_two_) return upper * sets_ + set;
    return upper << set_bits_ | hash_.gather(set ^ hash_.of(upper));
  }

  // The way where a tag was; the last way if it was absent. Returned by value to stay in registers.
  struct Found {
    uint32_t way;
    bool hit;
  };
  // Moves the tag to the front.
  [[gnu::noinline]] static Found promote(Tag* set, uint32_t ways, Tag tag) {
    uint32_t way = 0;
    while (way < ways && set[way] != tag) ++way;
    const bool hit = way < ways;
    if (!hit) --way;
    for (uint32_t i = way; i > 0; --i) set[i] = set[i - 1];
    set[0] = tag;
    return {way, hit};
  }
  // Like promote, for a set that fits one vector register.
  static Found promote_4(Tag* set, Tag tag) {
    auto* row = reinterpret_cast<__m256i*>(set);
    const __m256i old = _mm256_load_si256(row), wanted = _mm256_set1_epi64x(static_cast<int64_t>(tag));
    const auto found = static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(old, wanted))));
    if (found & 1) return {0, true};
    const auto way = static_cast<uint32_t>(found ? std::countr_zero(found) : 3);
    const __m256i moved = _mm256_blend_epi32(_mm256_permute4x64_epi64(old, 0b10010000), wanted, 3);
    const __m256i last = _mm256_set1_epi64x(way);
    const __m256i keep = _mm256_cmpgt_epi64(_mm256_setr_epi64x(0, 1, 2, 3), last);
    _mm256_store_si256(row, _mm256_blendv_epi8(moved, old, keep));
    return {way, found != 0};
  }
  // A bit for each way of a 16-way set that holds the tag.
  static uint32_t equal_16(const Tag* set, Tag tag) {
    const auto* half = reinterpret_cast<const __m256i*>(set);
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(tag));
    const auto equal = [&](const __m256i* v) {
      const __m256i found = _mm256_cmpeq_epi32(_mm256_load_si256(v), wanted);
      return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(found)));
    };
    return equal(half) | equal(half + 1) << 8;
  }
  // Like promote, for a set that fits one host cache line.
  static Found promote_16(Tag* set, Tag tag) {
    auto* half = reinterpret_cast<__m256i*>(set);
    const __m256i low = _mm256_load_si256(half), high = _mm256_load_si256(half + 1);
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(tag));
    const uint32_t found = equal_16(set, tag);
    if (found & 1) return {0, true};
    // All tags before the found one, or all tags, move back by one.
    const __m256i previous = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
    const __m256i low_moved = _mm256_permutevar8x32_epi32(low, previous);
    const __m256i new_low = _mm256_blend_epi32(low_moved, wanted, 1);
    const __m256i new_high = _mm256_blend_epi32(_mm256_permutevar8x32_epi32(high, previous), low_moved, 1);
    if (found == 0) {
      _mm256_store_si256(half, new_low);
      _mm256_store_si256(half + 1, new_high);
      return {15, false};
    }
    const auto way = static_cast<uint32_t>(std::countr_zero(found));
    const __m256i last = _mm256_set1_epi32(static_cast<int>(way));
    const __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i keep_low = _mm256_cmpgt_epi32(place, last);
    const __m256i keep_high = _mm256_cmpgt_epi32(_mm256_add_epi32(place, _mm256_set1_epi32(8)), last);
    _mm256_store_si256(half, _mm256_blendv_epi8(new_low, low, keep_low));
    _mm256_store_si256(half + 1, _mm256_blendv_epi8(new_high, high, keep_high));
    return {way, true};
  }

  // Moves a line's dirty sectors with it from `way` to the front; writes back the line that leaves the dirty positions.
  // `oldest` is the tag that was in the last way.
  void age_dirty(uint64_t set, Found found, Tag oldest, uint8_t dirty, Result* r) {
    const auto [way, hit] = found;
    uint64_t& word = dirty_[set];
    if (hit && way < dirty_ways_) {
      const uint64_t newer = word & ((uint64_t{1} << way * kDirtyBits) - 1);
      const uint64_t older = word & (~kDirtyMask << way * kDirtyBits);
      const uint64_t own = word >> way * kDirtyBits & kDirtyMask;
      r->dirtied = static_cast<uint8_t>(dirty & ~own);
      word = older | newer << kDirtyBits | own | dirty;
      return;
    }
    r->dirtied = dirty;
    r->written_back = static_cast<uint8_t>(word >> (dirty_ways_ - 1) * kDirtyBits & kDirtyMask);
    word = (word << kDirtyBits | dirty) & dirty_positions_;
    if (!r->written_back) return;
    const bool left = !hit && dirty_ways_ == ways_;
    r->written_back_line = line_of(set, left ? oldest : tags_[set * ways_ + dirty_ways_]);
  }

  uint64_t sets_ = 0;
  uint32_t ways_ = 0, dirty_ways_ = 0;
  int set_bits_ = 0;
  int block_bits_ = 0;
  bool power_of_two_ = true;
  SetHash hash_;
  uint64_t touched_ = 0;          // blocks
  uint64_t dirty_positions_ = 0;  // bits of a word of dirty_ that are used
  PageArray<Tag> tags_;
  PageArray<uint64_t> dirty_;  // allocated at the first modified line
};

template <class Tag>
BasicCache<Tag>::BasicCache(const Geometry& g)
    : sets_(g.bytes / (static_cast<uint64_t>(g.line_bytes) * g.ways)),
      ways_(g.ways),
      dirty_ways_(g.dirty_ways ? g.dirty_ways : std::min(g.ways, kMaxDirtyWays)),
      set_bits_(std::countr_zero(sets_)),
      block_bits_(std::max(0, static_cast<int>(std::bit_width(sets_ - 1)) - 6)),
      power_of_two_(std::has_single_bit(sets_)),
      dirty_positions_(dirty_ways_ < kMaxDirtyWays ? (uint64_t{1} << dirty_ways_ * kDirtyBits) - 1 : ~uint64_t{0}),
      tags_(sets_ * g.ways) {
  const uint64_t lines = (uint64_t{1} << kAddressBits) / g.line_bytes;
  if (sets_ == 0 || g.dirty_ways > std::min(g.ways, kMaxDirtyWays) ||
      lines / sets_ >= std::numeric_limits<Tag>::max()) {
    throw std::invalid_argument("a cache of " + std::to_string(g.bytes) + " bytes, " + std::to_string(g.ways) +
                                " ways and " + std::to_string(g.dirty_ways) + " dirty ways cannot be modelled");
  }
  if (power_of_two_) hash_ = SetHash(g.hash, set_bits_);
}

using Cache = BasicCache<uint64_t>;
using LargeCache = BasicCache<uint32_t>;  // for many sets

}  // namespace hipsynth
