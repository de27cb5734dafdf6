// The keys of an architecture table that the core reads; a table must have exactly these.
#pragma once

#include <string>
#include <vector>

#include "core/machine.h"

namespace hipsynth {

// The counter that s_memrealtime reads, on both architectures; what HIP calls the wall clock.
constexpr double kRealtime_MHz = 100;

const std::vector<std::string>& spec_keys();
void check_spec(const SpecTable& spec);  // throws SimError "bad_spec" with every missing and unknown key

}  // namespace hipsynth
