// What is in flight during one dispatch: waves, work-groups, and what a wave needs to reach memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/machine.h"
#include "core/program.h"
#include "memory/hierarchy.h"

namespace hipsynth {

// Answers of the memory as a wave alone on the device would see them, in cycles; see Resident::answer.
struct Latencies {
  uint32_t vector[5], scalar[5];  // by Level; vector[none] is that of a store
  uint32_t lds;
};

// A time in cycles of a wave and the level that the answer comes from, comparable while both are less than a quarter of
// a thousand million cycles apart.
struct Answer {
  uint32_t packed = 0;
  static Answer at(uint32_t cycle, Level level) { return {cycle << 3 | static_cast<uint32_t>(level)}; }
  Level level() const { return static_cast<Level>(packed & 7); }
  int32_t after(uint32_t cycle) const { return static_cast<int32_t>(packed - (cycle << 3)) >> 3; }
  bool later_than(Answer other) const { return static_cast<int32_t>(packed - other.packed) > 0; }
};

struct WorkGroup {
  Dim3 id;
  uint32_t cu = 0, waves = 0, ended = 0, at_barrier = 0;
  std::vector<uint8_t> lds;
  uint32_t stratum = 0, bucket = 0;       // of a sampled grid; where its executions are booked
  std::array<uint64_t, 4> group_index{};  // mixed-radix, where the grid is replayed (sampling/trace.h)
  bool probe = false;                     // a functional probe: shows how much work there is, without memory modelling
  bool warms_caches = false;              // a cache warm-up group: modelled while the others go forward
  bool stays = true;                      // runs to its end even when others of its kind are abandoned
};

enum class WaveState : uint8_t { ready, barrier, ended };

// What a wave in flight needs beside its architectural state. Together with that state's end and the first places of
// the ring behind it, it fills two of the host's cache lines: thousands of waves run in turn, and are rarely cached.
struct Progress {
  WorkGroup* group = nullptr;
  uint64_t wake_round = 0;
  WaveState state = WaveState::ready;
  Level vm_level = Level::none;  // deepest level among the outstanding vector loads
  Level smem_level = Level::none;
  bool lds_outstanding = false;
  bool at_port = false;             // stopped before an instruction that the vector memory unit could not take yet
  bool bare = false;                // its vector registers are not set up yet: see set_up_rows()
  bool atomic_outstanding = false;  // a vector atomic whose result the wave may wait for
  uint8_t atomic_slices = 0;        // waits for such results since the wave was last switched out
  uint32_t outstanding_vm = 0, outstanding_lgkm = 0;
  uint32_t issued_vm = 0;  // entries written to the ring
  // The wave's own time, as if it were alone: cycles of issue plus waits. At a step it is clock + Program::issued.
  uint32_t clock = 0, now = 0;       // now: behind the instruction that executes
  Answer scalar_answer, lds_answer;  // to the last ones
};

struct Architectural {
  Wave wave;
};

struct Resident : Architectural, Progress {
  struct Issued {
    uint32_t back;  // the round in which it is back
    Answer answer;
  };
  std::array<Issued, 16> ring;  // the last vector memory instructions
  uint32_t index;               // wave within the work-group
  uint64_t scratch;             // device address of this wave's scratch

  // When all but the last `pending` vector memory instructions are back; loads come back in order.
  uint64_t back_of(uint32_t pending) const {
    if (pending >= issued_vm) return 0;
    return last_but(pending).back;
  }
  Answer answer_of(uint32_t pending) const { return last_but(pending).answer; }
  void issue_vm(uint64_t round, Answer answer) {
    const uint32_t at = issued_vm++ % ring.size();
    Issued now{static_cast<uint32_t>(round), answer};
    if (issued_vm > 1) {
      const Issued& last = ring[(at + ring.size() - 1) % ring.size()];
      now.back = std::max(last.back, now.back);
      if (!answer.later_than(last.answer)) now.answer = last.answer;
    }
    ring[at] = now;
  }
  void answer_scalar(Answer answer) {
    if (smem_level == Level::none || answer.later_than(scalar_answer)) scalar_answer = answer;
    smem_level = std::max(smem_level, answer.level());
  }

 private:
  const Issued& last_but(uint32_t pending) const {
    return ring[(issued_vm - 1 - std::min<uint32_t>(pending, ring.size() - 1)) % ring.size()];
  }
};

// Event counts that are not a function of how often each instruction ran.
struct EngineCounts {
  uint64_t waves = 0, items = 0, wave_instructions = 0;
  uint64_t waves_lt_16 = 0, waves_lt_32 = 0, waves_lt_48 = 0, waves_lt_64 = 0, waves_eq_64 = 0;
  uint64_t flat_lds = 0;  // flat instructions that reached the LDS
  uint64_t lds_idx_cycles = 0, lds_bank_conflict = 0, lds_addr_conflict = 0, lds_atomic_return = 0;
  // Time that waves alone on the device would wait for memory, by the level that the last answer comes from, in
  // kWaitUnits of its latency; vm_waits[0] are waits for stores.
  static constexpr uint64_t kWaitUnits = 256;
  uint64_t vm_waits[5] = {}, smem_waits[5] = {}, lds_waits = 0, barriers = 0;
  uint64_t store_tails = 0;  // waves that ended while stores were on their way
};

class BankCosts;
class HostServices;
class MemoryModel;

// Accesses outside every allocation, or outside the LDS, that hardware would let pass.
struct OutOfBounds {
  uint64_t count = 0;
  std::string first;  // the first of them, in words
};

// How far the clock moves with each wave instruction: a SIMD of 16 lanes needs four cycles to issue one for 64.
inline constexpr uint64_t kCyclesPerInstruction = 4;

// Everything one execution of a dispatch may touch. Copies are cheap: each execution starts from a fresh one.
struct Context {
  Arch arch;
  const Program& program;
  const KernelInfo& kernel;
  Memory& memory;
  BankCosts& bank_costs;
  HostServices& host;
  const Step* steps;   // what runs now: the program's steps, or the backward slice of them that decides counters
  MemoryModel* model;  // what runs now; never null
  Latencies latency{};
  uint32_t scratch_lane_bytes = 0;  // private segment of one lane
  uint64_t scratch_base = 0;        // of wave slot 0
  uint64_t clock = 0;               // what s_memtime reads
  double realtime_ticks = 0;        // of the counter that s_memrealtime reads, per cycle
  bool strict_bounds = true;
  EngineCounts counts{};
  OutOfBounds out_of_bounds{};        // those that were let pass
  std::array<uint8_t, 64> dropped{};  // where an access outside the LDS reads zero and writes to no effect
};

// Executes one instruction of its unit; may throw SimError "illegal_access".
void execute_scalar_memory(Context& c, Resident& r, const Step& s);
void execute_vector_memory(Context& c, Resident& r, const Step& s);
void execute_lds(Context& c, Resident& r, const Step& s);
void execute_image(Context& c, Resident& r, const Step& s);

// Lane-wise LDS access of flat instructions that fall into the shared aperture.
uint8_t* lds_pointer(Context& c, Resident& r, const Step& s, uint32_t lane, uint64_t offset, uint32_t bytes);

struct Fault {
  const char* what;
  uint64_t address;
  uint32_t bytes;
  int lane;
};
// An access outside every allocation: counted where hardware would let it pass and the run asks for that, else thrown.
void out_of_bounds_access(Context& c, const Resident& r, const Step& s, const Fault& fault);
// The same outside the work-group's LDS: hardware reads zero there and drops stores.
void out_of_bounds_in_lds(Context& c, const Resident& r, const Step& s, const Fault& fault);
[[noreturn]] void throw_illegal_access(const Context& c, const Resident& r, const Step& s, const Fault& fault);

// Row of a VGPR or AGPR operand; null when the operand is neither.
inline uint32_t* operand_row(Wave& w, const Operand& o, uint32_t offset = 0) {
  if (o.kind == OperandKind::vgpr) return w.row(o.reg + offset);
  if (o.kind == OperandKind::agpr) return w.row(w.accum_offset + o.reg + offset);
  return nullptr;
}

inline uint32_t scalar_operand(const Wave& w, const Operand& o) {
  if (o.kind == OperandKind::sgpr) return w.sgpr[o.reg];
  return o.kind == OperandKind::constant ? static_cast<uint32_t>(o.value) : 0;
}

}  // namespace hipsynth
