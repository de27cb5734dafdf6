#include "dispatch/chooser.h"

#include <algorithm>
#include <optional>

#include "core/tally.h"
#include "dispatch/recording.h"

namespace hipsynth {
namespace {

// If the expected error of any counter is larger than this, the sample is rejected. The dispatch is then executed
// exactly, provided that it is at most kRepeatable times the work up to which dispatches are exact anyway; if the
// duration's is larger than kUncertain, at most DeviceOptions::repeatable times.
constexpr double kLargestError = 0.02, kUncertain = 0.1;
constexpr uint64_t kRepeatable = 10;
// Long, equal work-groups are always replayed up to this many times that work. Up to DeviceOptions::replayable times
// it, replays of a device may take altogether.
constexpr uint64_t kReplayable = 16;
// Dispatches that fill less than this share of the machine are not executed twice: copying the caches would cost more.
constexpr uint64_t kWorthRepeating = 16;
// A dispatch whose duration is too uncertain is executed exactly if it is at most kExactAtMost times that work, which
// takes no longer than a fine sample; else sampled again with kFiner times the work and more units.
constexpr uint64_t kFiner = 10, kExactAtMost = 100;
constexpr uint32_t kFineUnits = 12;

// Whether a partly executed kernel may run again: the memory that its slice depends on must be unchanged.
bool is_repeatable(const std::vector<Step>& slice, const std::vector<Executed>& executed) {
  for (size_t i = 0; i < executed.size(); ++i) {
    if (executed[i].times && has_outside_effect(slice[i])) return false;
  }
  return true;
}

// Whether a kernel that was executed in part may run again although its slice stores to memory that it might read: it
// only stores, and to pages of which none decided where it went. What another part of the grid reads is not known.
bool kept_what_decides(const std::vector<Step>& slice, const std::vector<Executed>& executed, const Footprint& seen) {
  for (size_t i = 0; i < executed.size(); ++i) {
    if (!executed[i].times || !has_outside_effect(slice[i])) continue;
    if (slice[i].action == Action::message || slice[i].inst->op->mem.kind != MemKind::store) return false;
  }
  return seen.complete() && !seen.overlap(Footprint::decides, Footprint::writes);
}

// Counts of lines that are dirty when a dispatch ends. They vary at random and do not indicate errors of the other
// counters.
bool is_end_state(const std::string& counter) {
  return counter == "TCC_ALL_TC_OP_WB_WRITEBACK" || counter == "TCC_NORMAL_WRITEBACK" || counter == "TCC_NORMAL_EVICT";
}

double largest_error(const Execution& e) {
  double largest = 0;
  for (const auto& [name, error] : e.sampling.error) largest = std::max(largest, is_end_state(name) ? 0 : error);
  return largest;
}

// Executes the dispatch once more, exactly, for its counters alone.
Execution count_all(const PreparedLaunch& p, Hierarchy& hierarchy, const Snapshot& before) {
  before.restore();
  if (p.context.tally) p.context.tally->restart();
  Execution e = *ExactStrategy(&hierarchy, p.slice.steps().data()).execute(p);
  e.sampling.strategy = Strategy::sampled;  // of all work-groups: counts are exact, but results are not computed
  return e;
}

uint64_t work_of(const Execution& e, const Hierarchy& hierarchy) {
  return simulation_work(e.counts, hierarchy.counts());
}

}  // namespace

SamplingOptions Chooser::fine() const {
  return {std::max(options_.sampling_units, kFineUnits), kFiner * options_.sample_above};
}

// The most work for replaying a dispatch, in the units of simulation_work().
uint64_t Chooser::most_replayed(const PreparedLaunch& p, uint64_t exact_work) const {
  const uint64_t all = options_.replayable * exact_work, left = all - std::min(all, replayed_);
  return std::min({std::max(left, kReplayable * exact_work), all, p.limits.most_work});
}

Execution Chooser::replay(const PreparedLaunch& p, Hierarchy& hierarchy, const Snapshot& before,
                          RecordedTraces* traces) {
  before.restore();
  if (traces->work() > kReplayable * options_.sample_above) replayed_ += traces->work();
  return *ReplayedStrategy(hierarchy, *traces->traces(), traces->groups()).execute(p);
}

bool Chooser::is_unsure(const PreparedLaunch& p, const Execution& e) const {
  return refines() && p.duration_error(e) > options_.largest_error;
}

Chooser::Memory Chooser::memory_of(const Launch& launch) const {
  const auto known = outcomes_.find({launch.module->serial(), launch.kernel->entry});
  return known == outcomes_.end() ? Memory::nothing : known->second;
}

Execution Chooser::execute(const PreparedLaunch& p, Hierarchy* hierarchy) {
  if (!hierarchy || options_.sampling_units == 0 || p.waits) {
    return *ExactStrategy(hierarchy, p.context.steps).execute(p);
  }
  const Key key{p.launch.module->serial(), p.launch.kernel->entry};
  Outcome& outcome = outcomes_[key];
  const bool again = outcome == Outcome::nothing || (refines() && outcome < Outcome::refined_well);
  Execution e = again ? sample_first(p, *hierarchy, &outcome) : sample_known(p, *hierarchy, outcome);
  if (e.sampling.unreplayed) unreplayed_.insert(key);
  e.sampling.unreplayed |= !again && unreplayed_.contains(key);
  return e;
}

// A kernel whose sample was rejected is sampled again only for a dispatch too large to be executed twice.
Execution Chooser::sample_known(const PreparedLaunch& p, Hierarchy& hierarchy, Outcome known) const {
  const bool refined = known == Outcome::refined_well || known == Outcome::refined_badly;
  const bool bad = known == Outcome::sampled_badly || known == Outcome::refined_badly;
  SamplingOptions how = refined ? fine() : coarse();
  if (bad) how.exact_work *= kRepeatable;
  NoTraces none;
  return *SampledStrategy(hierarchy, how, none, p.context.steps).execute(p);
}

// Samples the dispatch. If its work-groups are long and equal, or if the estimated error is too large, executes it once
// more: as a replay if there are traces, else exactly if that is affordable, else more finely if that is asked for.
// What cannot run again is sampled finely at once. `outcome` is set for large dispatches that are not replayed.
Execution Chooser::sample_first(const PreparedLaunch& p, Hierarchy& hierarchy, Outcome* outcome) {
  const uint64_t resident = p.plan.occupancy.groups_per_cu * static_cast<uint64_t>(p.spec.topology.cus);
  const std::vector<Step>& slice = p.slice.steps();
  std::optional<Snapshot> before;
  if (refines() || kWorthRepeating * p.plan.total_groups > resident) before.emplace(hierarchy);
  const bool at_once = refines() && !is_pure(slice, *p.launch.kernel);
  const SamplingOptions how = at_once ? fine() : coarse();
  RecordedTraces recorded(p, most_replayed(p, how.exact_work), options_.in_part);
  NoTraces none;
  TraceSource& source = before ? static_cast<TraceSource&>(recorded) : none;
  Footprint own(p.context.memory);
  const Footprint& seen = p.context.footprint ? *p.context.footprint : own;
  std::optional<Execution> first =
      SampledStrategy(hierarchy, how, source, p.context.steps, refines() ? nullptr : &own).execute(p);
  if (!first) return replay(p, hierarchy, *before, &recorded);
  first->sampling.unreplayed = recorded.too_many();
  if (first->sampling.strategy == Strategy::exact) return *std::move(first);
  const bool bad = largest_error(*first) > kLargestError, unsure = is_unsure(p, *first);
  if (at_once)
    *outcome = bad ? Outcome::refined_badly : Outcome::refined_well;
  else
    *outcome = bad ? Outcome::sampled_badly : Outcome::sampled_well;
  if (!bad && !unsure) return *std::move(first);
  if (source.traces()) {
    *outcome = Outcome::nothing;
    return replay(p, hierarchy, *before, &recorded);
  }
  const bool repeats =
      is_repeatable(slice, first->executed) || (!refines() && kept_what_decides(slice, first->executed, seen));
  if (!before || !repeats) return *std::move(first);
  const uint64_t all = work_of(*first, hierarchy);
  const uint64_t times = !refines() && p.duration_error(*first) > kUncertain ? options_.repeatable : kRepeatable;
  if (all <= (unsure ? kExactAtMost * options_.sample_above : times * how.exact_work)) {
    if (unsure) *outcome = Outcome::refined_badly;  // the kernel's next dispatch of this size begins exactly
    return count_all(p, hierarchy, *before);
  }
  return unsure && !at_once ? refine(p, hierarchy, *before, outcome) : *std::move(first);
}

// The dispatch sampled again, finely, or replayed.
Execution Chooser::refine(const PreparedLaunch& p, Hierarchy& hierarchy, const Snapshot& before, Outcome* outcome) {
  const SamplingOptions how = fine();
  RecordedTraces recorded(p, most_replayed(p, how.exact_work));
  before.restore();
  if (p.context.tally) p.context.tally->restart();
  std::optional<Execution> e = SampledStrategy(hierarchy, how, recorded, p.slice.steps().data()).execute(p);
  *outcome = Outcome::nothing;
  if (!e) return replay(p, hierarchy, before, &recorded);
  e->sampling.unreplayed = recorded.too_many();
  if (e->sampling.strategy == Strategy::exact) {
    e->sampling.strategy = Strategy::sampled;  // see count_all()
    return *std::move(e);
  }
  const bool bad = largest_error(*e) > kLargestError;
  if (bad && recorded.traces()) return replay(p, hierarchy, before, &recorded);
  *outcome = bad ? Outcome::refined_badly : Outcome::refined_well;
  return *std::move(e);
}

}  // namespace hipsynth
