// What the engine does with an instruction. The opcode table names the action and the condition of each opcode.
#pragma once

#include <cstdint>

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

enum class Condition : uint8_t { none, scc0, scc1, vccz, vccnz, execz, execnz };

}  // namespace hipsynth
