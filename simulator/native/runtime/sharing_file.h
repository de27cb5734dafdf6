// Writes what core/sharing.h observes to a file, for the first launch of every kernel and grid. Off by default; the
// configuration switches it on (config.h).
#pragma once

#include <array>
#include <cstdio>
#include <set>
#include <string>
#include <utility>

#include "core/machine.h"
#include "core/sharing.h"

namespace hipsynth::runtime {

struct SharingFileOptions {
  std::string path;  // "": nothing is observed
  SharingOptions limits;
};

class SharingFile {
 public:
  void configure(const SharingFileOptions& options) { options_ = options; }
  // Appends a line of text, then the touches as they are in memory.
  void observe(Device& device, const Launch& launch);

 private:
  using Shape = std::pair<std::string, std::array<uint32_t, 3>>;
  SharingFileOptions options_;
  std::set<Shape> seen_;
  std::FILE* file_ = nullptr;
};

}  // namespace hipsynth::runtime
