// How uncertain the duration of a sampled dispatch is, from how uncertain its counters are.
#pragma once

#include <map>
#include <string>

#include "core/machine.h"
#include "timing/work.h"

namespace hipsynth {

// No counter, but what durations depend on: bytes moved by the HBM.
inline constexpr const char* kMemoryBytes = "hbm.bytes";

// Relative error of the duration. `errors`: relative errors by counter; missing ones are 0. The work is
// changed by each of them in turn and timed; the differences are added as if all erred in the same direction.
double duration_error(const Spec& spec, const Work& work, const std::map<std::string, double>& errors);

}  // namespace hipsynth
