// Configuration of one run: entries `key=value`, each ended by a zero byte, which no path contains.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/machine.h"
#include "deferred_work.h"
#include "launch_recorder.h"
#include "sharing_file.h"
#include "trial.h"

namespace hipsynth::runtime {

struct Config {
  Arch arch = Arch::gfx90a;
  std::string arch_name = "gfx90a";
  std::string title = "simulated device";  // hipDeviceProp_t::name
  std::vector<std::string> code_objects;   // paths of the program's code objects, one entry for each file with kernels
  std::vector<std::string> disassemblies;  // paths of `llvm-objdump -d` of them, in the same order
  std::string objdump = "llvm-objdump";    // for code objects loaded at run time (hipModuleLoad)
  std::vector<std::string> compiler;       // argv prefix of the run-time compiler; empty: none
  // The launches are those of a process that goes on: a failed one returns an error, the process's signals are its own.
  bool embedded = false;
  bool line_output = false;  // stdout is a pipe that somebody watches: write each line at once
  // The program ends when so many launches in a row were of kernels and shapes launched before; 0: never.
  uint64_t settled_launches = 0;
  Deferral deferral = Deferral::none;
  Spec spec;              // from `spec.section.key = number`
  DeviceOptions options;  // see config.cpp for the keys
  TrialOptions trial;
  SharingFileOptions sharing;
  LaunchRecorderOptions recorder;
};

// Throws std::runtime_error naming the entry with an unknown key or a bad number.
Config parse_config(std::string_view text);

// A whole file as bytes or text; throws std::runtime_error when it cannot be read.
std::string read_file(const std::string& path);

}  // namespace hipsynth::runtime
