// Uncertainty of a sampled dispatch's duration, from the uncertainty of its counters.
#pragma once

#include <map>
#include <string>

#include "core/machine.h"
#include "timing/work.h"

namespace hipsynth {

// Not a counter, but durations depend on it: bytes moved by the HBM.
inline constexpr const char* kMemoryBytes = "hbm.bytes";

// Relative error of the duration. `errors`: relative errors by counter; missing ones are 0. The work is changed by each
// error in turn and timed; the differences are added, as if all errors had the same sign.
double duration_error(const Spec& spec, const Work& work, const std::map<std::string, double>& errors);

}  // namespace hipsynth
