#include <algorithm>
#include <bit>

#include "memory/coalescer.h"
#include "memory/hierarchy.h"

namespace hipsynth {
namespace {

// The 32-byte sectors of a 64-byte segment that a store writes.
uint8_t touched_sectors(const WaveAccess& a, uint64_t segment) {
  if (a.contiguous) return 3;
  uint8_t touched = 0;
  for (uint64_t rest = a.exec; rest && touched != 3; rest &= rest - 1) {
    const uint64_t first = a.address[std::countr_zero(rest)], last = first + a.bytes - 1;
    if (first / kSegmentBytes > segment || last / kSegmentBytes < segment) continue;
    const uint64_t low = std::max(first, segment * kSegmentBytes);
    const uint64_t high = std::min(last, segment * kSegmentBytes + kSegmentBytes - 1);
    touched |= static_cast<uint8_t>(1u << (low / kSectorBytes & 1) | 1u << (high / kSectorBytes & 1));
  }
  return touched;
}

// Removes all but the first of equal segments; returns how many are left.
uint32_t unique_segments(uint64_t* segments, uint32_t n) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n; ++i) {
    if (std::find(segments, segments + kept, segments[i]) == segments + kept) segments[kept++] = segments[i];
  }
  return kept;
}

}  // namespace

void Hierarchy::write_line(uint32_t xcd, const Written& w) {
  if (w.requests) l2_access(xcd, line_of(w.line), w.sectors, false, w.requests);
}

// Passes a streaming store to a line that the L2 does not hold on to memory, together with the next request if that
// writes the line's other sectors.
void Hierarchy::stream(uint32_t xcd, uint64_t line, uint8_t sectors, Written* passing) {
  if (passing->requests && line == passing->line && !(passing->sectors & sectors)) {
    ++n_.l2_hits;
    passing->sectors |= sectors;
    return;
  }
  pass_through(passing);
  const L2Line at = line_of(line);
  if (l2_[xcd].holds(at.place)) {
    l2_access(xcd, at, sectors, false);
    return;
  }
  ++n_.l2_misses;
  n_.l2_evicts += l2_[xcd].take_oldest(at.place);
  *passing = {line, sectors, 1};
}

void Hierarchy::pass_through(Written* passing) {
  if (passing->requests) {
    n_.l2_dirtied += static_cast<uint64_t>(std::popcount(passing->sectors));
    write_back(infinity_.place_of(physical(passing->line)), passing->sectors);
  }
  passing->requests = 0;
}

// A store by lanes with consecutive addresses.
void Hierarchy::store_block(uint32_t xcd, const WaveAccess& a) {
  constexpr uint32_t kSegmentSectors = kSegmentBytes / kSectorBytes;
  const SegmentRange s = segments_contiguous(a.address[0], a.bytes);
  n_.l1_write_req += s.last - s.first + 1;
  n_.l2_writes += s.last - s.first + 1;
  const uint64_t first = s.first / segments_per_l2_line_, last = s.last / segments_per_l2_line_;
  L2Line lines[kMaxSegments];
  for (uint64_t line = first; line <= last; ++line) lines[line - first] = announce(xcd, line);
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

void Hierarchy::store_segments(uint32_t xcd, const WaveAccess& a, const uint64_t* segments, uint32_t n) {
  for (uint32_t i = 0; i < n; i += 2) announce(xcd, segments[i] / segments_per_l2_line_);
  Written last;
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0 && segments[i] == segments[i - 1]) continue;
    ++n_.l1_write_req;
    ++n_.l2_writes;
    const uint64_t line = segments[i] / segments_per_l2_line_;
    const auto sectors =
        static_cast<uint8_t>(touched_sectors(a, segments[i]) << 2 * (segments[i] % segments_per_l2_line_));
    if (a.streaming) {
      stream(xcd, line, sectors, &last);
    } else if (last.requests && line == last.line) {
      last.sectors |= sectors;
      ++last.requests;
    } else {
      write_line(xcd, last);
      last = {line, sectors, 1};
    }
  }
  if (a.streaming)
    pass_through(&last);
  else
    write_line(xcd, last);
}

}  // namespace hipsynth
