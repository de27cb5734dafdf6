// What s_waitcnt waits for, and how long a wave alone on the device would wait for it.
#pragma once

#include <cstdint>

#include "core/state.h"

namespace hipsynth {

// How much may be outstanding behind an s_waitcnt with this immediate.
struct WaitLimits {
  uint32_t vm, lgkm;
};
WaitLimits wait_limits(int64_t immediate);

Latencies latencies_of(const Spec& spec);

// Moves the wave's own time, `now` at the wait, to the last of the answers that it waits for, and counts how long that
// takes.
void count_wait(Context& c, Resident* r, WaitLimits limits, uint32_t now);

}  // namespace hipsynth
