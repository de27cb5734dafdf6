// What the waves of a work-group do to memory and what they wait for, and how that differs between work-groups.
//
// In many kernels with long work-groups, matrix products above all, every work-group does the same, at addresses that
// move with its number. A few of them, run alone and without memory modelling, show what all do; a trace-driven replay
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

// The lanes of a vector memory instruction.
struct LanePattern {
  Access kind = Access::load;
  bool contiguous = false, returns = false, streaming = false;
  uint32_t bytes = 0;  // per lane
  uint64_t exec = 0;
  std::array<uint64_t, kLanes> apart{};  // from the first active lane's address; 0 where EXEC is not set
  bool operator==(const LanePattern&) const = default;
};

// Something that a wave does which depends on the rest of the machine, or affects it.
struct Event {
  enum class Kind : uint8_t {
    vector,
    no_lanes,  // a vector memory instruction with EXEC zero: it waits for the unit, and does nothing
    scalar,
    lds,  // several in a row
    wait,
    barrier,
    jump,  // a taken branch: a wave whose time slice is used up stops here
    end
  };
  Kind kind = Kind::end;
  uint8_t vm = 0, lgkm = 0;  // wait: see WaitLimits
  uint32_t amount = 0;       // vector: pattern, in Traces site; scalar: bytes; lds: instructions
  uint32_t now = 0;          // cycles that a wave which never waits has issued by then
  uint32_t executed = 0;     // instructions of the wave so far, this one included
  uint64_t address = 0;      // vector: of the first active lane, in Traces that of work-group 0; scalar
};

// What one work-group did.
struct GroupTrace {
  std::vector<std::vector<Event>> waves;
  std::vector<Executed> executed;  // difference array over instructions
  EngineCounts lds;                // what the LDS counts, and waits for it that were folded
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

// All work-groups of a grid.
struct Traces {
  // A kind of access: its lanes, and what one more in each dimension of the group index adds to the address.
  struct Site {
    uint32_t pattern = 0;
    GroupIndex::Row step{};
  };
  std::vector<LanePattern> patterns;
  std::vector<Site> sites;
  GroupIndex group_index;
  GroupTrace first;       // that of work-group 0
  uint64_t recorded = 0;  // work-groups that agree

  // Waits for the LDS alone last the same everywhere: books them once and leaves out the events. `latency`: of the LDS.
  void fold_lds(uint32_t latency);
  uint64_t work() const;  // of replaying one work-group, in the units of simulation_work()
};

// Where the traces of a dispatch come from, if it has any.
class TraceSource {
 public:
  virtual ~TraceSource() = default;
  // Null: the work-groups differ, or replaying them takes too long. The first call may record some of them.
  virtual const Traces* traces() = 0;
};

// The memory model of a recording: writes down what chosen work-groups do while they run without counting anything.
class Recorder final : public MemoryModel {
 public:
  // `waves`: of a work-group.
  Recorder(uint32_t waves, uint32_t xcds) : MemoryModel(true), waves_(waves), xcds_(xcds) {}

  void begin(std::vector<uint64_t> groups);  // in order
  // The first chosen work-group from `number` on that belongs to the same XCD; more than there are: none.
  uint64_t next_group(uint64_t number) const;
  uint32_t bucket_of(uint64_t number) const;  // where its executions are booked
  size_t buckets() const { return groups_.size(); }

  void select(const Resident& r);                                      // the wave whose events follow
  void ran(uint32_t instructions) { current_->done += instructions; }  // a straight-line run has ended
  // What the memory instruction that runs asks for.
  void access(Resident& r, const WaveAccess& access) override;
  void swizzled_access(Resident&, const WaveAccess&, uint64_t) override { refuse(); }
  void image_access(Resident&, Access, std::span<const WaveAccess>) override { refuse(); }
  void empty_access(Resident&) override { refuse(); }
  void scalar_load(Resident&, uint64_t address, uint32_t bytes) override { address_ = address, amount_ = bytes; }
  // The instruction has run; `in_run`: instructions since the last run ended.
  void add(Event::Kind kind, uint32_t now, uint32_t in_run);
  void add_wait(WaitLimits limits, uint32_t now, uint32_t in_run);
  void before_lds(const EngineCounts& counts) { before_lds_ = counts; }
  void add_lds(const EngineCounts& after, uint32_t now, uint32_t in_run);
  void refuse() { refused_ = true; }  // something happened that cannot be replayed

  // Of each chosen one, none at all when something was refused. `executed`: [bucket][instruction].
  std::vector<GroupTrace> end(const std::vector<std::vector<Executed>>& executed);
  const std::vector<LanePattern>& patterns() const { return patterns_; }  // of all recordings

 private:
  struct WaveTrace {
    std::vector<Event> events;
    uint32_t done = 0;  // instructions
  };
  struct Hash {
    size_t operator()(const LanePattern& p) const;
  };

  uint32_t waves_, xcds_;
  std::vector<uint64_t> groups_;
  std::vector<WaveTrace> traces_;  // [bucket][wave]
  std::vector<EngineCounts> lds_;  // [bucket]
  std::unordered_map<LanePattern, uint32_t, Hash> numbers_;
  std::vector<LanePattern> patterns_;
  WaveTrace* current_ = nullptr;
  EngineCounts* counting_ = nullptr;
  EngineCounts before_lds_;
  size_t events_ = 0;
  uint64_t address_ = 0;
  uint32_t amount_ = 0;
  bool accessed_ = false, refused_ = false;
};

// Whether the work-groups of a kernel can all do the same: their control flow and addresses depend on no loaded data.
bool may_replay(const std::vector<Step>& slice, const KernelInfo& kernel);

// Runs work-groups, given in order, and returns what each did; nothing when that cannot be recorded.
using RecordGroups = std::function<std::vector<GroupTrace>(std::vector<uint64_t>)>;

// Traces of a whole grid of `total` work-groups from some of them; nullopt where these do not all do the same. The
// patterns are the recorder's.
std::optional<Traces> trace_grid(uint64_t total, const RecordGroups& record);

}  // namespace hipsynth
