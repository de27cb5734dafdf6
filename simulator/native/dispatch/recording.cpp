#include "dispatch/recording.h"

#include <algorithm>
#include <utility>

namespace hipsynth {
namespace {

// Longer work-groups are not recorded.
constexpr uint64_t kMostRecorded = 5'000'000;  // wave instructions

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
  Recorder recorder(p_.plan.occupancy.waves_per_group, static_cast<uint32_t>(p_.spec.topology.xcds));
  std::optional<Traces> traces = trace_grid(p_.plan.total_groups, [&](std::vector<uint64_t> groups) {
    return record_groups(p_, &recorder, std::move(groups));
  });
  if (!traces) return std::nullopt;
  traces->patterns = recorder.patterns();
  traces->fold_lds(p_.context.latency.lds);
  too_many_ = traces->work() > most_work_ / p_.plan.total_groups;
  return too_many_ ? std::nullopt : std::move(traces);
}

}  // namespace hipsynth
