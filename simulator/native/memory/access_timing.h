// Approximate memory timing. It determines the order in which waves reach the caches, not the duration of a dispatch
// (see timing/). Each CU's vector memory unit does one look-up per cycle, oldest wave first, and stalls while too many
// of its misses are in flight; L2 misses queue for the bandwidth behind the L2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/machine.h"
#include "memory/hierarchy.h"

namespace hipsynth {

class AccessTiming {
 public:
  AccessTiming(const Spec& spec, Hierarchy& hierarchy);
  void set_round(uint64_t round);  // rounds are consecutive slices of time; also sets the hierarchy's time
  // The round in which a CU's vector memory unit accepts the next instruction.
  uint64_t next_issue_round(uint32_t cu);
  // Accounts for an instruction that has just accessed the hierarchy; returns the round in which its data is back.
  uint64_t record_access(uint32_t cu, Level level);
  uint64_t round_cycles() const { return round_cycles_; }
  uint64_t vl1d_cycles() const { return vl1d_cycles_; }  // of that instruction
  // The round in which the data of a scalar load would be back, and that of a typical vector load.
  uint64_t scalar_return_round(Level level) const;
  uint64_t typical_return_round() const { return round_of(cycle_ + static_cast<uint64_t>(typical_)); }

 private:
  struct PendingMisses {
    uint64_t return_cycle;
    uint64_t lines;
  };
  // A queue in order of arrival: the vL1D returns loads in order. Allocates nothing before its first entry.
  class MissQueue {
   public:
    bool empty() const { return first_ == entries_.size(); }
    const PendingMisses& front() const { return entries_[first_]; }
    const PendingMisses& back() const { return entries_.back(); }
    void push_back(PendingMisses f) {
      if (first_ > entries_.size() / 2) {
        entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
      }
      entries_.push_back(f);
    }
    void pop_front() { ++first_; }

   private:
    std::vector<PendingMisses> entries_;
    size_t first_ = 0;
  };
  struct Port {
    uint64_t free = 0, in_flight = 0;
    MissQueue misses_in_flight;
  };
  // A snapshot of the hierarchy's counts; the difference of two snapshots belongs to the instruction in between.
  struct Counts {
    uint64_t look_ups = 0, misses = 0, hbm_read = 0, hbm_write = 0, fabric = 0;
  };
  Counts read_counts(uint32_t cu) const;
  uint64_t round_of(uint64_t cycle) const { return (cycle + round_cycles_ - 1) / round_cycles_; }

  Hierarchy& hierarchy_;
  uint64_t round_cycles_, lines_in_flight_, smem_cycles_, cycle_ = 0, vl1d_cycles_ = 0;
  uint64_t latency_[5];
  double read_cycles_per_byte_, write_cycles_per_byte_, fabric_cycles_per_byte_;
  double hbm_free_ = 0, fabric_free_ = 0, typical_ = 0;  // typical_: running mean of the cycles until data is back
  Counts last_counts_;
  std::vector<uint64_t> look_ups_;  // per CU, at the last snapshot
  std::vector<Port> ports_;
};

}  // namespace hipsynth
