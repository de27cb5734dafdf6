// Traces of a dispatch, recorded from a few of its work-groups on first use.
#pragma once

#include <cstdint>
#include <optional>

#include "dispatch/strategy.h"

namespace hipsynth {

class RecordedTraces final : public TraceSource {
 public:
  // `most_work`: limit for replaying the whole grid, in the units of simulation_work().
  RecordedTraces(const PreparedLaunch& p, uint64_t most_work) : p_(p), most_work_(most_work) {}
  const Traces* traces() override;
  // Whether the work-groups are equal, but too many to be replayed.
  bool too_many() const { return too_many_; }
  // The work of replaying the whole grid; 0 without traces.
  uint64_t work() const { return traces_ ? traces_->work() * p_.plan.total_groups : 0; }

 private:
  std::optional<Traces> record();

  const PreparedLaunch& p_;
  uint64_t most_work_;
  bool asked_ = false, too_many_ = false;
  std::optional<Traces> traces_;
};

// For a dispatch that must not be replayed.
class NoTraces final : public TraceSource {
 public:
  const Traces* traces() override { return nullptr; }
};

}  // namespace hipsynth
