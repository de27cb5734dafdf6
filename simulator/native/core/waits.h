// Decodes s_waitcnt and computes how long a wave alone on the device would wait.
#pragma once

#include <cstdint>

#include "core/state.h"

namespace hipsynth {

// The numbers of instructions that may be outstanding after an s_waitcnt with this immediate.
struct WaitLimits {
  uint32_t vm, lgkm;
};
WaitLimits wait_limits(int64_t immediate);

Latencies latencies_of(const Spec& spec);

// Advances the wave's own time from `now` to the last answer that it waits for, and counts the wait.
void count_wait(Context& c, Resident* r, WaitLimits limits, uint32_t now);

}  // namespace hipsynth
