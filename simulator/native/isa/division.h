// Steps of the IEEE division sequence and other rarely used conversions. The published pseudo-code of v_div_scale and
// v_div_fmas does not give correctly rounded quotients (its post-scale of 2^32 does not undo a pre-scale of 2^64, and
// it scales a huge denominator up). We use forms that do: reciprocal underflow is tested in the operand's own format, a
// huge denominator is scaled down, and v_div_fmas undoes the scaling in the direction given by the quotient's exponent.
// The published overflow condition of v_div_fixup (an infinite denominator) can never hold at that point; we assume
// that it means an exponent difference that no finite quotient has, for which the Newton steps end in NaN.
#pragma once

#include "numerics.h"

namespace HIPSYNTH_ISA {

template <class T>
struct DivTraits;
template <>
struct DivTraits<float> {
  static constexpr int kScale = 64, kBig = 96, kUsual = 96, kTiny = 23, kBias = 127, kOverflow = 129, kUnderflow = -150;
  static float ldexp(float x, int e) { return ldexp_f32(x, e); }
};
template <>
struct DivTraits<double> {
  static constexpr int kScale = 128, kBig = 768, kUsual = 768, kTiny = 53, kBias = 1023, kOverflow = 1025,
                       kUnderflow = -1075;
  static double ldexp(double x, int e) { return ldexp_f64(x, e); }
};

// s0 is the numerator or the denominator again; s1 denominator, s2 numerator.
template <class T>
inline T div_scale(T s0, T s1, T s2, uint32_t& vcc) {
  using D = DivTraits<T>;
  vcc = 0;
  // Nothing to scale, as nearly always: neither the reciprocal nor the quotient is out of range.
  const int numerator = static_cast<int>(exponent(s2)), denominator = static_cast<int>(exponent(s1));
  if (denominator > 0 && denominator < 2 * D::kBias - 2 && numerator > D::kTiny &&
      std::abs(numerator - denominator) < D::kUsual)
    return s0;
  if (s2 == T(0) || s1 == T(0)) return std::numeric_limits<T>::quiet_NaN();
  const int gap = numerator - denominator;
  const bool is_den = bits(s0) == bits(s1), is_num = bits(s0) == bits(s2);
  const bool rcp_tiny = denormal(T(1) / s1), quotient_tiny = denormal(s2 / s1);
  if (gap >= D::kBig) {
    vcc = 1;
    return is_den ? D::ldexp(s0, D::kScale) : s0;
  }
  if (denormal(s1)) return D::ldexp(s0, D::kScale);
  if (rcp_tiny && quotient_tiny) {
    vcc = 1;
    return is_den ? D::ldexp(s0, -D::kScale) : s0;
  }
  if (rcp_tiny) return D::ldexp(s0, -D::kScale);
  if (quotient_tiny) {
    vcc = 1;
    return is_num ? D::ldexp(s0, D::kScale) : s0;
  }
  if (static_cast<int>(exponent(s2)) <= D::kTiny) return D::ldexp(s0, D::kScale);
  return s0;
}

// The exact rounding error a*b + c - r of r = fma(a, b, c), correct at least in sign.
template <class T>
inline T fma_rest(T a, T b, T c, T r) {
  const T p = a * b, pe = std::fma(a, b, -p);
  const T s = p + c, bb = s - p, se = (p - (s - bb)) + (c - bb);
  return ((s - r) + se) + pe;
}

// The quotient step: a fused multiply-add and, if div_scale requested it, the inverse scaling. The hardware rounds
// once; scaling down here may round again into the denormal range, where the first rounding error decides a tie.
template <class T>
inline T div_fmas(T a, T b, T c, uint32_t vcc) {
  using D = DivTraits<T>;
  const T r = std::fma(a, b, c);
  if (!vcc) return r;
  if (static_cast<int>(exponent(c)) > D::kBias) return D::ldexp(r, D::kScale);
  const T y = D::ldexp(r, -D::kScale);
  const T tiny = std::numeric_limits<T>::denorm_min();
  const T off = r - D::ldexp(y, D::kScale), rest = fma_rest(a, b, c, r);
  const bool tie = std::fabs(off) == D::ldexp(tiny, D::kScale - 1);
  return tie && (off > T(0)) == (rest > T(0)) && rest != T(0) ? y + std::copysign(tiny, off) : y;
}

// q: quotient so far, s1 denominator, s2 numerator.
template <class T>
inline T div_fixup(T q, T s1, T s2) {
  using D = DivTraits<T>;
  const T inf = std::numeric_limits<T>::infinity(), one = sign(s1) != sign(s2) ? T(-1) : T(1);
  const bool inf1 = s1 == inf || s1 == -inf, inf2 = s2 == inf || s2 == -inf;
  if (s2 != s2) return quiet(s2);
  if (s1 != s1) return quiet(s1);
  if ((s1 == T(0) && s2 == T(0)) || (inf1 && inf2)) return -std::numeric_limits<T>::quiet_NaN();
  if (s1 == T(0) || inf2) return std::copysign(inf, one);
  if (inf1 || s2 == T(0)) return std::copysign(T(0), one);
  const int gap = static_cast<int>(exponent(s2)) - static_cast<int>(exponent(s1));
  if (gap < D::kUnderflow) return std::copysign(T(0), one);
  if (gap >= D::kOverflow) return std::copysign(inf, one);
  return std::copysign(q, one);
}
inline float div_fixup_f16(float q, float s1, float s2) {
  // Every f16 value is a normal f32, so only the special cases matter.
  return div_fixup<float>(q, s1, s2);
}

// 53 bits of 2/pi for the range reduction of f64 sin and cos (Payne-Hanek): v_trig_preop_f64.
inline double trig_preop(double x, uint32_t segment) {
  // 2/pi, 1216 fraction bits, most significant word first (public mathematical constant).
  static constexpr uint64_t kTwoOverPi[20] = {
      0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
      0x6492eea09d1921cull,  0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
      0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
      0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0x0ull};
  uint32_t shift = (segment & 31) * 53;
  const uint32_t e = exponent(x);
  if (e > 1077) shift += e - 1077;
  // Bits [shift, shift + 53) of the fraction, counted from its most significant end.
  uint64_t value = 0;
  if (shift < 1201) {
    const uint32_t word = shift / 64, bit = shift % 64;
    const uint64_t hi = kTwoOverPi[word], lo = kTwoOverPi[word + 1];
    const uint64_t window = bit == 0 ? hi : (hi << bit) | (lo >> (64 - bit));
    value = window >> 11;
  }
  int32_t scale = -53 - static_cast<int32_t>(shift);
  if (e >= 1968) scale += 128;
  return ldexp_f64(static_cast<double>(value), scale);
}

}  // namespace HIPSYNTH_ISA
