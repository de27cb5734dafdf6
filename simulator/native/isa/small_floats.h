// Floats of four to eight bits, and their conversions from and to wider formats.
//
// gfx942 computes with the "fnuz" formats of 8 bits: no infinity, no negative zero, 0x80 is NaN. gfx950 computes with
// the formats of the OCP ("OFP8" and "Microscaling formats"): E4M3 has a NaN but no infinity, E5M2 both, those of 6 and
// 4 bits neither. What the latter do with a NaN is not published: the largest value, with the NaN's sign.
#pragma once

#include "core/wave.h"
#include "numerics.h"

namespace HIPSYNTH_ISA {

enum class SpecialCodes : uint8_t { fnuz, nan_only, ieee, none };
struct FloatFormat {
  int exponent_bits, mantissa, bias;
  SpecialCodes special;
  constexpr int bits() const { return 1 + exponent_bits + mantissa; }
  constexpr uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa); }
  // The code of the largest finite value.
  constexpr uint32_t largest() const {
    return special == SpecialCodes::ieee       ? (((1u << exponent_bits) - 1) << mantissa) - 1
           : special == SpecialCodes::nan_only ? sign_bit() - 2
                                               : sign_bit() - 1;
  }
};
inline constexpr FloatFormat kFnuzFp8{4, 3, 8, SpecialCodes::fnuz}, kFnuzBf8{5, 2, 16, SpecialCodes::fnuz};
// In the order of the codes in cbsz and blgp of the matrix instructions with f8f6f4 operands.
enum class SmallFloat : uint8_t { fp8, bf8, fp6, bf6, fp4 };
inline constexpr FloatFormat kOcpFormats[] = {{4, 3, 7, SpecialCodes::nan_only},
                                              {5, 2, 15, SpecialCodes::ieee},
                                              {2, 3, 1, SpecialCodes::none},
                                              {3, 2, 3, SpecialCodes::none},
                                              {2, 1, 1, SpecialCodes::none}};
constexpr const FloatFormat& format_of(SmallFloat kind) { return kOcpFormats[static_cast<size_t>(kind)]; }

inline float small_to_float(uint32_t code, const FloatFormat& f) {
  const uint32_t magnitude = code & (f.sign_bit() - 1), e = magnitude >> f.mantissa;
  const uint32_t m = magnitude & ((1u << f.mantissa) - 1);
  const bool negative = code & f.sign_bit();
  if (f.special == SpecialCodes::fnuz && negative && magnitude == 0) return kNan32;
  if (f.special == SpecialCodes::nan_only && magnitude == f.sign_bit() - 1) return kNan32;
  if (f.special == SpecialCodes::ieee && e == (1u << f.exponent_bits) - 1) {
    return m != 0 ? kNan32 : negative ? -kInf32 : kInf32;
  }
  const float value =
      e == 0 ? ldexp_f32(static_cast<float>(m), 1 - f.bias - f.mantissa)
             : ldexp_f32(static_cast<float>(m | (1u << f.mantissa)), static_cast<int>(e) - f.bias - f.mantissa);
  return negative ? -value : value;
}

// What an infinite or too large value becomes: with `saturate`, or in formats without special codes, the largest one.
inline uint32_t small_overflow(const FloatFormat& f, uint32_t sign, bool saturate) {
  if (saturate || f.special == SpecialCodes::none) return sign | f.largest();
  return f.special == SpecialCodes::fnuz ? f.sign_bit() : sign | (f.largest() + 1);
}
inline uint32_t small_special(double x, const FloatFormat& f, bool saturate) {
  if (f.special == SpecialCodes::fnuz) return f.sign_bit();
  const uint32_t sign_code = sign(x) ? f.sign_bit() : 0u;
  if (x == x) return small_overflow(f, sign_code, saturate);
  const uint32_t nan = f.special == SpecialCodes::ieee ? f.largest() + 3 : f.sign_bit() - 1;
  return sign_code | nan;
}
// Encodes a value of `units` in the last place at exponent field `e` >= 1.
inline uint32_t encode_small(double units, int e, uint32_t sign, const FloatFormat& f, bool saturate) {
  if (units >= static_cast<double>(2 << f.mantissa)) {
    units *= 0.5;
    ++e;
  }
  const auto whole = static_cast<uint32_t>(units), one = 1u << f.mantissa;
  const uint32_t code = whole < one ? whole : static_cast<uint32_t>(e) << f.mantissa | (whole & (one - 1));
  if (code > f.largest()) return small_overflow(f, sign, saturate);
  return code == 0 && f.special == SpecialCodes::fnuz ? 0u : sign | code;
}
// A value in units in the last place of its encoding, and that encoding's exponent field.
struct SmallScaled {
  double units;
  int exponent;
};
inline SmallScaled scale_small(double x, const FloatFormat& f) {
  const double magnitude = std::fabs(x);
  const int e = static_cast<int>(exponent(magnitude)) - 1023 + f.bias, field = e < 1 ? 1 : e;
  return {magnitude * pow2i(f.bias + f.mantissa - field), field};
}
// Rounds to nearest even regardless of MODE; `saturate` is MODE.FP16_OVFL.
inline uint32_t float_to_small(double x, const FloatFormat& f, bool saturate) {
  if (exponent(x) == 2047) return small_special(x, f, saturate);
  const uint32_t sign_code = sign(x) ? f.sign_bit() : 0u;
  if (x == 0.0) return f.special == SpecialCodes::fnuz ? 0u : sign_code;
  const SmallScaled s = scale_small(x, f);
  return encode_small(__builtin_roundeven(s.units), s.exponent, sign_code, f, saturate);
}
// Stochastic rounding: adds as many upper bits of the random word as the encoding drops from an f32, then truncates.
inline uint32_t float_to_small_stochastic(double x, const FloatFormat& f, uint32_t noise, bool saturate) {
  if (exponent(x) == 2047) return small_special(x, f, saturate);
  const uint32_t sign_code = sign(x) ? f.sign_bit() : 0u;
  if (x == 0.0) return f.special == SpecialCodes::fnuz ? 0u : sign_code;
  const SmallScaled s = scale_small(x, f);
  const int dropped = 23 - f.mantissa;
  const double added = static_cast<double>(noise >> (32 - dropped)) * pow2i(-dropped);
  return encode_small(std::floor(s.units + added), s.exponent, sign_code, f, saturate);
}

// The formats of 8 bits that the architecture computes with.
inline const FloatFormat& fp8_format(bool ocp) { return ocp ? format_of(SmallFloat::fp8) : kFnuzFp8; }
inline const FloatFormat& bf8_format(bool ocp) { return ocp ? format_of(SmallFloat::bf8) : kFnuzBf8; }
inline float fp8_to_float(uint32_t v, bool ocp) { return small_to_float(v & 0xff, fp8_format(ocp)); }
inline float bf8_to_float(uint32_t v, bool ocp) { return small_to_float(v & 0xff, bf8_format(ocp)); }
inline uint32_t float_to_fp8(float x, const hipsynth::FpMode& mode) {
  return float_to_small(x, fp8_format(mode.ocp_fp8), mode.fp16_ovfl);
}
inline uint32_t float_to_bf8(float x, const hipsynth::FpMode& mode) {
  return float_to_small(x, bf8_format(mode.ocp_fp8), mode.fp16_ovfl);
}

// Element `n` of packed elements of `width` bits in consecutive registers of one lane; `p` is that lane in the first.
inline uint32_t packed_element(const uint32_t* p, int n, int width) {
  const int bit = n * width, word = bit / 32, shift = bit % 32;
  uint64_t v = p[word * hipsynth::kLanes];
  if (shift + width > 32) v |= static_cast<uint64_t>(p[(word + 1) * hipsynth::kLanes]) << 32;
  return static_cast<uint32_t>(v >> shift) & ((1u << width) - 1);
}

}  // namespace HIPSYNTH_ISA
