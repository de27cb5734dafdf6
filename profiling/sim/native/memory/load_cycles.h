// How many cycles the vL1D spends on one wave load whose lanes do not lie side by side.
//
// Fitted to measured cycles per load of 1024 work-items on gfx90a, strides 1 to 64 and tiles 1 to 64 wide, all hits
// (RRZE gpu-benches, gpu-strides): nearly all patterns within 15 %. Four lanes are looked up per cycle, unless eight
// dwords lie side by side; lanes of such a quad wait for each other
// - when their lines share a tag bank (line number modulo 4);
// - when they want one data bank of different lines (16 bytes wide for dwords, 8 bytes for wider loads);
// - when two dwords come from the same position of their 16 bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory/coalescer.h"

namespace hipsynth {

inline constexpr uint32_t kQuadLanes = 4, kTagBanks = 4;

// Distinct values of `what(lane)` among the lanes that agree in `bank(lane)`, for the busiest bank.
template <class Bank, class What>
uint32_t worst_bank(const uint64_t* address, uint32_t mask, Bank bank, What what) {
  uint32_t worst = 1;
  for (uint32_t i = 0; i < kQuadLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    uint32_t distinct = 1;
    for (uint32_t j = 0; j < i; ++j) {
      if (!(mask >> j & 1) || bank(address[j]) != bank(address[i])) continue;
      bool repeated = what(address[j]) == what(address[i]);
      for (uint32_t k = 0; k < j && !repeated; ++k) {
        repeated = (mask >> k & 1) && bank(address[k]) == bank(address[i]) && what(address[k]) == what(address[j]);
      }
      distinct += !repeated;
    }
    worst = std::max(worst, distinct);
  }
  return worst;
}

inline uint32_t quad_cycles(const uint64_t* address, uint32_t mask, uint32_t lane_bytes) {
  const auto line = [](uint64_t a) { return a / kSegmentBytes; };
  uint32_t cycles = worst_bank(address, mask, [&](uint64_t a) { return line(a) % kTagBanks; }, line);
  const uint64_t bank_bytes = lane_bytes <= 4 ? 16 : 8;
  const auto data_bank = [&](uint64_t a) { return a % kSegmentBytes / bank_bytes; };
  cycles = std::max(cycles, worst_bank(address, mask, data_bank, line));
  if (lane_bytes > 4) return cycles;
  const auto dword = [](uint64_t a) { return a / 4; };
  cycles = std::max(cycles, worst_bank(address, mask, [&](uint64_t a) { return dword(a) % 4; }, dword));
  uint64_t low = ~0ull, high = 0;
  for (uint32_t i = 0; i < kQuadLanes; ++i) {
    if (!(mask >> i & 1)) continue;
    low = std::min(low, address[i]);
    high = std::max(high, address[i]);
  }
  // Dwords that a line's width cannot span, in two lines, take a second cycle.
  const bool apart = high - low + 4 >= kSegmentBytes && line(low) != line(high);
  return std::max(cycles, apart ? 2u : 1u);
}

// Eight active lanes that lie side by side, or all at one place.
inline bool dense_half(const uint64_t* address, uint64_t mask, uint32_t lane_bytes) {
  if ((mask & 0xff) != 0xff || lane_bytes > 4) return false;
  uint64_t apart = 0, together = 0;
  for (uint32_t i = 1; i < 8; ++i) {
    apart |= address[i] ^ (address[0] + uint64_t{i} * lane_bytes);
    together |= address[i] ^ address[0];
  }
  return apart == 0 || together == 0;
}

// Lanes side by side: sixteen dwords or four wider elements a cycle, aligned or not.
inline uint32_t contiguous_load_cycles(uint32_t lane_bytes) { return 64 / group_lanes(lane_bytes); }

inline uint32_t scattered_load_cycles(const uint64_t* address, uint64_t exec, uint32_t lane_bytes) {
  uint32_t cycles = 0;
  bool joinable = false;  // a dense half that its neighbour may continue
  for (uint32_t first = 0; first < 64; first += 8) {
    const auto mask = static_cast<uint32_t>(exec >> first & 0xff);
    const uint64_t* lanes = address + first;
    if (dense_half(lanes, mask, lane_bytes)) {
      const bool joins = joinable && (lanes[0] == lanes[-1] + lane_bytes || lanes[0] == lanes[-1]);
      cycles += !joins;
      joinable = !joins && first % 16 == 0;
      continue;
    }
    joinable = false;
    for (uint32_t quad = 0; quad < 8; quad += kQuadLanes) {
      const uint32_t active = mask >> quad & 0xf;
      if (active) cycles += quad_cycles(lanes + quad, active, lane_bytes);
    }
  }
  return std::max(cycles, 1u);
}

}  // namespace hipsynth
