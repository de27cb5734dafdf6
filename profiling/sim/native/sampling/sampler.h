// Runs a part of a large grid in place of all of it. A dispatch begins exactly; when its first work-groups show that
// the rest would take long, the sampler lets the dispatcher skip work-groups and the engine skip memory modelling:
//
//   start    everything is exact, with values
//   warm     caches fill with what the sampling unit's neighbours use; not counted
//   measure  counted, per instruction that waits or goes to memory
//   forward  long work-groups only: addresses, branches and barriers go on, memory is modelled for the cache warm-up
//            groups alone; after some windows most work-groups are abandoned, the others show how long they are
//   tail     the last sampling unit once it is warm, counted in full
//
// In the gaps between sampling units a few single work-groups run as functional probes, without memory modelling: they
// show how much work there is, the sampling units show what memory accesses cost.
//
// Long work-groups that all do the same are not sampled but replayed (sampling/trace.h): the dispatch begins anew.
//
// From the end of `start` on only the backward slice runs (sampling/slice.h): results are not computed.
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
  uint64_t exact_work = 0;  // work up to which a dispatch is run exactly, in the units of simulation_work()
};

class Sampler {
 public:
  Sampler(Context& context, CountedMemory& memory, const Spec& spec, const SamplingOptions& options,
          const LaunchPlan& plan, KernelSlice& slice, TraceSource& traces);

  // See GroupSchedule::next.
  uint64_t next_group(uint64_t number);
  // Called for each work-group that is placed; notes its role in the sample.
  void placed(uint64_t number, WorkGroup* group);
  // After each round; buckets() may change.
  void tick(uint64_t live_waves, const std::vector<std::vector<Executed>>& runs);
  // Whether all work-groups but those that stay are dropped now; true once.
  bool abandons() { return std::exchange(abandons_, false); }
  // Executes an instruction that goes to memory or the LDS: Action::sampled.
  void run_site(Resident& r, const Step& s);
  // Around the engine's handling of a wait.
  void before_wait();
  void after_wait(const Resident& r, const Step& s);

  bool sampling() const { return phase_ != Phase::start; }
  // Whether the execution ends here because the dispatch will be replayed.
  bool stops() const { return stops_; }
  // Where a work-group's executions are booked: for each stratum one bucket for its sampling unit, one for the
  // work-groups of the unit that stay when others are abandoned, one for its functional probes.
  size_t buckets() const { return kBuckets * schedule_.size(); }
  // After the hierarchy's end_dispatch: what there is to estimate from.
  Sample finish(const std::vector<std::vector<Executed>>& runs);

 private:
  enum class Phase : uint8_t { start, warm, measure, forward, tail };
  enum Bucket : uint32_t { kLeave, kStay, kProbe, kBuckets };
  using Buckets = std::vector<std::vector<Executed>>;
  static constexpr uint64_t kFirstEnded = 64;  // share of the machine's long work-groups that shows their length

  Events now() const;
  uint64_t work() const;
  void enter(Phase phase);
  void consider(uint64_t live_waves, const Buckets& runs);
  void plan(std::vector<Stratum> strata, double work_per_group);
  void begin(const Buckets& runs);
  std::vector<Stratum> parts_that_all_run() const;
  bool settled() const;
  bool skip_short();
  void skip_long(const Buckets& runs);
  void enter_tail(const Buckets& runs);
  uint64_t forward_length() const;
  uint64_t ended(uint64_t live_waves) const;  // work-groups
  double light_work(const std::vector<Executed>& executed) const;
  std::vector<Executed> unit_executions(const Buckets& runs, size_t k) const;
  std::vector<uint64_t> site_executions(const Buckets& runs, size_t k) const;
  bool seen_enough() const;
  void close_cell();
  SiteTally* tally(const Resident& r, uint32_t site);
  bool look_closely(const Resident& r, const Step& s, uint32_t site) const;
  void forward(Resident& r, const Step& s);

  bool awaits_length() const { return long_groups_ && !planned_; }

  // What the architecture table and the occupancy say.
  struct Machine {
    uint32_t xcds, cus;
    uint64_t resident_groups;  // that all CUs hold
    uint64_t l2_lines;         // of all L2s
    uint64_t infinity_bytes, line_bytes;
  };
  // Work of the phases, in the units of simulation_work().
  struct Budget {
    uint64_t exact, start, warm, measure;
  };
  // Where the running phase began.
  struct Mark {
    uint64_t work = 0, misses = 0, instructions = 0;
  };

  static Machine machine_of(const Spec& spec, const LaunchPlan& plan);

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
  bool stops_ = false, long_groups_ = false, planned_ = false, behind_ = false;
  bool abandons_ = false, abandoned_ = false;
  GroupSchedule schedule_;
  std::vector<uint64_t> run_{0}, probes_{0};  // work-groups of each stratum that ran
  uint64_t staying_ = 0, vanished_ = 0;       // of the first stratum's, those that stay; those that were abandoned
  uint64_t counted_groups_ = 0;               // of each sampling unit of short work-groups, at its end
  uint64_t placed_ = 0, highest_ = 0;         // work-groups
  uint32_t current_ = 0;                      // stratum that is being dispatched
  uint64_t unit_instructions_ = 0;            // before the running sampling unit

  SiteEvidence evidence_;
  Events wait_before_, exact_, tail_from_;
  std::vector<std::vector<uint64_t>> counted_, tail_counted_;
  uint64_t chain_at_start_ = 0, dirty_before_ = 0;
  std::vector<std::vector<uint64_t>> channels_seen_;  // requests of every L2 channel: at the start, after each window
};

// Estimates of a whole grid.
struct Extrapolation {
  std::vector<Executed> executed;  // per instruction
  EngineCounts counts;
  std::map<std::string, double> error;  // expected relative error (two standard deviations) by counter
  uint64_t groups_simulated = 0;
};

// What the whole grid would have counted; the hierarchy's counts become those of the whole. (sampling/extrapolate.cpp)
Extrapolation extrapolate(const Sample& sample, const Program& program, Hierarchy* hierarchy);

// How much there is to simulate, in units of about 10 ns.
uint64_t simulation_work(const EngineCounts& engine, const MemoryCounts& memory);

// Executions per instruction from the engine's difference array.
std::vector<Executed> executions_of(const std::vector<Executed>& runs);

}  // namespace hipsynth
