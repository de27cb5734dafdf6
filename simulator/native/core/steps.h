// What engines share to execute steps.
#pragma once

#include <bit>

#include "core/state.h"
#include "isa/alu.h"

namespace hipsynth {

inline bool holds(const Wave& w, Condition condition) {
  switch (condition) {
    case Condition::scc0:
      return !w.scc;
    case Condition::scc1:
      return w.scc;
    case Condition::vccz:
      return w.vcc() == 0;
    case Condition::vccnz:
      return w.vcc() != 0;
    case Condition::execz:
      return w.exec() == 0;
    default:
      return w.exec() != 0;
  }
}

inline uint32_t active_lanes(const Wave& w) { return static_cast<uint32_t>(std::popcount(w.exec())); }

// Executes consecutive ALU instructions from `pc` on; returns the index of the last one.
[[gnu::always_inline]] inline uint32_t execute_alu_run(Wave& w, const Step* steps, uint32_t pc) {
  do {
    execute_alu(w, *steps[pc].inst);
  } while (steps[++pc].action == Action::alu);
  return pc - 1;
}

// Counts a wave with this many work-items.
inline void count_wave(uint32_t lanes, EngineCounts* counts) {
  ++counts->waves;
  counts->items += lanes;
  ++(lanes < 16   ? counts->waves_lt_16
     : lanes < 32 ? counts->waves_lt_32
     : lanes < 48 ? counts->waves_lt_48
     : lanes < 64 ? counts->waves_lt_64
                  : counts->waves_eq_64);
}

}  // namespace hipsynth
