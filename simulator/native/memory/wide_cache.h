// Tag store for caches with many ways per set, with true LRU order and no modified lines: used for the vL1D.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/set_hash.h"

namespace hipsynth {

// The tags of a set are unordered and compared eight at a time; a linked ring through its ways gives the order of use,
// so that hits and misses move no tags. Tags are the low 32 bits of the line number's upper part: lines with the same
// tag are 2^32 lines apart, more than a device's memory. Tag 0 is an empty way.
class WideCache {
 public:
  static bool suits(uint32_t ways) { return ways >= kTagsAtOnce && ways % kTagsAtOnce == 0 && ways <= kMaxWays; }

  // Throws std::invalid_argument.
  WideCache(uint64_t bytes, uint32_t line_bytes, uint32_t ways, Hash hash)
      : ways_(ways),
        sets_(static_cast<uint32_t>(bytes / (uint64_t{line_bytes} * ways))),
        set_bits_(std::countr_zero(sets_)) {
    if (!suits(ways) || !std::has_single_bit(sets_)) {
      throw std::invalid_argument("a cache of " + std::to_string(bytes) + " bytes and " + std::to_string(ways) +
                                  " ways cannot be modelled");
    }
    hash_ = SetHash(hash, set_bits_);
  }

  // Whether the line is present; makes it the most recently used one.
  bool access(uint64_t line) {
    const auto set = static_cast<uint32_t>(hash_.spread(line & (sets_ - 1)) ^ hash_.of(line >> set_bits_));
    const uint32_t tag = static_cast<uint32_t>(line >> set_bits_) + 1;
    if (!used_) begin();
    uint32_t* tags = &tags_[size_t{set} * ways_];
    uint8_t& newest = newest_[set];
    if (tags[newest] == tag) return true;
    Link* links = &links_[size_t{set} * ways_];
    if (const uint32_t way = find(tags, tag); way < ways_) {
      to_front(links, static_cast<uint8_t>(way), &newest);
      return true;
    }
    newest = links[newest].newer;  // the ring closes: the oldest follows the newest
    tags[newest] = tag;
    return false;
  }

  // Empties the cache.
  void invalidate() { used_ = false; }

 private:
  static constexpr uint32_t kTagsAtOnce = 8, kMaxWays = 256;

  struct Link {
    uint8_t older, newer;
  };

  // Allocated on first use: small kernels use only few of a device's caches.
  [[gnu::noinline]] void begin() {
    used_ = true;
    tags_.assign(size_t{sets_} * ways_, 0);
    if (!links_.empty()) return;
    newest_.resize(sets_);
    links_.resize(tags_.size());
    for (uint32_t i = 0; i < links_.size(); ++i) {
      const uint32_t way = i % ways_;
      links_[i] = {static_cast<uint8_t>((way + ways_ - 1) % ways_), static_cast<uint8_t>((way + 1) % ways_)};
    }
  }

  // The way that holds the tag, or ways_ if there is none. Tests all ways first, because streamed data usually misses.
  uint32_t find(const uint32_t* tags, uint32_t tag) const {
    const __m256i wanted = _mm256_set1_epi32(static_cast<int>(tag));
    const auto equal = [&](uint32_t way) {
      return _mm256_cmpeq_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(tags + way)), wanted);
    };
    __m256i any = equal(0);
    for (uint32_t way = kTagsAtOnce; way < ways_; way += kTagsAtOnce) any = _mm256_or_si256(any, equal(way));
    if (_mm256_testz_si256(any, any)) return ways_;
    for (uint32_t way = 0;; way += kTagsAtOnce) {
      const int found = _mm256_movemask_ps(_mm256_castsi256_ps(equal(way)));
      if (found) return way + static_cast<uint32_t>(std::countr_zero(static_cast<uint32_t>(found)));
    }
  }

  static void to_front(Link* links, uint8_t way, uint8_t* newest) {
    const Link old = links[way];
    links[old.older].newer = old.newer;
    links[old.newer].older = old.older;
    const uint8_t oldest = links[*newest].newer;
    links[way] = {*newest, oldest};
    links[*newest].newer = way;
    links[oldest].older = way;
    *newest = way;
  }

  uint32_t ways_, sets_;
  int set_bits_;
  SetHash hash_;
  bool used_ = false;
  std::vector<uint32_t> tags_;
  std::vector<uint8_t> newest_;  // [set]
  std::vector<Link> links_;      // [set][way]
};

}  // namespace hipsynth
