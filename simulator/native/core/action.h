// What the engine does with an instruction. The opcode table names the action and the condition of each opcode.
#pragma once

#include <cstdint>

namespace hipsynth {

enum class Action : uint8_t {
  alu,
  alu_exec,  // an ALU instruction that writes EXEC: ends a straight-line run, because active lanes are counted per run
  scalar_memory,
  clock,  // reads the clock, so the straight-line run before it must be counted first
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
  refused,  // cannot execute; only kernels that cannot reach it are launched
  skip,
  hop,           // jumps to `target` over instructions that affect no counter (sampling/slice.h)
  sampled,       // memory or LDS instruction, executed by the sampler (sampling/sampler.h)
  sampled_wait,  // s_waitcnt, handled by the sampler
};

enum class Condition : uint8_t { none, scc0, scc1, vccz, vccnz, execz, execnz };

}  // namespace hipsynth
