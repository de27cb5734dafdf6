// When the memory answers, roughly: it decides the order in which waves reach the caches, not how long a dispatch takes
// (timing/ does that). Each CU's vector memory unit takes one look-up per cycle, instructions of its oldest wave first,
// and stops while too many of its misses are on their way; what misses the L2 queues for the bandwidth behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/machine.h"
#include "memory/hierarchy.h"

namespace hipsynth {

class Pace {
 public:
  Pace(const Spec& spec, Hierarchy& hierarchy);
  void set_round(uint64_t round);  // rounds are slices of time, in order; the hierarchy is told too
  // The round in which a CU's vector memory unit takes the next instruction.
  uint64_t opens(uint32_t cu);
  // Books an instruction that has just accessed the hierarchy; returns the round in which its data are back.
  uint64_t book(uint32_t cu, Level level);
  // The round in which the data of a scalar load would be back, and those of a typical vector load.
  uint64_t scalar_back(Level level) const;
  uint64_t typical_back() const { return round_of(cycle_ + static_cast<uint64_t>(typical_)); }

 private:
  struct Flight {
    uint64_t lands;
    uint64_t lines;
  };
  // In order of landing: the vL1D returns loads in order. Takes no memory before its first flight.
  class Flights {
   public:
    bool empty() const { return first_ == flights_.size(); }
    const Flight& front() const { return flights_[first_]; }
    const Flight& back() const { return flights_.back(); }
    void push_back(Flight f) {
      if (first_ > flights_.size() / 2) {
        flights_.erase(flights_.begin(), flights_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
      }
      flights_.push_back(f);
    }
    void pop_front() { ++first_; }

   private:
    std::vector<Flight> flights_;
    size_t first_ = 0;
  };
  struct Port {
    uint64_t free = 0, in_flight = 0;
    Flights flights;
  };
  // What the hierarchy has counted so far; differences belong to the instruction between two looks.
  struct Seen {
    uint64_t look_ups = 0, misses = 0, hbm_read = 0, hbm_write = 0, fabric = 0;
  };
  Seen look(uint32_t cu) const;
  uint64_t round_of(uint64_t cycle) const { return (cycle + round_cycles_ - 1) / round_cycles_; }

  Hierarchy& hierarchy_;
  uint64_t round_cycles_, lines_in_flight_, smem_cycles_, cycle_ = 0;
  uint64_t latency_[5];
  double read_cycles_per_byte_, write_cycles_per_byte_, fabric_cycles_per_byte_;
  double hbm_free_ = 0, fabric_free_ = 0, typical_ = 0;  // typical_: cycles until data are back, a running mean
  Seen seen_;
  std::vector<uint64_t> look_ups_;  // per CU, at the last look
  std::vector<Port> ports_;
};

}  // namespace hipsynth
