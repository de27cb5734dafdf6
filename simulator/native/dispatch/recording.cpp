#include "dispatch/recording.h"

#include <algorithm>
#include <utility>

namespace hipsynth {
namespace {

// Longer work-groups are not recorded.
constexpr uint64_t kMostRecorded = 5'000'000;  // wave instructions
// A part of a grid is at least so many times what fits on the device together.
constexpr double kLeastPart = 1.25;

// Runs the work-groups on their own. Returns nothing if one of them fails: the dispatch itself will report the error.
std::vector<GroupTrace> record_groups(const PreparedLaunch& p, Recorder* recorder, std::vector<uint64_t> groups) {
  EngineLimits limits = p.limits;
  limits.wave_instructions = std::min(limits.wave_instructions, kMostRecorded * groups.size());
  recorder->begin(std::move(groups));
  Context c = p.context;
  c.steps = p.slice.steps().data();
  Engine engine(c, p.spec, limits, p.launch, p.plan, p.waves);
  engine.record(recorder);
  try {
    engine.run();
  } catch (const SimError&) {
    p.spent->instructions += c.counts.wave_instructions;
    return {};
  }
  p.spent->instructions += c.counts.wave_instructions;
  return recorder->end(engine.runs());
}

}  // namespace

const Traces* RecordedTraces::traces() {
  if (!std::exchange(asked_, true)) traces_ = record();
  return traces_ ? &*traces_ : nullptr;
}

// Records a few work-groups without the memory model. Returns their common trace if they agree and replay is
// affordable, else nullopt.
std::optional<Traces> RecordedTraces::record() {
  if (!may_replay(p_.slice.steps(), *p_.launch.kernel)) return std::nullopt;
  Recorder recorder(p_.plan.occupancy.waves_per_group, static_cast<uint32_t>(p_.spec.topology.xcds),
                    p_.context.tally != nullptr);
  std::optional<Traces> traces = trace_grid(p_.plan.total_groups, [&](std::vector<uint64_t> groups) {
    return record_groups(p_, &recorder, std::move(groups));
  });
  if (!traces) return std::nullopt;
  traces->patterns = recorder.patterns();
  traces->fold_lds(p_.context.latency.lds);
  groups_ = std::min(p_.plan.total_groups, most_work_ / std::max<uint64_t>(1, traces->work()));
  const double resident = static_cast<double>(machine_of(p_.spec, p_.plan).resident_groups);
  const bool is_enough = in_part_ && static_cast<double>(groups_) >= kLeastPart * resident;
  too_many_ = groups_ < p_.plan.total_groups && !is_enough;
  if (too_many_) groups_ = 0;
  return too_many_ ? std::nullopt : std::move(traces);
}

}  // namespace hipsynth
