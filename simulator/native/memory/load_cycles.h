// Cycles that the vL1D spends on one wave load with scattered addresses.
//
// Derived from measured cycles per load of 1024 work-items on gfx90a, all hits (RRZE gpu-benches, gpu-strides): the 95
// strides of 2 to 64 dwords and 0 to 31 wider elements are reproduced exactly. Four lanes are looked up per cycle: for
// dwords every fourth of sixteen, for wider elements neighbours. They conflict
// - if their lines share a tag bank (line number modulo 4);
// - if they access the same data bank (4 bytes wide) of different lines.
// Sixteen dwords that are contiguous in groups of four take one cycle per contiguous run.
#pragma once

#include <algorithm>
#include <cstdint>

#include "memory/coalescer.h"

namespace hipsynth {

inline constexpr uint32_t kQuadLanes = 4, kGroupLanes = 16, kTagBanks = 4;

// Number of distinct `what(lane)` among lanes with equal `bank(lane)`, for the busiest bank.
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

// Cycles for the lanes of `mask` among these four.
inline uint32_t quad_cycles(const uint64_t* address, uint32_t mask) {
  constexpr uint64_t kBankBytes = 4;
  const auto line = [](uint64_t a) { return a / kSegmentBytes; };
  const auto data_bank = [](uint64_t a) { return a % kSegmentBytes / kBankBytes; };
  return std::max(worst_bank(
                      address, mask, [&](uint64_t a) { return line(a) % kTagBanks; }, line),
                  worst_bank(address, mask, data_bank, line));
}

// Whether four dwords are contiguous, or all at the same address.
inline bool dense(const uint64_t* quad, uint32_t lane_bytes) {
  uint64_t apart = 0, together = 0;
  for (uint32_t i = 1; i < kQuadLanes; ++i) {
    apart |= quad[i] ^ (quad[0] + uint64_t{i} * lane_bytes);
    together |= quad[i] ^ quad[0];
  }
  return apart == 0 || together == 0;
}

// Cycles for sixteen active lanes that are dense in groups of four; 0 for any others.
inline uint32_t dense_runs(const uint64_t* lanes, uint32_t mask, uint32_t lane_bytes) {
  if (mask != 0xffff || lane_bytes > 4) return 0;
  uint32_t runs = 0;
  for (uint32_t first = 0; first < kGroupLanes; first += kQuadLanes) {
    const uint64_t* quad = lanes + first;
    if (!dense(quad, lane_bytes)) return 0;
    runs += first == 0 || (quad[0] != quad[-1] + lane_bytes && quad[0] != quad[-1]);
  }
  return runs;
}

// Contiguous lanes: sixteen dwords or four wider elements per cycle, aligned or not.
inline uint32_t contiguous_load_cycles(uint32_t lane_bytes) { return 64 / group_lanes(lane_bytes); }

inline uint32_t scattered_load_cycles(const uint64_t* address, uint64_t exec, uint32_t lane_bytes) {
  const uint32_t step = lane_bytes <= 4 ? kQuadLanes : 1, next_quad = lane_bytes <= 4 ? 1 : kQuadLanes;
  uint32_t cycles = 0;
  for (uint32_t first = 0; first < 64; first += kGroupLanes) {
    const auto mask = static_cast<uint32_t>(exec >> first & 0xffff);
    if (mask == 0) continue;
    const uint64_t* lanes = address + first;
    if (const uint32_t runs = dense_runs(lanes, mask, lane_bytes)) {
      cycles += runs;
      continue;
    }
    for (uint32_t quad = 0; quad < kGroupLanes / kQuadLanes; ++quad) {
      uint64_t taken[kQuadLanes];
      uint32_t active = 0;
      for (uint32_t i = 0; i < kQuadLanes; ++i) {
        const uint32_t lane = quad * next_quad + i * step;
        taken[i] = lanes[lane];
        active |= (mask >> lane & 1) << i;
      }
      if (active) cycles += quad_cycles(taken, active);
    }
  }
  return std::max(cycles, 1u);
}

}  // namespace hipsynth
