#include "dispatch/chooser.h"

#include <algorithm>
#include <optional>

#include "core/tally.h"
#include "dispatch/recording.h"

namespace hipsynth {
namespace {

// If the expected error of any counter is larger than this, the sample is rejected. The dispatch is then executed
// exactly, provided that it is at most kRepeatable times the work up to which dispatches are exact anyway.
constexpr double kLargestError = 0.02;
constexpr uint64_t kRepeatable = 10;
// A dispatch of long, equal work-groups is replayed if replay is at most this many times that work.
constexpr uint64_t kReplayable = 16;
// Dispatches that fill less than this share of the machine are not executed twice: copying the caches would cost more.
constexpr uint64_t kWorthRepeating = 16;

// Whether a partly executed kernel may run again: the memory that its slice depends on must be unchanged.
bool is_repeatable(const std::vector<Step>& slice, const std::vector<Executed>& executed) {
  for (size_t i = 0; i < executed.size(); ++i) {
    if (executed[i].times && has_outside_effect(slice[i])) return false;
  }
  return true;
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

}  // namespace

Chooser::Memory Chooser::memory_of(const Launch& launch) const {
  const auto known = outcomes_.find({launch.module->serial(), launch.kernel->entry});
  if (known == outcomes_.end() || known->second == Outcome::replayed) return Memory::nothing;
  return known->second == Outcome::sampled_well ? Memory::sampled_well : Memory::sampled_badly;
}

Execution Chooser::execute(const PreparedLaunch& p, Hierarchy* hierarchy) {
  if (!hierarchy || options_.sampling_units == 0) {
    return *ExactStrategy(hierarchy, p.context.steps).execute(p);
  }
  const std::pair<uint64_t, uint32_t> key{p.launch.module->serial(), p.launch.kernel->entry};
  const auto known = outcomes_.find(key);
  if (known == outcomes_.end() || known->second == Outcome::replayed) {
    std::optional<Outcome> outcome;
    Execution e = sample_first(p, *hierarchy, &outcome);
    if (outcome) outcomes_[key] = *outcome;
    return e;
  }
  // A kernel whose sample was rejected is sampled again only for a dispatch too large to be executed twice.
  const uint64_t exact_work = options_.sample_above * (known->second == Outcome::sampled_well ? 1 : kRepeatable);
  NoTraces none;
  return *SampledStrategy(*hierarchy, {options_.sampling_units, exact_work}, none).execute(p);
}

// Samples the dispatch. If its work-groups are long and equal, or if the estimated error is too large, executes it once
// more: as a replay if there are traces, else exactly if that is affordable. `outcome` is set for large dispatches.
Execution Chooser::sample_first(const PreparedLaunch& p, Hierarchy& hierarchy, std::optional<Outcome>* outcome) {
  const uint64_t resident = p.plan.occupancy.groups_per_cu * static_cast<uint64_t>(p.spec.topology.cus);
  std::optional<Snapshot> before;
  if (kWorthRepeating * p.plan.total_groups > resident) before.emplace(hierarchy);
  RecordedTraces recorded(p, std::min(kReplayable * options_.sample_above, p.limits.most_work));
  NoTraces none;
  TraceSource& source = before ? static_cast<TraceSource&>(recorded) : none;
  const auto replay = [&] {
    before->restore();
    *outcome = Outcome::replayed;
    return *ReplayedStrategy(hierarchy, *source.traces()).execute(p);
  };
  std::optional<Execution> first =
      SampledStrategy(hierarchy, {options_.sampling_units, options_.sample_above}, source).execute(p);
  if (!first) return replay();
  if (first->sampling.strategy == Strategy::exact) return *std::move(first);
  const bool good = largest_error(*first) <= kLargestError;
  *outcome = good ? Outcome::sampled_well : Outcome::sampled_badly;
  if (good) return *std::move(first);
  if (source.traces()) return replay();
  const bool affordable = simulation_work(first->counts, hierarchy.counts()) <= kRepeatable * options_.sample_above;
  const std::vector<Step>& slice = p.slice.steps();
  if (!before || !affordable || !is_repeatable(slice, first->executed)) return *std::move(first);
  before->restore();
  if (p.context.tally) p.context.tally->restart();
  Execution e = *ExactStrategy(&hierarchy, slice.data()).execute(p);
  e.sampling.strategy = Strategy::sampled;  // of all work-groups: counts are exact, but results are not computed
  return e;
}

}  // namespace hipsynth
