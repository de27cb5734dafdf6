// Traces of a dispatch, recorded from a few of its work-groups on first use.
#pragma once

#include <cstdint>
#include <optional>

#include "dispatch/strategy.h"

namespace hipsynth {

class RecordedTraces final : public TraceSource {
 public:
  // `most_work`: limit for replaying the grid, in the units of simulation_work(). `in_part`: of one that would take
  // more, a part is replayed if that is enough for its first work-groups and what follows.
  RecordedTraces(const PreparedLaunch& p, uint64_t most_work, bool in_part = false)
      : p_(p), most_work_(most_work), in_part_(in_part) {}
  const Traces* traces() override;
  // Whether the work-groups are equal, but too many to be replayed.
  bool too_many() const { return too_many_; }
  // Work-groups that are to be replayed; 0 without traces.
  uint64_t groups() const { return groups_; }
  // The work of replaying them.
  uint64_t work() const { return traces_ ? traces_->work() * groups_ : 0; }

 private:
  std::optional<Traces> record();

  const PreparedLaunch& p_;
  uint64_t most_work_, groups_ = 0;
  bool in_part_;
  bool asked_ = false, too_many_ = false;
  std::optional<Traces> traces_;
};

// For a dispatch that must not be replayed.
class NoTraces final : public TraceSource {
 public:
  const Traces* traces() override { return nullptr; }
};

}  // namespace hipsynth
