// State of one dispatch in flight: waves, work-groups, and what a wave needs to access memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/access_log.h"
#include "core/machine.h"
#include "core/program.h"
#include "memory/hierarchy.h"

namespace hipsynth {

// Memory latencies in cycles, for a wave alone on the device; see Resident::answer.
struct Latencies {
  uint32_t vector[5], scalar[5];  // indexed by Level; vector[none] is the latency of a store
  uint32_t lds;
};

// A time in cycles of a wave, and the memory level that answers then. Times wrap around: they are comparable while less
// than 250 million cycles apart.
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
  uint32_t phase = 0;                     // barriers that its waves have passed
  uint32_t stratum = 0, bucket = 0;       // sampled grids: where its executions are counted
  std::array<uint64_t, 4> group_index{};  // mixed-radix group index, for replay (sampling/trace.h)
  bool probe = false;         // a functional probe: executed without memory modelling to measure its amount of work
  bool warms_caches = false;  // a cache warm-up group: its memory accesses are modelled while other groups skip theirs
  bool stays = true;          // runs to its end even if others of its kind are abandoned
  uint32_t lifetime = 0;      // of the longest wave that has ended, in cycles of its own time
};

enum class WaveState : uint8_t { ready, barrier, ended };

// State of a wave in flight besides its architectural state. Together with the end of that state and the first entries
// of the ring below, it fills two of the host's cache lines: thousands of waves take turns, so their state is rarely
// cached.
struct Progress {
  WorkGroup* group = nullptr;
  uint64_t wake_round = 0, began = 0;  // rounds
  WaveState state = WaveState::ready;
  Level vm_level = Level::none;  // deepest level among the outstanding vector loads
  Level smem_level = Level::none;
  bool lds_outstanding = false;
  bool at_port = false;             // stopped before an instruction that the busy vector memory unit could not accept
  bool bare = false;                // its vector registers are not initialised yet: see set_up_rows()
  bool atomic_outstanding = false;  // has a vector atomic whose result the wave may wait for
  uint8_t atomic_slices = 0;        // waits for atomic results since the wave was last descheduled
  uint32_t outstanding_vm = 0, outstanding_lgkm = 0;
  uint32_t issued_vm = 0;  // entries written to the ring
  // The wave's own time, as if it ran alone: issue cycles plus waits. At a step it is clock + Program::issued.
  uint32_t clock = 0, now = 0;       // now: after the executing instruction, or at a barrier or the end
  uint32_t vl1d_free = 0;            // when its own last vector memory instruction has left the vL1D
  Answer scalar_answer, lds_answer;  // to the last scalar load and the last LDS instruction
};

struct Architectural {
  Wave wave;
};

struct Resident : Architectural, Progress {
  struct Issued {
    uint32_t back;  // the round in which its data is back
    Answer answer;
  };
  std::array<Issued, 16> ring;  // the most recent vector memory instructions
  uint32_t index;               // wave within the work-group
  uint64_t scratch;             // device address of this wave's scratch

  // Time at which all but the last `pending` vector memory instructions are back; loads return in order.
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

// Event counts that do not follow from how often each instruction ran.
struct EngineCounts {
  uint64_t waves = 0, items = 0, wave_instructions = 0;
  uint64_t waves_lt_16 = 0, waves_lt_32 = 0, waves_lt_48 = 0, waves_lt_64 = 0, waves_eq_64 = 0;
  uint64_t flat_lds = 0;  // flat instructions that reached the LDS
  uint64_t lds_idx_cycles = 0, lds_bank_conflict = 0, lds_addr_conflict = 0, lds_atomic_return = 0;
  // Time that waves would wait for memory if each ran alone on the device, by the level of the last answer, in units of
  // 1/kWaitUnits of its latency. vm_waits[0] counts waits for stores.
  static constexpr uint64_t kWaitUnits = 256;
  uint64_t vm_waits[5] = {}, smem_waits[5] = {}, lds_waits = 0, barriers = 0;
  uint64_t store_tails = 0;     // waves that ended with stores in flight
  uint64_t barrier_cycles = 0;  // that waves would wait at barriers for the last wave of their work-group
  uint64_t jumps = 0;           // taken branches, and other jumps
  uint64_t flat_lds_bytes = 0;  // of active lanes whose generic address was in the LDS
  // Bytes of active lanes that are not requested from memory, of loads, stores and atomics: those beyond the end of
  // their buffer, and flat_lds_bytes.
  std::array<uint64_t, 3> not_requested{};
};

// How evenly time is spread over waves or work-groups that run side by side.
class Lifetimes {
 public:
  void add(double cycles) {
    ++count_;
    sum_ += cycles;
    squares_ += cycles * cycles;
    cubes_ += cycles * cycles * cycles;
    longest_ = std::max(longest_, cycles);
  }
  // Adds `count` of the same kind as these, if there are any.
  void add(const Lifetimes& more, double count) {
    if (more.count_ == 0) return;
    const double each = count / more.count_;
    count_ += count;
    sum_ += more.sum_ * each;
    squares_ += more.squares_ * each;
    cubes_ += more.cubes_ * each;
    longest_ = std::max(longest_, more.longest_);
  }
  double count() const { return count_; }
  // Mean time, weighted by the times themselves: that of the long ones.
  double long_mean() const { return sum_ > 0 ? squares_ / sum_ : 0; }
  // These, each `times` as long.
  Lifetimes stretched(double times) const {
    Lifetimes all = *this;
    all.sum_ *= times;
    all.squares_ *= times * times;
    all.cubes_ *= times * times * times;
    all.longest_ *= times;
    return all;
  }
  // The share of them that would take the same time in all if each took as long as the long ones: 1 if all are equal, a
  // quarter if three of four leave at once. Squares as weights make the mean that of the long ones.
  double working_share() const { return cubes_ > 0 ? sum_ * squares_ / (cubes_ * count_) : 1; }
  // The share that would take the same time in all if each took as long as the longest one.
  double longest_share() const { return longest_ > 0 ? sum_ / (longest_ * count_) : 1; }

 private:
  double count_ = 0, sum_ = 0, squares_ = 0, cubes_ = 0, longest_ = 0;
};

struct Lives {
  Lifetimes waves, groups;  // a work-group lives as long as its longest wave
};

class BankCosts;
struct LdsAccess;
class Footprint;
class HostServices;
class InstructionTally;
class MemoryModel;

// Accesses outside every allocation, or outside the LDS, that hardware would not fault.
struct OutOfBounds {
  uint64_t count = 0;
  std::string first;         // message about the first of them
  uint64_t instruction = 0;  // its address
};

// Advance of the clock per wave instruction: a 16-lane SIMD needs four cycles to issue one for 64 lanes.
inline constexpr uint64_t kCyclesPerInstruction = 4;

// Everything that one execution of a dispatch may modify. Copies are cheap: each execution starts from a fresh one.
struct Context {
  Arch arch;
  const Program& program;
  const KernelInfo& kernel;
  Memory& memory;
  BankCosts& bank_costs;
  HostServices& host;
  const Step* steps;                  // the steps being executed: the whole program or its backward slice
  MemoryModel* model;                 // the memory model in use; never null
  AccessLog* accesses = nullptr;      // where the words are kept that waves use; null: nowhere
  Footprint* footprint = nullptr;     // where accesses to device memory are recorded; null: nowhere
  InstructionTally* tally = nullptr;  // where the events of each instruction are counted; null: nowhere
  Latencies latency{};
  uint32_t jump_cycles = 0;         // that a jump takes beyond its issue
  uint32_t scratch_lane_bytes = 0;  // private segment of one lane
  uint64_t scratch_base = 0;        // of wave slot 0
  uint64_t clock = 0;               // value that s_memtime reads
  double realtime_ticks = 0;        // ticks of the s_memrealtime counter per cycle
  bool strict_bounds = true;
  uint8_t lds_fill = 0;  // what a work-group finds in its LDS
  EngineCounts counts{};
  OutOfBounds out_of_bounds{};        // accesses that were let pass
  std::array<uint8_t, 64> dropped{};  // target of LDS accesses out of bounds: loads read zero and stores have no effect
};

// Executes one instruction of the named unit; may throw SimError "illegal_access".
void execute_scalar_memory(Context& c, Resident& r, const Step& s);
void execute_vector_memory(Context& c, Resident& r, const Step& s);
void execute_lds(Context& c, Resident& r, const Step& s);
void execute_image(Context& c, Resident& r, const Step& s);

// Counts the cycles that an access takes on the banks of the LDS.
void count_lds_cycles(Context& c, const Step& s, const LdsAccess& access);
// Address of one lane's access to the LDS of its work-group.
uint8_t* lds_pointer(Context& c, Resident& r, const Step& s, uint32_t lane, uint64_t offset, uint32_t bytes);

enum class FaultMemory { global, lds, scratch };  // whose surroundings a message tells
struct Fault {
  const char* what;
  uint64_t address;
  uint32_t bytes;
  int lane;
  FaultMemory memory = FaultMemory::global;
};
// Handles an access outside every allocation: counts it if hardware would let it pass and the run allows that, else
// throws.
void out_of_bounds_access(Context& c, const Resident& r, const Step& s, const Fault& fault);
// The same for an access outside the work-group's LDS: hardware reads zero there and drops stores.
void out_of_bounds_in_lds(Context& c, const Resident& r, const Step& s, const Fault& fault);
[[noreturn]] void throw_illegal_access(const Context& c, const Resident& r, const Step& s, const Fault& fault);
[[noreturn]] void throw_scratch_overflow(const Context& c, const Resident& r, const Step& s, uint64_t offset, int lane);
// Throws SimError "assertion" if the kernel has printed a failed one, else "trap".
[[noreturn]] void throw_trap(const Context& c, const Resident& r, const Step& s);

// The LDS address in M0.
inline uint32_t lds_base(Arch arch, const Wave& w) { return w.sgpr[kM0] & ((1u << traits(arch).lds_address_bits) - 1); }

// Register row of a VGPR or AGPR operand; null for other operands.
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
