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
  if (!wrong.empty()) throw SimError(Reason::bad_spec, "device table does not fit the simulator core:" + wrong);
  if (spec.topology.xcds < 1 || spec.topology.cus < spec.topology.xcds) {
    throw SimError(Reason::bad_spec, "device table: no compute units");
  }
  if (spec.lds.banks < 1 || spec.lds.banks > 64 || spec.lds.bytes_per_cycle < 16 || spec.lds.bytes_per_cycle > 128) {
    throw SimError(Reason::bad_spec, "device table: an LDS of 1 to 64 banks delivers 16 to 128 bytes per cycle");
  }
  return spec;
}

}  // namespace hipsynth
