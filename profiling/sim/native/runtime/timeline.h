// Simulated time of the host, of every stream, and of what streams share: compute units and copy engines.
#pragma once

#include <cstddef>
#include <vector>

#include "hip_abi.h"

namespace hipsynth::runtime {

// Work is executed when it is submitted, in the program's order; its place in time is worked out here. An operation
// begins when the host has submitted it, what its stream must wait for is done, and its engine has room. So kernels
// that leave room on the device overlap with those of other streams, and copies overlap with kernels, the same way on
// every run. Times are in nanoseconds since the start of the program.
class Timeline {
 public:
  enum class Engine { compute, to_device, to_host, on_device, none };

  double host() const { return host_; }
  double last() const { return last_; }  // end of everything so far

  // Places an operation of `ns` behind `ready`; `share`: of the engine that it takes, 0 to 1. Returns its end.
  double run(Engine engine, double ready, double share, double ns);
  void wait(double until);  // the host does nothing else until then

 private:
  struct Use {
    double start, end, share;
  };
  static constexpr size_t kEngines = 4;
  static constexpr size_t kMostUses = 64;

  double start_of(const std::vector<Use>& uses, double ready, double share, double ns) const;

  double host_ = 0, last_ = 0;
  double floor_[kEngines] = {};  // nothing begins earlier on this engine
  std::vector<Use> uses_[kEngines];
};

}  // namespace hipsynth::runtime
