#include "core/footprint.h"

#include <algorithm>
#include <cstring>

namespace hipsynth {
namespace {

uint64_t folded_product(uint64_t a, uint64_t b) {
  const auto wide = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(wide) ^ static_cast<uint64_t>(wide >> 64);
}

// Hashes whole pages in independent streams, because the latency of a product is several times its cost.
uint64_t hash_pages(uint64_t seed, const Extent& e) {
  constexpr size_t kStreams = 4, kBlock = kStreams * 2 * sizeof(uint64_t);
  constexpr uint64_t kKeys[kStreams] = {0xa0761d6478bd642full, 0xe7037ed1a0b428dbull, 0x8ebc6af09c88c6e3ull,
                                        0x589965cc75374cc3ull};
  uint64_t sum[kStreams] = {seed, seed, seed, seed};
  const auto* p = reinterpret_cast<const char*>(e.start);
  for (const char* end = p + e.bytes; p < end; p += kBlock) {
    uint64_t word[kStreams * 2];
    std::memcpy(word, p, sizeof word);
    for (size_t i = 0; i < kStreams; ++i)
      sum[i] = folded_product(word[2 * i] ^ kKeys[i], word[2 * i + 1] ^ sum[i]) + kKeys[i];
  }
  uint64_t all = e.start ^ e.bytes;
  for (const uint64_t s : sum) all = folded_product(all ^ kKeys[0], s ^ kKeys[1]) + kKeys[2];
  return all;
}

}  // namespace

uint64_t fingerprint(const Extents& pages) {
  uint64_t sum = 0;
  for (const Extent& e : pages) sum = hash_pages(sum, e);
  return sum;
}

void Footprint::clear() {
  for (Range* range : {&internal_, &user_}) {
    if (range->low <= range->high)
      std::fill(range->chunks.begin() + static_cast<std::ptrdiff_t>(range->low),
                range->chunks.begin() + static_cast<std::ptrdiff_t>(range->high) + 1, Chunk{});
    range->low = ~0ull;
    range->high = 0;
  }
  outside_ = {};
  complete_ = true;
}

Footprint::Chunk& Footprint::extend(Range* range, uint64_t i) {
  if (i >= kMostChunks) {
    complete_ = false;
    return outside_;
  }
  range->low = std::min(range->low, i);
  range->high = std::max(range->high, i);
  if (i >= range->chunks.size()) range->chunks.resize(std::max<size_t>(i + 1, range->chunks.size() * 2));
  return range->chunks[i];
}

bool Footprint::forget(const Extent& bytes) {
  bool written = false;
  if (bytes.bytes == 0) return false;
  for (uint64_t page = page_of(bytes.start); page <= page_of(bytes.start + bytes.bytes - 1); ++page) {
    const uint64_t i = page / kPagesPerChunk, bit = uint64_t{1} << page % kPagesPerChunk;
    if (i >= internal_.chunks.size()) break;  // only the simulator's own memory is ever forgotten
    Chunk& c = internal_.chunks[i];
    written |= (c.writes & bit) != 0;
    c.decides &= ~bit;
    c.reads &= ~bit;
    c.writes &= ~bit;
  }
  return written;
}

Extents Footprint::pages(uint8_t uses) const {
  Extents found;
  const auto add = [&](uint64_t page) {
    const uint64_t at = base_ + page * kPage;
    if (!found.empty() && found.back().start + found.back().bytes == at)
      found.back().bytes += kPage;
    else
      found.push_back({at, kPage});
  };
  for (const auto& [range, offset] : {std::pair{&internal_, uint64_t{0}}, std::pair{&user_, kUserChunk}}) {
    for (uint64_t i = range->low; i <= range->high && i < range->chunks.size(); ++i) {
      for (uint64_t rest = range->chunks[i].with(uses); rest; rest &= rest - 1)
        add((i + offset) * kPagesPerChunk + static_cast<uint64_t>(std::countr_zero(rest)));
    }
  }
  return found;
}

bool Footprint::overlap(Use use, uint8_t others) const {
  for (const Range* range : {&internal_, &user_}) {
    for (uint64_t i = range->low; i <= range->high && i < range->chunks.size(); ++i) {
      if (range->chunks[i].with(use) & range->chunks[i].with(others)) return true;
    }
  }
  return false;
}

}  // namespace hipsynth
