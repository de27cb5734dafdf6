#include <algorithm>
#include <bit>
#include <optional>

#include "memory/coalescer.h"
#include "memory/hierarchy.h"
#include "memory/lane_keys.h"

namespace hipsynth {
namespace {

constexpr uint32_t kSegmentSectors = kSegmentBytes / kSectorBytes;
constexpr uint8_t kWholeSegment = (1u << kSegmentSectors) - 1;

// The 32-byte sectors that a scattered store writes, by 64-byte segment.
class WrittenSectors {
 public:
  explicit WrittenSectors(const WaveAccess& a) {
    for (uint64_t rest = a.exec; rest; rest &= rest - 1) {
      const uint64_t first = a.address[std::countr_zero(rest)], last = first + a.bytes - 1;
      for (uint64_t sector = first / kSectorBytes; sector <= last / kSectorBytes; ++sector)
        sectors_[segments_.number(sector / kSegmentSectors)] |= static_cast<uint8_t>(1u << sector % kSegmentSectors);
    }
  }
  uint8_t of(uint64_t segment) { return sectors_[segments_.number(segment)]; }

 private:
  LaneKeys segments_;
  uint8_t sectors_[LaneKeys::kMost] = {};
};

// Removes all but the first of equal segments; returns how many are left.
uint32_t unique_segments(uint64_t* segments, uint32_t n) {
  LaneKeys distinct;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t before = distinct.size();
    if (distinct.number(segments[i]) == before) segments[before] = segments[i];
  }
  return distinct.size();
}

}  // namespace

// Passes a streaming store to a line that the L2 does not hold on to memory, together with the next request if that
// writes the line's other sectors.
void Hierarchy::stream(uint32_t xcd, const Written& next, Written* passing) {
  if (passing->requests && next.line == passing->line && !(passing->sectors & next.sectors)) {
    ++n_.l2_hits;
    passing->sectors |= next.sectors;
    return;
  }
  pass_through(passing);
  if (l2_[xcd].holds(next.at.place)) {
    l2_access(xcd, next.at, next.sectors, false);
    return;
  }
  ++n_.l2_misses;
  n_.l2_evicts += l2_[xcd].take_oldest(next.at.place);
  *passing = next;
}

void Hierarchy::pass_through(Written* passing) {
  if (passing->requests) {
    n_.l2_dirtied += static_cast<uint64_t>(std::popcount(passing->sectors));
    write_back(infinity_.place_of(passing->at.physical), passing->sectors);
  }
  passing->requests = 0;
}

// A store by lanes with consecutive addresses.
void Hierarchy::store_block(uint32_t xcd, const WaveAccess& a) {
  const SegmentRange s = segments_contiguous(a.address[0], a.bytes);
  n_.l1_write_req += s.last - s.first + 1;
  n_.l2_writes += s.last - s.first + 1;
  const uint64_t first = s.first / segments_per_l2_line_, last = s.last / segments_per_l2_line_;
  L2Line lines[kMaxSegments];
  for (uint64_t line = first; line <= last; ++line) lines[line - first] = announce(xcd, line);
  for (uint64_t line = first; line <= last; ++line) announce_write_back(xcd, lines[line - first]);
  const uint64_t per_line = segments_per_l2_line_.value();
  for (uint64_t line = first; line <= last; ++line) {
    const uint64_t from = std::max(s.first, line * per_line), to = std::min(s.last, line * per_line + per_line - 1);
    const auto requests = static_cast<uint32_t>(to - from + 1);
    const uint32_t sectors = ((1u << requests * kSegmentSectors) - 1) << (from - line * per_line) * kSegmentSectors;
    l2_access(xcd, lines[line - first], static_cast<uint8_t>(sectors), false, requests);
  }
}

// The vL1D writes through without allocating: consecutive look-ups of one 64-byte segment leave as one request; on some
// devices so do those of different groups of lanes.
Level Hierarchy::store(uint32_t cu, const WaveAccess& a) {
  const uint32_t xcd = cu / cus_per_xcd_;
  n_.l1_accesses += accesses(a.bytes);
  n_.l1_writes += accesses(a.bytes);
  uint64_t segments[kMaxSegments];
  uint32_t n =
      a.contiguous ? look_ups_contiguous(a.address[0], a.bytes) : look_ups(a.address, a.exec, a.bytes, segments);
  n_.l1_lookups += n;
  l1_cycles_[cu] += std::max(n, 1u);
  if (a.contiguous && !a.streaming) {
    store_block(xcd, a);
    return Level::l2;
  }
  if (a.contiguous) {
    n = 0;
    const SegmentRange s = segments_contiguous(a.address[0], a.bytes);
    for (uint64_t at = s.first; at <= s.last; ++at) segments[n++] = at;
  }
  store_segments(xcd, a, segments, merges_stores_ && a.bytes <= 4 ? unique_segments(segments, n) : n);
  return Level::l2;
}

// Consecutive requests to one line look it up once, unless the store is streaming.
void Hierarchy::store_segments(uint32_t xcd, const WaveAccess& a, const uint64_t* segments, uint32_t n) {
  Written lines[kMaxSegments];
  uint32_t written = 0;
  std::optional<WrittenSectors> scattered;
  if (!a.contiguous) scattered.emplace(a);
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0 && segments[i] == segments[i - 1]) continue;
    const uint64_t line = segments[i] / segments_per_l2_line_;
    const uint8_t segment_sectors = scattered ? scattered->of(segments[i]) : kWholeSegment;
    const auto sectors =
        static_cast<uint8_t>(segment_sectors << kSegmentSectors * (segments[i] % segments_per_l2_line_));
    ++n_.l1_write_req;
    ++n_.l2_writes;
    if (!a.streaming && written > 0 && lines[written - 1].line == line) {
      lines[written - 1].sectors |= sectors;
      ++lines[written - 1].requests;
    } else {
      lines[written++] = {line, sectors, 1, announce(xcd, line)};
    }
  }
  if (a.streaming) return stream_lines(xcd, lines, written);
  for (uint32_t i = 0; i < written; ++i) announce_write_back(xcd, lines[i].at);
  for (uint32_t i = 0; i < written; ++i) l2_access(xcd, lines[i].at, lines[i].sectors, false, lines[i].requests);
}

void Hierarchy::stream_lines(uint32_t xcd, const Written* lines, uint32_t n) {
  if (infinity_.present()) {
    for (uint32_t i = 0; i < n; ++i) infinity_.prefetch(infinity_.place_of(lines[i].at.physical));
  }
  Written passing{};
  for (uint32_t i = 0; i < n; ++i) stream(xcd, lines[i], &passing);
  pass_through(&passing);
}

}  // namespace hipsynth
