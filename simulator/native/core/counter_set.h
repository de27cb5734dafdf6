// Accumulates the counter values of one dispatch.
#pragma once

#include <array>
#include <bitset>
#include <map>
#include <string>

#include "counter_names.h"

namespace hipsynth {

// Every counter that was accessed, even if it is 0, appears in the results.
class CounterSet {
 public:
  double& operator[](Counter c) {
    known_.set(static_cast<size_t>(c));
    return values_[static_cast<size_t>(c)];
  }

  void store(std::map<std::string, double>* out) const {
    for (size_t i = 0; i < kCounters; ++i) {
      if (known_[i]) (*out)[kCounterNames[i]] = values_[i];
    }
  }

 private:
  std::array<double, kCounters> values_{};
  std::bitset<kCounters> known_;
};

}  // namespace hipsynth
