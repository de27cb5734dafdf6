// How long a dispatch takes: throughput bounds of each unit, latency exposed by occupancy, launch overhead.
#pragma once

#include "core/counters.h"
#include "core/launch.h"
#include "core/state.h"

namespace hipsynth {

struct TimingInput {
  const SpecTable* spec = nullptr;
  const LaunchPlan* plan = nullptr;
  const IssueCounts* issue = nullptr;
  const EngineCounts* engine = nullptr;
  const Hierarchy* hierarchy = nullptr;
};

// Sets duration_ns, SQ_BUSY_CU_CYCLES, bottleneck and details (each bound in ns as "bound.<unit>", occupancy as
// "occupancy.*").
void time_dispatch(const TimingInput& input, Dispatch* dispatch);

}  // namespace hipsynth
