// Fast division by a number that is fixed when a device is created.
#pragma once

#include <bit>
#include <cstdint>

namespace hipsynth {

// Divides by shifting if the number is a power of two, as nearly all cache sizes are. Must not be used if it is zero.
class Divisor {
 public:
  explicit Divisor(uint64_t value)
      : value_(value), shift_(std::countr_zero(value)), is_power_(std::has_single_bit(value)) {}
  uint64_t value() const { return value_; }
  friend uint64_t operator/(uint64_t v, const Divisor& d) { return d.is_power_ ? v >> d.shift_ : v / d.value_; }
  friend uint64_t operator%(uint64_t v, const Divisor& d) { return d.is_power_ ? v & (d.value_ - 1) : v % d.value_; }

 private:
  uint64_t value_;
  int shift_;
  bool is_power_;
};

}  // namespace hipsynth
