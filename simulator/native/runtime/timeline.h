// Simulated time of the host, of every stream, and of the engines that streams share: compute units and copy engines.
#pragma once

#include <cstddef>
#include <vector>

#include "hip_abi.h"

namespace hipsynth::runtime {

// Work is executed when it is submitted, in program order; its simulated time interval is computed here. An operation
// begins when the host has submitted it, its stream's dependencies are done, and its engine has enough free capacity.
// Thus kernels that do not fill the device overlap with those of other streams, and copies overlap with kernels,
// deterministically. Times are in nanoseconds since the start of the program.
class Timeline {
 public:
  enum class Engine { compute, to_device, to_host, on_device, none };

  double host() const { return host_; }
  double last() const { return last_; }  // end of all operations so far

  // Schedules an operation of `ns` at or after `ready`; `share`: part of the engine it occupies, 0 to 1. Returns its
  // end.
  double run(Engine engine, double ready, double share, double ns);
  void wait(double until);  // blocks the host until then

 private:
  struct Use {
    double start, end, share;
  };
  static constexpr size_t kEngines = 4;
  static constexpr size_t kMostUses = 64;

  double start_of(const std::vector<Use>& uses, double ready, double share, double ns) const;

  double host_ = 0, last_ = 0;
  double floor_[kEngines] = {};  // earliest start of new operations on this engine
  std::vector<Use> uses_[kEngines];
};

}  // namespace hipsynth::runtime
