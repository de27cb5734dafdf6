// Effects of the MODE fields on operands and results of float instructions. Each operand uses the fields for its own
// format: a conversion flushes denormal inputs according to the source format and denormal results according to the
// result format.
#pragma once

#include <immintrin.h>

#include <initializer_list>

#include "lanes.h"

namespace HIPSYNTH_ISA {

using hipsynth::FpMode;

// All fields at their defaults (nearest even, denormals kept, f16 overflow to infinity).
inline bool default_mode(const FpMode& m) {
  uint32_t v;
  std::memcpy(&v, &m, 4);
  return v == 0x03030000u;
}

// Sets the host's rounding direction during its lifetime; `field` as in MODE: 0 nearest even, 1 up, 2 down, 3 zero.
class Rounding {
 public:
  explicit Rounding(unsigned field) : saved_(_mm_getcsr()) {
    static constexpr unsigned kDirection[4] = {0u, 2u << 13, 1u << 13, 3u << 13};
    _mm_setcsr((saved_ & ~(3u << 13)) | kDirection[field & 3]);
  }
  ~Rounding() { _mm_setcsr(saved_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  unsigned saved_;
};

// Bits of the denormal fields.
inline constexpr unsigned kInput = 1, kOutput = 2;
// Whether denormals of format `cls` are kept.
inline bool keeps(const FpMode& m, Cls cls, unsigned which) {
  const bool single = cls == Cls::f32 || cls == Cls::pk32;
  return (single ? m.denorm_f32 : m.denorm_f16_f64) & which;
}

// Flushes denormals of one operand's row (or pair of rows) to zeros of the same sign.
inline void flush_denormals(Cls cls, uint32_t* p) {
  const int rows = cls == Cls::pk32 ? 2 : 1;
  switch (cls) {
    case Cls::f16:
    case Cls::pk16:
      for (int i = 0; i < kLanes; ++i) {
        if (!(p[i] & 0x7c00u)) p[i] &= ~0x3ffu;
        if (cls == Cls::pk16 && !(p[i] & 0x7c000000u)) p[i] &= ~0x03ff0000u;
      }
      return;
    case Cls::f32:
    case Cls::pk32:
      for (int i = 0; i < rows * kLanes; ++i) {
        if (!(p[i] & 0x7f800000u)) p[i] &= 0x80000000u;
      }
      return;
    case Cls::f64:
      for (int i = 0; i < kLanes; ++i) {
        if (p[kLanes + i] & 0x7ff00000u) continue;
        p[i] = 0;
        p[kLanes + i] &= 0x80000000u;
      }
      return;
    default:
      return;
  }
}

struct Source {
  Cls cls;
  const uint32_t* row;
};
// MODE.FP16_OVFL: infinite halves of `p` become the largest finite value, unless a source was infinite or, with
// `divides`, zero: such infinities are exact.
inline void limit_overflow(Cls cls, uint32_t* p, std::initializer_list<Source> sources, bool divides) {
  for (int i = 0; i < kLanes; ++i) {
    for (int shift = 0; shift <= (cls == Cls::pk16 ? 16 : 0); shift += 16) {
      if ((p[i] >> shift & 0x7fffu) != 0x7c00u) continue;
      bool exact = false;
      for (const Source& s : sources) {
        const uint32_t half = s.row[i] >> (s.cls == Cls::pk16 ? shift : 0) & 0x7fffu, word = s.row[i] & 0x7fffffffu;
        const bool single = s.cls == Cls::f32;
        if (!single && s.cls != Cls::f16 && s.cls != Cls::pk16) continue;
        exact |= single ? word == 0x7f800000u : half == 0x7c00u;
        exact |= divides && (single ? word == 0 : half == 0);
      }
      if (!exact) p[i] -= 1u << shift;  // 0x7c00 to 0x7bff
    }
  }
}

}  // namespace HIPSYNTH_ISA
