#include "core/spec.h"

#include <algorithm>
#include <iterator>

#include "spec_keys.h"

namespace hipsynth {

const std::vector<std::string>& spec_keys() {
  static const std::vector<std::string> keys(std::begin(kSpecKeys), std::end(kSpecKeys));
  return keys;
}

void check_spec(const SpecTable& spec) {
  std::string wrong;
  for (const std::string& key : spec_keys()) {
    if (!spec.count(key)) wrong += "\n  missing: " + key;
  }
  for (const auto& [key, value] : spec) {
    if (std::find(spec_keys().begin(), spec_keys().end(), key) == spec_keys().end()) wrong += "\n  unknown: " + key;
  }
  if (!wrong.empty()) throw SimError("bad_spec", "architecture table does not fit the simulator core:" + wrong);
  if (spec.at("topology.xcds") < 1 || spec.at("topology.cus") < spec.at("topology.xcds"))
    throw SimError("bad_spec", "architecture table: no compute units");
}

}  // namespace hipsynth
