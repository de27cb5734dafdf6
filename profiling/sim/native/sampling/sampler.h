// Runs a part of a large grid in place of all of it. A dispatch begins exactly; when its first work-groups show that
// the rest would take long, the sampler lets the dispatcher skip work-groups and the engine skip memory modelling:
//
//   start    everything is exact, with values
//   warm     caches fill with what the stretch's neighbours use; not counted
//   measure  counted, per instruction that waits or goes to memory
//   forward  long work-groups only: addresses, branches and barriers go on, memory is modelled for a few work-groups
//            (scouts) that keep the caches warm; after some windows most work-groups are abandoned, the others tell how
//            long they are
//   tail     the last stretch once it is warm, counted in full
//
// In the gaps between stretches a few single work-groups (probes) run without memory modelling: they tell how much work
// there is, the stretches tell what memory accesses cost.
//
// Long work-groups that all do the same are not sampled but replayed (sampling/trace.h): the dispatch begins anew.
//
// From the end of `start` on only instructions that decide counters run (sampling/slice.h): results are not computed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/launch.h"
#include "core/state.h"
#include "execute/memory_model.h"
#include "sampling/sampling.h"
#include "sampling/slice.h"
#include "sampling/trace.h"

namespace hipsynth {

struct SamplingOptions {
  uint32_t units = 0;       // sampling units between the first and the last one
  uint64_t exact_work = 0;  // work up to which a dispatch is run exactly, in the units of simulation_work()
};

class Sampler {
 public:
  Sampler(Context& context, CountedMemory& memory, const SpecTable& spec, const SamplingOptions& options,
          const LaunchPlan& plan, KernelSlice& slice, TraceSource& traces);

  // The first work-group from `number` on that runs and belongs to the same XCD; at least total_groups: none, or not
  // yet. XCDs begin a stretch together: at its edges they would drift apart, each with its own probes.
  uint64_t next_group(uint64_t number);
  // Told of each work-group that is placed; notes what it is to the sample.
  void placed(uint64_t number, WorkGroup* group);
  // After each round; buckets() may change.
  void tick(uint64_t live_waves, const std::vector<std::vector<Executed>>& runs);
  // Whether all work-groups vanish now but those that stay. Says so once.
  bool abandons() { return std::exchange(abandons_, false); }
  // An instruction that goes to memory or the LDS. Steps of the sampler alone lead here.
  void run_site(Resident& r, const Step& s);
  // Around the engine's handling of a wait.
  void before_wait();
  void after_wait(const Resident& r, const Step& s);

  bool sampling() const { return phase_ != Phase::start; }
  // Whether all of this dispatch is replayed in another way.
  bool stops() const { return stops_; }
  // Where a work-group's executions are booked: for each stratum one bucket for its stretch, one for those of the
  // stretch that stay when others are abandoned, one for its probes.
  size_t buckets() const { return kBuckets * strata_.size(); }
  // After the hierarchy's end_dispatch: what there is to estimate from.
  Sample finish(const std::vector<std::vector<Executed>>& runs);

 private:
  enum class Phase : uint8_t { start, warm, measure, forward, tail };
  enum Bucket : uint32_t { kLeave, kStay, kProbe, kBuckets };
  using Buckets = std::vector<std::vector<Executed>>;
  static constexpr uint64_t kFirstEnded = 64;  // share of the machine's long work-groups that tells their length

  Events now() const;
  uint64_t work() const;
  void enter(Phase phase);
  void consider(uint64_t live_waves, const Buckets& runs);
  void mark_sites();
  void plan(std::vector<Stratum> strata, double work_per_group);
  uint64_t follower(uint64_t number) const;    // next_group, whether it is time or not
  uint32_t stratum_of(uint64_t number) const;  // past the last one: none
  uint64_t next_probe(uint64_t number, uint64_t from, uint64_t to) const;
  void begin(const Buckets& runs);
  bool settled() const;
  bool skip_short();
  void skip_long(const Buckets& runs);
  void enter_tail(const Buckets& runs);
  uint64_t forward_length() const;
  uint64_t ended(uint64_t live_waves) const;  // work-groups
  double light_work(const std::vector<Executed>& executed) const;
  std::vector<Executed> stretch_executions(const Buckets& runs, size_t k) const;
  std::vector<uint64_t> site_executions(const Buckets& runs, size_t k) const;
  bool seen_enough() const;
  void close_cell();
  SiteTally* tally(const Resident& r, uint32_t site);
  bool look_closely(const Resident& r, const Step& s, uint32_t site) const;
  void forward(Resident& r, const Step& s);

  Context& c_;
  const LaunchPlan& plan_;
  CountedMemory& memory_;
  MemoryModel functional_;
  Hierarchy& hierarchy_;
  KernelSlice& slice_;
  TraceSource& traces_;
  std::vector<Step> steps_;      // deciding ones, with sites marked; empty until they are needed
  std::vector<uint32_t> sites_;  // site -> instruction
  uint32_t xcds_, sampling_units_, cus_;
  uint64_t resident_, l2_lines_;  // work-groups that all CUs hold; lines that all L2s hold
  uint64_t infinity_bytes_, line_bytes_;
  uint64_t exact_work_, start_work_, warm_work_, measure_work_;
  Phase phase_ = Phase::start;
  bool stops_ = false, long_groups_ = false, planned_ = false, behind_ = false;
  std::vector<Stratum> strata_;
  std::vector<uint64_t> run_{0}, probes_{0};  // work-groups of each stratum that ran
  uint64_t staying_ = 0, vanished_ = 0;       // of the first stratum's, those that stay; those that were abandoned
  bool abandons_ = false, abandoned_ = false;
  uint64_t probe_spacing_ = 1;         // work-groups of a gap per probe
  uint64_t counted_groups_ = 0;        // of each stretch of short work-groups, at its end
  std::vector<uint64_t> next_;         // per XCD
  uint64_t placed_ = 0, highest_ = 0;  // work-groups
  uint32_t current_ = 0;               // stratum that is being dispatched
  uint64_t mark_work_ = 0, mark_misses_ = 0, mark_instructions_ = 0, stretch_instructions_ = 0;
  Events wait_before_, exact_, tail_from_;
  std::vector<std::vector<uint64_t>> counted_, tail_counted_;
  std::vector<std::vector<SiteTally>> measured_, cells_;
  std::vector<uint32_t> cell_strata_;
  std::vector<SiteTally> spare_, closed_;  // closed_: of measured_, what the cells have so far
  std::vector<uint32_t> looks_;            // per site: tallied executions
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
