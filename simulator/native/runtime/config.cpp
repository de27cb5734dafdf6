#include "config.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>

#include "core/spec.h"
#include "hip_abi.h"

namespace hipsynth::runtime {
namespace {

double number(const std::string& text) {
  size_t used = 0;
  double value = std::stod(text, &used);
  if (used != text.size()) throw std::invalid_argument(text);
  return value;
}

// "NUMBER:BYTES:KIND", separated by commas; a kind is the place of its name in Elements.
std::map<uint64_t, KnownElements> parse_elements(const std::string& text) {
  std::map<uint64_t, KnownElements> elements;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row, ',');) {
    unsigned long long index = 0, bytes = 0;
    unsigned kind = 0;
    if (std::sscanf(row.c_str(), "%llu:%llu:%u", &index, &bytes, &kind) != 3 || kind >= kElements)
      throw std::invalid_argument("no elements");
    elements[index] = {bytes, static_cast<Elements>(kind)};
  }
  return elements;
}

using Setter = std::function<void(Config&, const std::string&)>;

template <class T>
Setter option(T DeviceOptions::* field) {
  return [field](Config& c, const std::string& v) { c.options.*field = static_cast<T>(number(v)); };
}

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table = {
      {"arch", [](Config& c, const std::string& v) { c.arch = hipsynth::parse_arch(c.arch_name = v); }},
      {"title", [](Config& c, const std::string& v) { c.title = v; }},
      {"code_object", [](Config& c, const std::string& v) { c.code_objects.push_back(v); }},
      {"disassembly", [](Config& c, const std::string& v) { c.disassemblies.push_back(v); }},
      {"objdump", [](Config& c, const std::string& v) { c.objdump = v; }},
      {"compiler", [](Config& c, const std::string& v) { c.compiler.push_back(v); }},  // one word per entry
      {"max_wave_instructions", option(&DeviceOptions::max_wave_instructions)},
      {"memory_bytes", option(&DeviceOptions::memory_bytes)},
      {"cpu_seconds", option(&DeviceOptions::cpu_seconds)},
      {"sampling_units", option(&DeviceOptions::sampling_units)},
      {"effort",
       [](Config& c, const std::string& v) {
         c.options.sample_above = static_cast<uint64_t>(number(v) * static_cast<double>(DeviceOptions{}.sample_above));
       }},
      {"largest_error", option(&DeviceOptions::largest_error)},
      {"strict_bounds", option(&DeviceOptions::strict_bounds)},
      {"embedded", [](Config& c, const std::string& v) { c.embedded = number(v) != 0; }},
      {"line_output", [](Config& c, const std::string& v) { c.line_output = number(v) != 0; }},
      {"replayable", option(&DeviceOptions::replayable)},
      {"in_part", option(&DeviceOptions::in_part)},
      {"per_kernel", option(&DeviceOptions::per_kernel)},
      {"reuse", option(&DeviceOptions::reuse)},
      {"lines", option(&DeviceOptions::lines)},
      {"values", option(&DeviceOptions::values)},
      {"budget_s", option(&DeviceOptions::budget_s)},
      {"settled_launches",
       [](Config& c, const std::string& v) { c.settled_launches = static_cast<uint64_t>(number(v)); }},
      {"counters", option(&DeviceOptions::counters)},
      {"count", option(&DeviceOptions::count)},
      {"outputs", [](Config& c, const std::string& v) { c.trial.outputs = number(v) != 0; }},
      {"record_bytes",
       [](Config& c, const std::string& v) { c.trial.record_bytes = static_cast<uint64_t>(number(v)); }},
      {"record_path", [](Config& c, const std::string& v) { c.trial.record_path = v; }},
      {"redraw", [](Config& c, const std::string& v) { c.trial.redraw.seed = static_cast<uint64_t>(number(v)); }},
      {"elements", [](Config& c, const std::string& v) { c.trial.elements = parse_elements(v); }},
      {"halves", [](Config& c, const std::string& v) { c.trial.redraw.halves = number(v) != 0; }},
      {"redraw_integers", [](Config& c, const std::string& v) { c.trial.redraw.integers = number(v) != 0; }},
      {"sharing_path", [](Config& c, const std::string& v) { c.sharing.path = v; }},
      {"sharing_touches",
       [](Config& c, const std::string& v) { c.sharing.limits.most_touches = static_cast<uint64_t>(number(v)); }},
      {"sharing_work",
       [](Config& c, const std::string& v) { c.sharing.limits.most_work = static_cast<uint64_t>(number(v)); }},
      {"launches_path", [](Config& c, const std::string& v) { c.recorder.path = v; }},
      {"launches_most",
       [](Config& c, const std::string& v) { c.recorder.most_launches = static_cast<uint64_t>(number(v)); }},
      {"launches_bytes",
       [](Config& c, const std::string& v) { c.recorder.most_bytes = static_cast<uint64_t>(number(v)); }},
      {"watch", [](Config& c, const std::string& v) { c.trial.watch = number(v) != 0; }},
      {"family",
       [](Config& c, const std::string& v) {
         c.trial.redraw.family = static_cast<Family>(static_cast<uint32_t>(number(v)) % kFamilies);
       }},
      {"nudge", [](Config& c, const std::string& v) { c.trial.redraw.nudge = static_cast<uint64_t>(number(v)); }},
      {"poison_every",
       [](Config& c, const std::string& v) { c.trial.poison_every = static_cast<uint32_t>(number(v)); }},
      {"guard", [](Config& c, const std::string& v) { c.trial.guard = number(v) != 0; }},
      {"races", option(&DeviceOptions::races)},
      {"exact_sums", option(&DeviceOptions::exact_sums)},
      {"one_in", option(&DeviceOptions::one_in)},
      {"which", option(&DeviceOptions::which)},
      {"poison_results", [](Config& c, const std::string& v) { c.trial.poison_results = number(v) != 0; }},
      {"scatter", [](Config& c, const std::string& v) { c.trial.scatter = static_cast<uint64_t>(number(v)); }},
      {"keep_l2", option(&DeviceOptions::keep_l2)},
      {"lds_fill", option(&DeviceOptions::lds_fill)},
      {"poison", [](Config& c, const std::string& v) { c.trial.poison = static_cast<uint32_t>(number(v)); }},
  };
  return table;
}

void set(Config& config, SpecTable* table, const std::string& key, const std::string& value) {
  static const std::string prefix = "spec.";
  if (key.starts_with(prefix)) {
    (*table)[key.substr(prefix.size())] = number(value);
    return;
  }
  auto setter = setters().find(key);
  if (setter == setters().end()) throw std::invalid_argument("unknown key " + key);
  setter->second(config, value);
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in) throw std::runtime_error(path + ": cannot be read");
  if (in.peek() != std::ifstream::traits_type::eof()) text << in.rdbuf();
  return text.str();
}

Config parse_config(std::string_view text) {
  Config config;
  SpecTable table;
  while (!text.empty()) {
    const std::string entry(text.substr(0, text.find('\0')));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    const size_t equals = entry.find('=');
    try {
      if (equals == std::string::npos) throw std::invalid_argument("no '='");
      set(config, &table, entry.substr(0, equals), entry.substr(equals + 1));
    } catch (const std::logic_error& error) {
      throw std::runtime_error("entry `" + entry + "`: " + error.what());
    }
  }
  config.spec = make_spec(table);
  return config;
}

}  // namespace hipsynth::runtime

// For the Python side: why this library rejects a configuration; "" if it accepts it. Not part of the HIP API.
HIPSYNTH_EXPORT const char* hipsynthRefusal(const char* text, size_t size) {
  static std::string reason;
  reason.clear();
  try {
    hipsynth::runtime::parse_config({text, size});
  } catch (const std::exception& error) {
    reason = error.what();
  }
  return reason.c_str();
}
