// What each instruction of a kernel did, so that it can be attributed to source lines. Kept only on request
// (DeviceOptions::lines): without it the engine tests a pointer at each memory instruction, wait and barrier.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/counters.h"
#include "core/state.h"
#include "core/waits.h"

namespace hipsynth {

// Events of one instruction; kInstructionEventNames has their names.
enum class InstructionEvent : uint8_t {
  times,           // wave instructions
  lanes,           // active lanes, summed over them
  issue_cycles,    // that the waves need to issue them
  bytes,           // that active lanes request from memory; sums to EXACT_{READ,WRITE,ATOMIC}_BYTES
  accesses,        // look-ups in the vL1D; sums to TCP_TOTAL_CACHE_ACCESSES
  misses,          // requests to the L2 that a hit would save, and atomics; sums to TCP_TCC_{READ,ATOMIC*}_REQ
  l1_cycles,       // of the vL1D
  l2_requests,     // of vector and scalar memory
  l2_misses,       // sums to TCC_MISS
  fabric_bytes,    // fetched from behind the L2, and of write requests, which leave it later
  lds_bytes,       // sums to EXACT_LDS_BYTES
  lds_cycles,      // of the LDS; sums to SQ_LDS_IDX_ACTIVE
  bank_conflicts,  // cycles; sums to SQ_LDS_BANK_CONFLICT
  stall_cycles,    // that waves wait for its data, each as if alone on the device
  barrier_cycles,  // that waves wait at this barrier for the others
};
inline constexpr std::array kInstructionEventNames = {"times",          "lanes",        "issue_cycles",  "bytes",
                                                      "accesses",       "misses",       "l1_cycles",     "l2_requests",
                                                      "l2_misses",      "fabric_bytes", "lds_bytes",     "lds_cycles",
                                                      "bank_conflicts", "stall_cycles", "barrier_cycles"};
inline constexpr size_t kInstructionEvents = kInstructionEventNames.size();

class InstructionTally {
 public:
  using Row = std::array<double, kInstructionEvents>;
  struct Instruction {
    uint64_t address = 0;        // in the code object
    const char* unit = nullptr;  // that executes it: "valu", "mfma" ...; null: it never ran
    Row row{};                   // over all dispatches that were counted
  };
  using Kernel = std::pair<std::string, uint64_t>;  // symbol, and the module's serial number

  // Around one dispatch: its kernel, and the caches that its executions use. `executed`: of the whole grid.
  void begin(const Launch& launch, const Program& program, const Hierarchy& hierarchy);
  void end(const std::vector<Executed>& executed);
  // Forgets the executions since begin(): the dispatch is executed again.
  void restart();

  // Around one memory or LDS instruction. `r.now` is set.
  void begin_access(const Resident& r, const EngineCounts& engine);
  // `is_idle`: no lane was active.
  void end_access(const Resident& r, uint32_t pc, const EngineCounts& engine, bool is_idle);
  void add_wave(const Resident& r) { pending_[&r] = {}; }
  // The wave has waited so many cycles at an s_waitcnt.
  void add_wait(const Resident& r, WaitLimits limits, uint32_t cycles);
  void add_barrier_wait(uint32_t pc, uint32_t cycles) { observed_[pc].barriers += cycles; }
  // Forgets what the memory did, and barriers: a replay tells of all of that. The LDS has been seen before it.
  void begin_replay();

  const std::map<Kernel, std::vector<Instruction>>& kernels() const { return kernels_; }

 private:
  // In the order of kCountedEvents, and last the scalar requests: they alone change when a scalar load hits.
  using Counts = std::array<uint64_t, 9>;
  struct Observed {
    uint64_t seen = 0, modelled = 0;  // executions: all, and those with modelled memory
    Counts counts{};
    uint64_t stalls = 0, barriers = 0;
    uint64_t beyond = 0;  // bytes beyond the ends of buffers
  };
  // Memory instructions whose data a wave has not waited for yet.
  struct Access {
    uint32_t pc, latency;
  };
  struct Pending {
    std::vector<Access> vector, scalar;
  };
  Counts read_counts(const Resident& r, const EngineCounts& engine) const;
  void attribute_wait(std::vector<Access>* accesses, size_t leaves, uint64_t cycles, uint64_t latency);

  const Launch* launch_ = nullptr;
  const Program* program_ = nullptr;
  const Hierarchy* hierarchy_ = nullptr;
  std::vector<Observed> observed_;  // of this dispatch
  std::unordered_map<const Resident*, Pending> pending_;
  Counts before_{};
  uint64_t not_requested_before_ = 0;
  std::map<Kernel, std::vector<Instruction>> kernels_;
};

}  // namespace hipsynth
