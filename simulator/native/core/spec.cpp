#include "core/spec.h"

#include "core/machine.h"

namespace hipsynth {

std::vector<std::string> spec_keys() {
  std::vector<std::string> keys;
  for (const SpecEntry& entry : kSpecEntries) keys.emplace_back(entry.key);
  return keys;
}

Spec make_spec(const SpecTable& table) {
  Spec spec;
  SpecTable unknown = table;
  std::string wrong;
  for (const SpecEntry& entry : kSpecEntries) {
    const auto row = table.find(entry.key);
    if (row == table.end()) {
      wrong += std::string("\n  missing: ") + entry.key;
      continue;
    }
    entry.value(spec) = row->second;
    unknown.erase(entry.key);
  }
  for (const auto& [key, value] : unknown) wrong += "\n  unknown: " + key;
  if (!wrong.empty()) throw SimError("bad_spec", "device table does not fit the simulator core:" + wrong);
  if (spec.topology.xcds < 1 || spec.topology.cus < spec.topology.xcds) {
    throw SimError("bad_spec", "device table: no compute units");
  }
  return spec;
}

}  // namespace hipsynth
