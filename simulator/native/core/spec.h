// Device constants from the key/value form in a run's configuration.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device_spec.h"

namespace hipsynth {

// A device table (simulator/devices/*.toml) flattened to "section.key" -> number.
using SpecTable = std::map<std::string, double>;

std::vector<std::string> spec_keys();
Spec make_spec(const SpecTable& table);  // throws SimError "bad_spec" with every missing and unknown key

}  // namespace hipsynth
