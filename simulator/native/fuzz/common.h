// Shared by the fuzz targets: devices with the project's device tables, and expected errors.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "core/machine.h"
#include "core/spec.h"

namespace hipsynth::fuzz {

// "key value" lines of $HIPSYNTH_FUZZ_TABLES/<arch>.txt, written by tools/fuzz.py.
inline SpecTable read_table(Arch arch) {
  const char* folder = std::getenv("HIPSYNTH_FUZZ_TABLES");
  std::ifstream file(std::string(folder ? folder : ".") + "/" + traits(arch).name + ".txt");
  SpecTable table;
  std::string key;
  for (double value = 0; file >> key >> value;) table[key] = value;
  return table;
}

// The architecture that a byte of the input chooses.
inline Arch choose_arch(uint8_t byte) { return static_cast<Arch>(byte % kArchs); }

// One device per architecture, recreated from time to time so that memory does not accumulate.
inline Device& device(Arch arch) {
  static std::unique_ptr<Device> devices[kArchs];
  static uint64_t uses[kArchs] = {};
  constexpr uint64_t kUses = 512;
  const auto i = static_cast<size_t>(arch);
  if (uses[i]++ % kUses == 0) {
    devices[i].reset();
    const DeviceOptions options{(uses[i] / kUses) % 2 == 0, 20000, 64u << 20, 5.0};
    devices[i] = std::make_unique<Device>(arch, make_spec(read_table(arch)), options);
  }
  return *devices[i];
}

template <class Action>
void attempt(Action action) {
  try {
    action();
  } catch (const SimError&) {
    // expected for malformed input
  }
}

}  // namespace hipsynth::fuzz
