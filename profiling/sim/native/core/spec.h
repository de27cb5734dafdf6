// The keys of an architecture table that the core reads; a table must have exactly these.
#pragma once

#include <string>
#include <vector>

#include "core/machine.h"

namespace hipsynth {

const std::vector<std::string>& spec_keys();
void check_spec(const SpecTable& spec);  // throws SimError "bad_spec" with every missing and unknown key

}  // namespace hipsynth
