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

class Pace;

struct WorkGroup {
  Dim3 id;
  uint32_t cu = 0, waves = 0, ended = 0, at_barrier = 0;
  std::vector<uint8_t> lds;
  uint32_t stratum = 0;  // of a sampled grid
  bool scout = false;    // keeps the caches warm while others go forward
};

enum class WaveState : uint8_t { ready, barrier, ended };

struct Resident {
  Wave wave;
  WorkGroup* group = nullptr;
  uint32_t index = 0;  // wave within the work-group
  WaveState state = WaveState::ready;
  uint64_t wake_round = 0;
  uint32_t outstanding_vm = 0, outstanding_lgkm = 0;
  Level vm_level = Level::none;  // deepest level among the outstanding vector loads
  Level smem_level = Level::none;
  bool lds_outstanding = false;
  bool at_port = false;  // stopped before an instruction that the vector memory unit could not take yet
  uint32_t covered_vm = 0, covered_lgkm = 0;  // outstanding, but issued before the last wait that took time
  bool atomic_outstanding = false;            // a vector atomic whose result somebody may wait for
  uint8_t atomic_turns = 0;                   // waits for such results since the wave was last switched out
  uint64_t scratch = 0;                       // device address of this wave's scratch
  uint32_t slot = 0;                          // scratch and register slot in the dispatch
  std::array<uint32_t, 16> back{};            // rounds in which the last vector memory instructions are back, a ring
  uint32_t issued_vm = 0;                     // entries written to the ring

  // When all but the last `pending` vector memory instructions are back; loads come back in order.
  uint64_t back_of(uint32_t pending) const {
    if (pending >= issued_vm) return 0;
    return back[(issued_vm - 1 - std::min<uint32_t>(pending, back.size() - 1)) % back.size()];
  }
  void issue_vm(uint64_t round) {
    const uint32_t before = issued_vm ? back[(issued_vm - 1) % back.size()] : 0;
    back[issued_vm++ % back.size()] = std::max(before, static_cast<uint32_t>(round));
  }
};

// Event counts that are not a function of how often each instruction ran.
struct EngineCounts {
  uint64_t waves = 0, items = 0, wave_instructions = 0;
  uint64_t waves_lt_16 = 0, waves_lt_32 = 0, waves_lt_48 = 0, waves_lt_64 = 0, waves_eq_64 = 0;
  uint64_t flat_lds = 0;  // flat instructions that reached the LDS
  uint64_t lds_idx_cycles = 0, lds_bank_conflict = 0, lds_addr_conflict = 0, lds_atomic_return = 0;
  // Waits, by the deepest level waited for: how many memory round trips the waves saw one after the other.
  // vm_waits[0] are waits for stores alone; a wait for what was in flight during an earlier one is not counted.
  uint64_t vm_waits[5] = {}, smem_waits[5] = {}, lds_waits = 0, barriers = 0;
  uint64_t store_tails = 0;  // waves that ended while stores were on their way
};

class HostServices;

// Everything one dispatch's instructions may touch.
struct Context {
  Arch arch = Arch::gfx90a;
  const Program* program = nullptr;
  const Step* steps = nullptr;  // what runs: the program's, or those that decide counters
  const KernelInfo* kernel = nullptr;
  Memory* memory = nullptr;
  Hierarchy* hierarchy = nullptr;  // null: functional only
  Pace* pace = nullptr;            // of the running dispatch; null: functional only
  HostServices* host = nullptr;
  EngineCounts counts;
  uint32_t scratch_lane_bytes = 0;  // private segment of one lane
  uint64_t scratch_base = 0;        // of wave slot 0
  uint64_t clock = 0;               // what s_memtime reads
  bool strict_bounds = true;
  uint64_t strays = 0;      // accesses outside every allocation that were let pass
  std::string first_stray;  // the first of them, in words
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
void stray_access(Context& c, const Resident& r, const Step& s, const Fault& fault);
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
