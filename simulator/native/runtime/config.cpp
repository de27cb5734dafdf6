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

using Setter = std::function<void(Config&, const std::string&)>;

const std::map<std::string, Setter>& setters() {
  static const std::map<std::string, Setter> table = {
      {"arch", [](Config& c, const std::string& v) { c.arch = hipsynth::parse_arch(c.arch_name = v); }},
      {"title", [](Config& c, const std::string& v) { c.title = v; }},
      {"code_object", [](Config& c, const std::string& v) { c.code_objects.push_back(v); }},
      {"disassembly", [](Config& c, const std::string& v) { c.disassemblies.push_back(v); }},
      {"objdump", [](Config& c, const std::string& v) { c.objdump = v; }},
      {"compiler", [](Config& c, const std::string& v) { c.compiler.push_back(v); }},  // one word per entry
      {"max_wave_instructions",
       [](Config& c, const std::string& v) { c.options.max_wave_instructions = static_cast<uint64_t>(number(v)); }},
      {"memory_bytes",
       [](Config& c, const std::string& v) { c.options.memory_bytes = static_cast<uint64_t>(number(v)); }},
      {"cpu_seconds", [](Config& c, const std::string& v) { c.options.cpu_seconds = number(v); }},
      {"sampling_units",
       [](Config& c, const std::string& v) { c.options.sampling_units = static_cast<uint32_t>(number(v)); }},
      {"effort",
       [](Config& c, const std::string& v) {
         c.options.sample_above = static_cast<uint64_t>(number(v) * static_cast<double>(DeviceOptions{}.sample_above));
       }},
      {"largest_error", [](Config& c, const std::string& v) { c.options.largest_error = number(v); }},
      {"strict_bounds", [](Config& c, const std::string& v) { c.options.strict_bounds = number(v) != 0; }},
      {"embedded", [](Config& c, const std::string& v) { c.embedded = number(v) != 0; }},
      {"line_output", [](Config& c, const std::string& v) { c.line_output = number(v) != 0; }},
      {"replayable", [](Config& c, const std::string& v) { c.options.replayable = static_cast<uint32_t>(number(v)); }},
      {"in_part", [](Config& c, const std::string& v) { c.options.in_part = number(v) != 0; }},
      {"per_kernel", [](Config& c, const std::string& v) { c.options.per_kernel = static_cast<uint32_t>(number(v)); }},
      {"reuse", [](Config& c, const std::string& v) { c.options.reuse = number(v) != 0; }},
      {"lines", [](Config& c, const std::string& v) { c.options.lines = number(v) != 0; }},
      {"values", [](Config& c, const std::string& v) { c.options.values = number(v) != 0; }},
      {"budget_s", [](Config& c, const std::string& v) { c.options.budget_s = number(v); }},
      {"settled_launches",
       [](Config& c, const std::string& v) { c.settled_launches = static_cast<uint64_t>(number(v)); }},
      {"counters", [](Config& c, const std::string& v) { c.options.counters = number(v) != 0; }},
      {"count", [](Config& c, const std::string& v) { c.options.count = number(v) != 0; }},
      {"outputs", [](Config& c, const std::string& v) { c.trial.outputs = number(v) != 0; }},
      {"record_bytes",
       [](Config& c, const std::string& v) { c.trial.record_bytes = static_cast<uint64_t>(number(v)); }},
      {"record_path", [](Config& c, const std::string& v) { c.trial.record_path = v; }},
      {"redraw", [](Config& c, const std::string& v) { c.trial.redraw.seed = static_cast<uint64_t>(number(v)); }},
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
      {"races", [](Config& c, const std::string& v) { c.options.races = number(v) != 0; }},
      {"exact_sums", [](Config& c, const std::string& v) { c.options.exact_sums = number(v) != 0; }},
      {"one_in", [](Config& c, const std::string& v) { c.options.one_in = static_cast<uint32_t>(number(v)); }},
      {"which", [](Config& c, const std::string& v) { c.options.which = static_cast<uint32_t>(number(v)); }},
      {"poison_results", [](Config& c, const std::string& v) { c.trial.poison_results = number(v) != 0; }},
      {"scatter", [](Config& c, const std::string& v) { c.trial.scatter = static_cast<uint64_t>(number(v)); }},
      {"keep_l2", [](Config& c, const std::string& v) { c.options.keep_l2 = number(v) != 0; }},
      {"lds_fill", [](Config& c, const std::string& v) { c.options.lds_fill = static_cast<uint8_t>(number(v)); }},
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
