// The duration of a dispatch from its event counts: throughput of each unit, latency not hidden by occupancy, the
// dispatcher, and the phases before the first and after the last wave.
//
//   duration = launch + ramp + body + write-back
//   ramp       until the first answer arrives
//   body       one wave's own issue cycles, which it cannot hide itself, then the largest of: the remaining work of
// each
//              unit, shared by the waves of a SIMD; the dispatcher; and the memory path
//   memory     the slowest of: waves' round trips by Little's law, vL1D, L2, atomics, Infinity Cache, HBM
//   write-back of the L2, where the device does that at the end of a kernel
#pragma once

#include "core/counters.h"
#include "core/launch.h"
#include "core/state.h"
#include "timing/work.h"

namespace hipsynth {

struct Timing {
  double duration_ns = 0;
  double busy_ns = 0;      // duration without the launch
  double busy_cycles = 0;  // the same in cycles of the actual clock, which drops under load
  Limits limits;
  double halves_apart = 0;  // share of second line halves that a busy L2 requests separately (0..1)
};

Work work_of(const LaunchPlan& plan, const IssueCounts& issue, const EngineCounts& engine, const Hierarchy* hierarchy);
Timing estimate(const Spec& spec, const Work& work);

// What a kernel waits besides behind one that left so many bytes modified in the L2s: each XCD writes its own back.
double handover_ns(const Spec& spec, double modified_bytes);

// Sets duration_ns, SQ_BUSY_CU_CYCLES, limits, occupancy and work.
void time_dispatch(const Spec& spec, const LaunchPlan& plan, const Work& work, Dispatch* dispatch);

}  // namespace hipsynth
