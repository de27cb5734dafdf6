// A module's code as the engine runs it: one step per instruction with everything resolved that text could say.
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
  uint8_t lane_bytes = 0;  // memory: bytes of one lane (count * elem_bytes)
  bool idle_data = false;  // memory: the data that it moves is not needed (sampling/slice.h)
  uint32_t target = 0;
};

struct Program {
  const Module* module = nullptr;
  std::vector<Step> steps;
  // Cycles that a wave needs to issue everything before each step, in the order of the text; wraps around.
  std::vector<uint32_t> issued;
};

// Instructions that the engine does not know become Action::refused; reach() says which kernels they stop.
std::unique_ptr<Program> make_program(const Module& module, const Spec& spec);

}  // namespace hipsynth
