#include "config.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <type_traits>

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

// "CONTENTS:KIND:CONSTANT", separated by commas; a kind as above.
std::map<uint64_t, InputKind> parse_inputs(const std::string& text) {
  std::map<uint64_t, InputKind> inputs;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row, ',');) {
    unsigned long long contents = 0;
    unsigned kind = 0, constant = 0;
    if (std::sscanf(row.c_str(), "%llu:%u:%u", &contents, &kind, &constant) != 3 || kind >= kElements)
      throw std::invalid_argument("no inputs");
    inputs[contents] = {.elements = static_cast<Elements>(kind), .by_contents = true, .constant = constant != 0};
  }
  return inputs;
}

Deferral parse_deferral(const std::string& text) {
  const double value = number(text);
  if (value != 0 && value != 1 && value != 2) throw std::invalid_argument("no order of streams");
  return static_cast<Deferral>(static_cast<uint8_t>(value));
}

using Setter = std::function<void(Config&, const std::string&)>;
using Setters = std::map<std::string, Setter>;

// Stores a value in the field that a path of members leads to, such as &Config::trial, &TrialOptions::guard.
template <auto... kPath>
void store(Config& c, const std::string& v) {
  auto& field = (c.*....*kPath);
  using T = std::remove_reference_t<decltype(field)>;
  if constexpr (std::is_same_v<T, std::string>) {
    field = v;
  } else {
    field = static_cast<T>(number(v));
  }
}

template <auto kField>
constexpr auto store_option = store<&Config::options, kField>;
template <auto... kPath>
constexpr auto store_trial = store<&Config::trial, kPath...>;
template <auto kField>
constexpr auto store_redraw = store_trial<&TrialOptions::redraw, kField>;
template <auto... kPath>
constexpr auto store_sharing = store<&Config::sharing, kPath...>;
template <auto kField>
constexpr auto store_recorder = store<&Config::recorder, kField>;

// What runs, and how the program is connected to who started it.
Setters program_setters() {
  return {
      {"arch", [](Config& c, const std::string& v) { c.arch = hipsynth::parse_arch(c.arch_name = v); }},
      {"title", store<&Config::title>},
      {"code_object", [](Config& c, const std::string& v) { c.code_objects.push_back(v); }},
      {"disassembly", [](Config& c, const std::string& v) { c.disassemblies.push_back(v); }},
      {"objdump", store<&Config::objdump>},
      {"compiler", [](Config& c, const std::string& v) { c.compiler.push_back(v); }},  // one word per entry
      {"embedded", store<&Config::embedded>},
      {"line_output", store<&Config::line_output>},
      {"deferral", [](Config& c, const std::string& v) { c.deferral = parse_deferral(v); }},
      {"settled_launches", store<&Config::settled_launches>},
  };
}

Setters device_setters() {
  return {
      {"max_wave_instructions", store_option<&DeviceOptions::max_wave_instructions>},
      {"memory_bytes", store_option<&DeviceOptions::memory_bytes>},
      {"cpu_seconds", store_option<&DeviceOptions::cpu_seconds>},
      {"sampling_units", store_option<&DeviceOptions::sampling_units>},
      {"effort",
       [](Config& c, const std::string& v) {
         c.options.sample_above = static_cast<uint64_t>(number(v) * static_cast<double>(DeviceOptions{}.sample_above));
       }},
      {"largest_error", store_option<&DeviceOptions::largest_error>},
      {"strict_bounds", store_option<&DeviceOptions::strict_bounds>},
      {"replayable", store_option<&DeviceOptions::replayable>},
      {"in_part", store_option<&DeviceOptions::in_part>},
      {"per_kernel", store_option<&DeviceOptions::per_kernel>},
      {"reuse", store_option<&DeviceOptions::reuse>},
      {"lines", store_option<&DeviceOptions::lines>},
      {"values", store_option<&DeviceOptions::values>},
      {"budget_s", store_option<&DeviceOptions::budget_s>},
      {"counters", store_option<&DeviceOptions::counters>},
      {"count", store_option<&DeviceOptions::count>},
      {"races", store_option<&DeviceOptions::races>},
      {"exact_sums", store_option<&DeviceOptions::exact_sums>},
      {"one_in", store_option<&DeviceOptions::one_in>},
      {"which", store_option<&DeviceOptions::which>},
      {"keep_l2", store_option<&DeviceOptions::keep_l2>},
      {"lds_fill", store_option<&DeviceOptions::lds_fill>},
  };
}

// What is done to the program's data, and what is written down of it.
Setters observation_setters() {
  return {
      {"outputs", store_trial<&TrialOptions::outputs>},
      {"record_bytes", store_trial<&TrialOptions::record_bytes>},
      {"record_path", store_trial<&TrialOptions::record_path>},
      {"redraw", store_redraw<&Redraw::seed>},
      {"elements", [](Config& c, const std::string& v) { c.trial.elements = parse_elements(v); }},
      {"inputs", [](Config& c, const std::string& v) { c.trial.inputs = parse_inputs(v); }},
      {"halves", store_redraw<&Redraw::halves>},
      {"redraw_integers", store_redraw<&Redraw::integers>},
      {"family",
       [](Config& c, const std::string& v) {
         c.trial.redraw.family = static_cast<Family>(static_cast<uint32_t>(number(v)) % kFamilies);
       }},
      {"nudge", store_redraw<&Redraw::nudge>},
      {"watch", store_trial<&TrialOptions::watch>},
      {"guard", store_trial<&TrialOptions::guard>},
      {"poison", store_trial<&TrialOptions::poison>},
      {"poison_every", store_trial<&TrialOptions::poison_every>},
      {"poison_from", store_trial<&TrialOptions::poison_from>},
      {"poison_results", store_trial<&TrialOptions::poison_results>},
      {"scatter", store_trial<&TrialOptions::scatter>},
      {"sharing_path", store_sharing<&SharingFileOptions::path>},
      {"sharing_touches", store_sharing<&SharingFileOptions::limits, &SharingOptions::most_touches>},
      {"sharing_work", store_sharing<&SharingFileOptions::limits, &SharingOptions::most_work>},
      {"launches_path", store_recorder<&LaunchRecorderOptions::path>},
      {"launches_most", store_recorder<&LaunchRecorderOptions::most_launches>},
      {"launches_bytes", store_recorder<&LaunchRecorderOptions::most_bytes>},
  };
}

const Setters& setters() {
  static const Setters table = [] {
    Setters all = program_setters();
    all.merge(device_setters());
    all.merge(observation_setters());
    return all;
  }();
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
