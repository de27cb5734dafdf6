// A module's code in the form that the engine executes: one step per instruction, with everything resolved.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/action.h"
#include "core/machine.h"
#include "execute/atomics.h"

namespace hipsynth {

struct Step {
  AluHandler fn = nullptr;
  const Inst* inst = nullptr;
  AtomicFn atomic = nullptr;
  Action action = Action::skip;
  Condition condition = Condition::none;
  uint8_t lane_bytes = 0;      // memory: bytes per lane (count * elem_bytes)
  bool idle_data : 1 = false;  // memory: the transferred data is not needed (sampling/slice.h)
  bool decides : 1 = true;     // memory: what it loads may affect counters (sampling/slice.h)
  uint32_t target = 0;
};

struct Program {
  const Module* module = nullptr;
  std::vector<Step> steps;
  // Cycles that a wave needs to issue all instructions before each step, in program order; wraps around.
  std::vector<uint32_t> issued;
};

// Instructions that the engine cannot execute become Action::refused; reach() tells which kernels can reach them.
// `exact_sums`: as in find_atomic.
std::unique_ptr<Program> make_program(const Module& module, const Spec& spec, bool exact_sums = false);

}  // namespace hipsynth
