// Traces of work-groups: their memory accesses and waits, and how addresses vary between work-groups.
//
// In many kernels with long work-groups, especially matrix products, every work-group does the same at addresses that
// depend linearly on its number. A few of them, recorded without memory modelling, represent all; a trace-driven replay
// then gives caches, waits and the order of waves exactly, without executing instructions (Engine::replay_wave).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/counters.h"
#include "core/launch.h"
#include "core/state.h"
#include "core/waits.h"
#include "execute/memory_model.h"

namespace hipsynth {

// The lanes of a vector memory instruction, relative to its first active one.
struct LanePattern {
  Access kind = Access::load;
  bool contiguous = false, returns = false, streaming = false;
  uint32_t bytes = 0;  // per lane
  uint64_t exec = 0;
  std::array<uint64_t, kLanes> apart{};  // offset from the first active lane's address; 0 where EXEC is 0
  bool operator==(const LanePattern&) const = default;
};

// A step of a wave that depends on the rest of the machine or affects it.
struct Event {
  enum class Kind : uint8_t {
    vector,
    no_lanes,  // a vector memory instruction with EXEC zero: only occupies the unit
    scalar,
    lds,  // several consecutive LDS instructions
    wait,
    barrier,
    jump,  // a taken branch, where a wave that has used up its time slice stops
    end
  };
  Kind kind = Kind::end;
  uint8_t vm = 0, lgkm = 0;  // wait: see WaitLimits
  uint32_t amount = 0;       // vector: index of its pattern, or of its site in Traces; scalar: bytes; lds: instructions
  uint32_t now = 0;          // issue cycles until then of a wave that never waits
  uint32_t executed = 0;     // instructions of the wave so far, this one included
  uint64_t address = 0;      // vector: of the first active lane, in Traces for work-group 0; scalar: of the load
};

// Which instruction caused an event, by Event::executed.
struct EventPlace {
  uint32_t executed, pc;
};

// The recording of one work-group. `places`: by wave, in ascending order; empty if they were not asked for.
struct GroupTrace {
  std::vector<std::vector<Event>> waves;
  std::vector<std::vector<EventPlace>> places;
  std::vector<Executed> executed;  // difference array over instructions
  EngineCounts counts;             // of the LDS, with folded waits for it, and bytes beyond buffers
};

// Mixed-radix index of a work-group: its number as coordinates, lowest first. These are x, y and z of the grid, or the
// coordinates that the kernel itself derives from the number by division and remainder.
struct GroupIndex {
  static constexpr size_t kMost = 4;
  using Row = std::array<uint64_t, kMost>;
  Row extent{1, 1, 1, 1};
  Row of(uint64_t number) const {
    Row group_index;
    for (size_t i = 0; i < kMost; ++i) {
      group_index[i] = i + 1 < kMost ? number % extent[i] : number;
      number /= extent[i];
    }
    return group_index;
  }
};

// The common trace of all work-groups of a grid.
struct Traces {
  // A kind of access: its lanes, and the address increment per step in each dimension of the group index.
  struct Site {
    uint32_t pattern = 0;
    GroupIndex::Row step{};
  };
  std::vector<LanePattern> patterns;
  std::vector<Site> sites;
  GroupIndex group_index;
  GroupTrace first;       // trace of work-group 0
  uint64_t recorded = 0;  // number of recorded work-groups, which all agree

  // Waits for the LDS alone take equally long in every work-group: counts them once and removes the events. `latency`:
  // of the LDS.
  void fold_lds(uint32_t latency);
  uint64_t work() const;  // work of replaying one work-group, in the units of simulation_work()
};

// Source of the traces of a dispatch.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // Null: the work-groups differ, or replay would take too long. The first call may record some of them.
  virtual const Traces* traces() = 0;
};

// The memory model of a recording: records the events of chosen work-groups, which run without being counted.
class Recorder final : public MemoryModel {
 public:
  // `waves`: per work-group; `keeps_places`: GroupTrace::places are wanted.
  Recorder(uint32_t waves, uint32_t xcds, bool keeps_places)
      : MemoryModel(true), waves_(waves), xcds_(xcds), keeps_places_(keeps_places) {}

  void begin(std::vector<uint64_t> groups);  // work-groups to record, in ascending order
  // The next chosen work-group from `number` on that belongs to the same XCD; past the last work-group if none.
  uint64_t next_group(uint64_t number) const;
  uint32_t bucket_of(uint64_t number) const;  // bucket in which its executions are counted
  size_t buckets() const { return groups_.size(); }

  void select(const Resident& r);                                      // selects the wave whose events follow
  void ran(uint32_t instructions) { current_->done += instructions; }  // a straight-line run has ended
  // The access of the current memory instruction.
  void access(Resident& r, const WaveAccess& access) override;
  void swizzled_access(Resident&, const WaveAccess&, uint64_t) override { refuse(); }
  void image_access(Resident&, Access, std::span<const WaveAccess>) override { refuse(); }
  void empty_access(Resident&) override { refuse(); }
  void scalar_load(Resident&, uint64_t address, uint32_t bytes) override { address_ = address, amount_ = bytes; }
  // Records the executed instruction at `pc`; `in_run`: instructions since the last run ended.
  void add_instruction(Event::Kind kind, uint32_t now, uint32_t in_run, uint32_t pc);
  void add(Event::Kind kind, uint32_t now, uint32_t in_run);
  void add_wait(WaitLimits limits, uint32_t now, uint32_t in_run);
  void before_access(const EngineCounts& counts) { before_access_ = counts; }
  void add_not_requested(const EngineCounts& after);
  void add_lds(const EngineCounts& after, uint32_t now, uint32_t in_run);
  void refuse() { refused_ = true; }  // something happened that cannot be replayed

  // One trace per chosen work-group, or none at all after refuse(). `executed`: [bucket][instruction].
  std::vector<GroupTrace> end(const std::vector<std::vector<Executed>>& executed);
  const std::vector<LanePattern>& patterns() const { return patterns_; }  // of all recordings

 private:
  struct WaveTrace {
    std::vector<Event> events;
    std::vector<EventPlace> places;
    uint32_t done = 0;  // instructions
  };
  struct Hash {
    size_t operator()(const LanePattern& p) const;
  };

  uint32_t waves_, xcds_;
  bool keeps_places_;
  std::vector<uint64_t> groups_;
  std::vector<WaveTrace> traces_;     // [bucket][wave]
  std::vector<EngineCounts> counts_;  // [bucket]
  std::unordered_map<LanePattern, uint32_t, Hash> numbers_;
  std::vector<LanePattern> patterns_;
  WaveTrace* current_ = nullptr;
  EngineCounts* counting_ = nullptr;
  EngineCounts before_access_;
  size_t events_ = 0;
  uint64_t address_ = 0;
  uint32_t amount_ = 0;
  bool accessed_ = false, refused_ = false;
};

// Whether all work-groups of a kernel can do the same: its control flow and addresses depend on no loaded data.
bool may_replay(const std::vector<Step>& slice, const KernelInfo& kernel);

// Runs work-groups, given in ascending order, and returns their traces; nothing if they cannot be recorded.
using RecordGroups = std::function<std::vector<GroupTrace>(std::vector<uint64_t>)>;

// Derives the trace of a whole grid of `total` work-groups from some of them; nullopt if they do not all do the same.
// The patterns are the recorder's.
std::optional<Traces> trace_grid(uint64_t total, const RecordGroups& record);

}  // namespace hipsynth
