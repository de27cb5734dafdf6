// Determines the 64-byte segments that one wave instruction accesses, in the vL1D's look-up order.
#pragma once

#include <cstdint>

namespace hipsynth {

inline constexpr uint32_t kSegmentBytes = 64;
inline constexpr uint32_t kMaxSegments = 64 * 3;  // a 16-byte lane touches at most two; slack for odd widths

// The vL1D processes 16 lanes at a time if a lane accesses at most 4 bytes, else 4 lanes, and does one look-up per
// distinct 64-byte segment of such a group. This reproduces the recorded look-ups on both architectures: contiguous
// dword 4, dwordx2 16, dwordx4 16, dword misaligned by 4 bytes 8, fully divergent 8-byte load 64.
inline uint32_t group_lanes(uint32_t lane_bytes) { return lane_bytes <= 4 ? 16 : 4; }

// TCP_TOTAL_ACCESSES of one instruction, independent of EXEC: four per group of lanes that the vL1D processes at a time
// (recorded: 64 for 8-byte loads and stores, 16 for loads of a dword or less).
inline uint32_t accesses(uint32_t lane_bytes) { return 4 * 64 / group_lanes(lane_bytes); }

// Writes segment numbers (address / 64) to `out` and returns how many; duplicates occur only across groups.
inline uint32_t look_ups(const uint64_t* address, uint64_t exec, uint32_t lane_bytes, uint64_t* out) {
  const uint32_t lanes = group_lanes(lane_bytes);
  uint32_t n = 0;
  for (uint32_t first = 0; first < 64; first += lanes) {
    const uint32_t group_start = n;
    const auto add = [&](uint64_t segment) {
      for (uint32_t i = n; i > group_start; --i) {
        if (out[i - 1] == segment) return;
      }
      out[n++] = segment;
    };
    for (uint32_t lane = first; lane < first + lanes; ++lane) {
      if (!(exec >> lane & 1)) continue;
      const uint64_t s = address[lane] / kSegmentBytes;
      if (n == group_start || out[n - 1] != s) add(s);
      const uint64_t last = (address[lane] + lane_bytes - 1) / kSegmentBytes;
      if (last != s) add(last);
    }
  }
  return n;
}

// 64 active lanes at base + lane * lane_bytes: they access all segments from the first to the last, most of them from
// several groups. Returns the number of look-ups.
inline uint32_t look_ups_contiguous(uint64_t base, uint32_t lane_bytes) {
  const uint32_t groups = 64 / group_lanes(lane_bytes), span = group_lanes(lane_bytes) * lane_bytes;
  if (kSegmentBytes % span == 0 && base % span == 0) return groups;  // no group crosses a segment boundary
  uint32_t n = 0;
  for (uint64_t at = base; at < base + 64ull * lane_bytes; at += span) {
    n += static_cast<uint32_t>((at + span - 1) / kSegmentBytes - at / kSegmentBytes) + 1;
  }
  return n;
}

// Range of segments of such an access.
struct SegmentRange {
  uint64_t first, last;
};
inline SegmentRange segments_contiguous(uint64_t base, uint32_t lane_bytes) {
  return {base / kSegmentBytes, (base + 64ull * lane_bytes - 1) / kSegmentBytes};
}

}  // namespace hipsynth
