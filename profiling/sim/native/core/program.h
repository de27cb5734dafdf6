// A module's code as the engine runs it: one step per instruction with everything resolved that text could say.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/machine.h"
#include "execute/atomics.h"

namespace hipsynth {

enum class Action : uint8_t {
  alu,
  alu_exec,  // an ALU instruction that writes EXEC: ends a straight-line run, so that lanes are counted per run
  scalar_memory,
  clock,  // reads how far the work is, so the straight-line run before it is booked first
  vector_memory,
  lds,
  waitcnt,
  barrier,
  grid_barrier,
  message,
  end,
  branch,
  branch_if,
  get_pc,
  set_pc,
  swap_pc,
  call,
  trap,
  refused,  // cannot run; only kernels that never reach it are launched
  skip,
  hop,           // to `target`: nothing on the way decides a counter (sampling/slice.h)
  sampled,       // memory and LDS, executed by the sampler (sampling/sampler.h)
  sampled_wait,  // s_waitcnt likewise
};

enum class Condition : uint8_t { scc0, scc1, vccz, vccnz, execz, execnz };

struct Step {
  AluHandler fn = nullptr;
  const Inst* inst = nullptr;
  AtomicFn atomic = nullptr;
  Action action = Action::skip;
  Condition condition = Condition::scc0;
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
std::unique_ptr<Program> make_program(const Module& module, const SpecTable& spec);

}  // namespace hipsynth
