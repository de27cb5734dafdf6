// Writes down what a program launches, so that previews can start from real arguments at real addresses: symbol, shape,
// argument bytes, the allocations, and what memory holds where a kernel's addresses or branches may depend on it. Off
// by default; the configuration switches it on (config.h). simulator/launch_record.py reads the file.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/machine.h"

namespace hipsynth::runtime {

struct LaunchRecorderOptions {
  std::string path;            // "": nothing is recorded
  uint64_t most_launches = 0;  // the program ends when so many different ones are recorded, or kMostRecorded bytes
  uint64_t most_bytes = 0;     // of contents, all together
};

// What a launch is called in the file: lines of text, some followed by bytes.
//   arena START                        the address of device memory
//   layout N                           then N allocations (RecordedAllocation): those that exist from here on
//   contents N                         then N bytes: contents number 0, 1, ... in the order of the file
//   global SYMBOL CONTENTS             a variable of the device code holds these contents from here on
//   module ELF BYTES DISASSEMBLY       code that was loaded while the program ran, number 1, 2, ...
//   variant CONTENTS                   what the builds that are launched from here on were specialized for
//   (KernelBuild) launch SYMBOL MODULE GX GY GZ BX BY BZ LDS COOPERATIVE BY_DATA ARGUMENTS HELD
//                                      then the argument bytes, then HELD times RecordedContents; MODULE 0: the
//                                      program's own code
//   again INDEX                        a launch that differs from that one at most in its addresses
//   ran | lost | failed REASON         how the launch before ended: `lost`, its results were not computed
//   cleared                            the caches were emptied, as before a benchmark
//   read                               the host copied from device memory
//   refused SYMBOL BYTES               a launch that the device does not start, then so many bytes that say why
struct RecordedAllocation {
  uint64_t start, bytes, kind;
};
struct RecordedContents {
  uint64_t allocation;  // index into the layout
  uint64_t contents;    // number
  uint64_t bytes;       // how many from its start are known; those that the contents lack are zero
};

class LaunchRecorder {
 public:
  void configure(const LaunchRecorderOptions& options) { options_ = options; }
  bool on() const { return !options_.path.empty(); }
  // `variant`: see KernelBuild.
  void before_launch(Device& device, const Launch& launch, const std::string& variant);
  void after_launch(bool results, const std::string& failure);
  void copied_to_host();
  void caches_cleared();
  void refused(const Memory& memory, const std::string& symbol, const std::string& why);
  void loaded(const Module& module, const std::vector<uint8_t>& elf, std::string disassembly);
  bool full() const { return on() && (recorded_.size() >= options_.most_launches || recorded_bytes_ >= kMostRecorded); }

 private:
  // Of launches without contents; allocations count at each launch, as each may hold other contents.
  static constexpr uint64_t kMostRecorded = 64ull << 20;
  using Digest = std::array<uint64_t, 3>;  // length and two hashes
  using Identity = std::tuple<uint64_t, std::string, std::array<uint32_t, 7>, std::vector<uint8_t>>;
  bool open(const Memory& memory);
  void write_layout(const Memory& memory);
  void write_globals(const Module& module);
  void write_variant(const std::string& variant);
  uint64_t write_module(const Module& module);  // its number, 0 for the program's own code
  Identity identity_of(const Launch& launch, const Memory& memory) const;
  std::vector<RecordedContents> write_contents(bool by_data);
  // The number of these contents, which are written if they are new; false if they do not fit any more.
  bool number_of(const uint8_t* data, uint64_t bytes, uint64_t* number);

  LaunchRecorderOptions options_;
  std::FILE* file_ = nullptr;
  bool failed_ = false, read_ = true;  // `read_`: the host has read since the last launch
  uint64_t layout_ = 0, written_ = 0, examined_ = 0, recorded_bytes_ = 0;
  std::vector<RecordedAllocation> allocations_;
  std::map<Digest, uint64_t> contents_;
  std::map<std::pair<uint64_t, std::string>, uint64_t> globals_;  // module and symbol -> contents
  std::map<Identity, uint64_t> recorded_;
  std::map<std::pair<uint64_t, std::string>, bool> by_data_;  // module and symbol
  struct Loaded {
    std::vector<uint8_t> elf;
    std::string disassembly;
    uint64_t number = 0;  // 0: not written yet
  };
  std::map<uint64_t, Loaded> loaded_;  // by module
  uint64_t modules_ = 0;
  std::string variant_;  // written last
};

}  // namespace hipsynth::runtime
