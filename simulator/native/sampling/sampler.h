// Runs part of a large grid instead of all of it. A dispatch begins exactly; if its first work-groups show that the
// rest would take long, the sampler makes the dispatcher skip work-groups and the engine skip memory modelling:
//
//   start    everything is exact, with values
//   warm     caches fill with data of the work-groups around the sampling unit; not counted
//   measure  counted, per instruction that waits or accesses memory
//   forward  long work-groups only: addresses, branches and barriers continue, memory is modelled for the cache warm-up
//            groups only; after some windows most work-groups are abandoned, the remaining ones show their length
//   tail     the last sampling unit, once caches are warm, counted in full
//
// In the gaps between sampling units a few single work-groups run as functional probes, without memory modelling:
// probes measure the amount of work, sampling units the cost of memory accesses.
//
// Long work-groups that all do the same are not sampled but replayed (sampling/trace.h): the dispatch restarts.
//
// After `start` only the backward slice runs (sampling/slice.h): results are not computed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/launch.h"
#include "core/state.h"
#include "execute/memory_model.h"
#include "sampling/evidence.h"
#include "sampling/sampling.h"
#include "sampling/schedule.h"
#include "sampling/slice.h"
#include "sampling/trace.h"

namespace hipsynth {

struct SamplingOptions {
  uint32_t units = 0;       // sampling units between the first and the last one
  uint64_t exact_work = 0;  // dispatches up to this much work run exactly, in the units of simulation_work()
};

// Constants from the device table and the occupancy.
struct Machine {
  uint32_t xcds, cus;
  uint64_t resident_groups;  // work-groups that fit on all CUs together
  uint64_t l2_lines;         // of all L2s
  uint64_t infinity_bytes, line_bytes;
};
Machine machine_of(const Spec& spec, const LaunchPlan& plan);

class Sampler {
 public:
  Sampler(Context& context, CountedMemory& memory, const Spec& spec, const SamplingOptions& options,
          const LaunchPlan& plan, KernelSlice& slice, TraceSource& traces);

  // See GroupSchedule::next.
  uint64_t next_group(uint64_t number);
  // Called for each placed work-group; sets its role in the sample.
  void placed(uint64_t number, WorkGroup* group);
  // Called after each round; buckets() may change.
  void tick(uint64_t live_waves, const std::vector<std::vector<Executed>>& runs);
  // Whether all work-groups except those that stay must be dropped now; true once.
  bool abandons() { return std::exchange(abandons_, false); }
  // Executes a memory or LDS instruction: Action::sampled.
  void run_site(Resident& r, const Step& s);
  // Called around the engine's handling of a wait.
  void before_wait();
  void after_wait(const Resident& r, const Step& s);

  bool sampling() const { return phase_ != Phase::start; }
  // Whether this execution stops because the dispatch will be replayed.
  bool stops() const { return stops_; }
  // Number of buckets for executions. Each stratum has three: its sampling unit, the work-groups of the unit that stay
  // when others are abandoned, and its functional probes.
  size_t buckets() const { return kBuckets * schedule_.size(); }
  // The lifetimes of the whole grid. A probe's are those without modelled memory.
  Lives whole(const std::vector<Lives>& seen) const;
  // Returns the measurements. Call it after the hierarchy's end_dispatch.
  Sample finish(const std::vector<std::vector<Executed>>& runs);

 private:
  enum class Phase : uint8_t { start, warm, measure, forward, tail };
  enum Bucket : uint32_t { kLeave, kStay, kProbe, kBuckets };
  using Buckets = std::vector<std::vector<Executed>>;
  // The length of long work-groups is known once 1 / kFirstEnded of those that fill the machine have ended.
  static constexpr uint64_t kFirstEnded = 64;

  Events now() const;
  uint64_t work() const;
  void enter(Phase phase);
  void consider(uint64_t live_waves, const Buckets& runs);
  void plan(std::vector<Stratum> strata, double work_per_group);
  void begin(const Buckets& runs);
  std::vector<Stratum> parts_that_all_run() const;
  bool settled(uint64_t live_waves) const;
  bool came_round(uint64_t live_waves) const;
  bool skip_short();
  void skip_long(const Buckets& runs);
  void enter_tail(const Buckets& runs);
  uint64_t forward_length() const;
  uint64_t ended(uint64_t live_waves) const;  // number of work-groups that have ended
  uint64_t lines_of_gap(uint32_t k) const;
  double light_work(const std::vector<Executed>& executed) const;
  std::vector<Executed> unit_executions(const Buckets& runs, size_t k) const;
  std::vector<uint64_t> site_executions(const Buckets& runs, size_t k) const;
  bool seen_enough() const;
  void close_cell();
  SiteTally* tally(const Resident& r, uint32_t site);
  bool look_closely(const Resident& r, const Step& s, uint32_t site) const;
  void forward(Resident& r, const Step& s);

  bool awaits_length() const { return long_groups_ && !planned_; }

  // Work per phase, in the units of simulation_work().
  struct Budget {
    uint64_t exact, start, warm, measure, long_groups, fill;
  };
  // State at the start of the current phase.
  struct Mark {
    uint64_t work = 0, misses = 0, instructions = 0;
  };

  Context& c_;
  const LaunchPlan& plan_;
  CountedMemory& memory_;
  MemoryModel functional_;
  Hierarchy& hierarchy_;
  KernelSlice& slice_;
  TraceSource& traces_;
  const Machine machine_;
  const uint32_t sampling_units_;
  const Budget budget_;

  Phase phase_ = Phase::start;
  Mark mark_;
  std::vector<uint64_t> turns_;  // [site]: modelled executions of a load in the current phase
  uint64_t most_turns_ = 0;      // of a site
  bool stops_ = false, long_groups_ = false, planned_ = false, behind_ = false;
  bool abandons_ = false, abandoned_ = false;
  GroupSchedule schedule_;
  std::vector<uint64_t> run_{0}, probes_{0};  // [stratum]: work-groups that ran
  uint64_t staying_ = 0, vanished_ = 0;       // staying work-groups of the first stratum; abandoned ones
  uint64_t counted_groups_ = 0;               // short work-groups: number counted at the end of each sampling unit
  uint64_t placed_ = 0, highest_ = 0;         // work-groups
  uint32_t current_ = 0;                      // stratum being dispatched
  uint64_t unit_instructions_ = 0;            // count before the current sampling unit

  SiteEvidence evidence_;
  Events wait_before_, exact_, tail_from_;
  std::vector<std::vector<uint64_t>> counted_, tail_counted_;
  uint64_t chain_at_start_ = 0, atomics_at_start_ = 0, dirty_before_ = 0;
};

// Estimates for a whole grid.
struct Extrapolation {
  std::vector<Executed> executed;  // per instruction
  EngineCounts counts;
  std::map<std::string, double> error;  // expected relative error (two standard deviations) by counter
  uint64_t groups_simulated = 0;
};

// The counters of these counts, to which the hierarchy's are set.
std::map<std::string, double> counters_of(const Program& program, const Estimate& e, Hierarchy* hierarchy);

// Notes what the caches hold at the end of a dispatch, and their sizes.
void describe_end(Hierarchy& hierarchy, const Machine& machine, Sample* sample);

// Estimates the counts of the whole grid; also sets the hierarchy's counts to them. (sampling/extrapolate.cpp)
Extrapolation extrapolate(const Sample& sample, const Program& program, Hierarchy* hierarchy);

// Simulation work of these events, in units of about 10 ns.
uint64_t simulation_work(const EngineCounts& engine, const MemoryCounts& memory);

// Sums the engine's difference array to executions per instruction.
std::vector<Executed> executions_of(const std::vector<Executed>& runs);

}  // namespace hipsynth
