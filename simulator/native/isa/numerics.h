// Scalar arithmetic that C++ lacks or leaves implementation-defined, written without branches so that lane loops
// vectorise. Approximate instructions (rcp, rsq, sqrt, exp, log, sin, cos) are computed in a wider format and rounded
// once: results are within one unit in the last place of the exact value, usually correctly rounded. The hardware
// guarantees 1 ulp for f32 and f16, and only a seed for f64, which compiled code refines.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace HIPSYNTH_ISA {

inline uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
inline uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
inline float f32(uint32_t x) { return std::bit_cast<float>(x); }
inline double f64(uint64_t x) { return std::bit_cast<double>(x); }
inline constexpr float kNan32 = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf32 = std::numeric_limits<float>::infinity();
inline constexpr double kNan64 = std::numeric_limits<double>::quiet_NaN();

inline float half_to_float(uint32_t h) { return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(h))); }
// The same, but a signalling NaN stays signalling (the conversion instruction would quiet it).
inline float half_to_float_exact(uint32_t h) {
  const bool nan = (h & 0x7fffu) > 0x7c00u;
  return nan ? f32((h & 0x8000u) << 16 | 0x7f800000u | (h & 0x3ffu) << 13) : half_to_float(h);
}
inline uint32_t float_to_half(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }
inline float bf16_to_float(uint32_t h) { return f32(h << 16); }
inline uint32_t float_to_bf16(float x) {
  const uint32_t b = bits(x);
  return x != x ? (b >> 16) | 0x40u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
}

// The nearest half, ties to even, whatever the host's rounding direction.
inline uint32_t half_nearest(float x) {
  const uint32_t b = bits(x), sign_bit = b >> 16 & 0x8000u, a = b & 0x7fffffffu;
  if (a > 0x7f800000u) return sign_bit | 0x7e00u | (a >> 13 & 0x3ffu);
  if (a >= 0x47800000u) return sign_bit | 0x7c00u;
  if (a >= 0x38800000u) return sign_bit | ((a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
  const uint32_t shift = 126 - (a >> 23);  // of the mantissa, to units of the smallest subnormal
  if (shift > 24) return sign_bit;
  const uint32_t m = (a & 0x7fffffu) | 0x800000u, low = m >> shift;
  return sign_bit | ((m + (1u << (shift - 1)) - 1 + (low & 1u)) >> shift);
}
inline uint32_t half_toward_zero(float x) {
  const uint32_t h = float_to_half(x);
  const bool away = std::fabs(half_to_float(h)) > std::fabs(x);
  return away && x - x == 0.0f ? h - 1 : h;
}
// The sequence of v_prng_b32.
inline uint32_t next_random(uint32_t x) { return x << 1 ^ (x >> 31 ? 197u : 0u); }

inline uint32_t exponent(float x) { return (bits(x) >> 23) & 0xffu; }
inline uint32_t exponent(double x) { return static_cast<uint32_t>(bits(x) >> 52) & 0x7ffu; }
inline bool sign(float x) { return bits(x) >> 31; }
inline bool sign(double x) { return bits(x) >> 63; }
inline bool denormal(float x) { return exponent(x) == 0 && (bits(x) << 1) != 0; }
inline bool denormal(double x) { return exponent(x) == 0 && (bits(x) << 1) != 0; }
inline float quiet(float x) { return f32(bits(x) | 0x00400000u); }
inline double quiet(double x) { return f64(bits(x) | 0x0008000000000000ull); }
inline bool signalling(float x) { return x != x && !(bits(x) & 0x00400000u); }
inline bool signalling(double x) { return x != x && !(bits(x) & 0x0008000000000000ull); }

// IEEE-754 minNum/maxNum as the hardware implements them: a number wins over a NaN, -0 < +0, and in IEEE mode a
// signalling NaN is returned quieted. Works for float (f32, f16) and double.
template <class T>
inline T vmax(T a, T b, bool ieee) {
  const bool pick_a = a > b || (a == b && !sign(a));
  T r = pick_a ? a : b;
  r = b != b ? a : r;
  r = a != a ? b : r;
  r = ieee && signalling(b) ? quiet(b) : r;
  return ieee && signalling(a) ? quiet(a) : r;
}
template <class T>
inline T vmin(T a, T b, bool ieee) {
  const bool pick_a = a < b || (a == b && sign(a));
  T r = pick_a ? a : b;
  r = b != b ? a : r;
  r = a != a ? b : r;
  r = ieee && signalling(b) ? quiet(b) : r;
  return ieee && signalling(a) ? quiet(a) : r;
}
// IEEE 754-2019 minimum and maximum: a NaN wins, quieted; -0 < +0.
inline float minimum(float a, float b) {
  const float r = a < b || (a == b && sign(a)) ? a : b;
  return a != a ? quiet(a) : b != b ? quiet(b) : r;
}
inline float maximum(float a, float b) {
  const float r = a > b || (a == b && !sign(a)) ? a : b;
  return a != a ? quiet(a) : b != b ? quiet(b) : r;
}
template <class T>
inline T vmed3(T a, T b, T c, bool ieee) {
  if (a != a || b != b || c != c) return vmin(vmin(a, b, ieee), c, ieee);
  const T top = vmax(vmax(a, b, ieee), c, ieee);  // the larger of the other two is the median
  return top == a ? vmax(b, c, ieee) : top == b ? vmax(a, c, ieee) : vmax(a, b, ieee);
}

// Prepares an unsigned integer for conversion to float. If the host converts only signed ones, compilers vectorise the
// conversion by subtracting large numbers, which gives -0 for zero when rounding down.
#ifdef __AVX512F__
inline uint32_t to_convert(uint32_t v) { return v; }
#else
inline int64_t to_convert(uint32_t v) {
  int64_t wide = v;
  asm("" : "+r"(wide));  // prevents vectorisation
  return wide;
}
#endif
// Saturating conversions: NaN becomes 0.
inline int32_t to_i32(double x) {
  x = x != x ? 0.0 : std::trunc(x);
  x = x < -2147483648.0 ? -2147483648.0 : x;
  return static_cast<int32_t>(x > 2147483647.0 ? 2147483647.0 : x);
}
inline uint32_t to_u32(double x) {
  x = x != x ? 0.0 : std::trunc(x);
  x = x < 0.0 ? 0.0 : x;
  return static_cast<uint32_t>(static_cast<int64_t>(x > 4294967295.0 ? 4294967295.0 : x));
}
inline int32_t f32_to_i32(float x) {
  const float y = x != x ? 0.0f : x;
  const float z = y < -2147483648.0f ? -2147483648.0f : y;
  const bool high = z >= 2147483648.0f;
  const int32_t r = static_cast<int32_t>(high ? 0.0f : z);
  return high ? 0x7fffffff : r;
}
inline uint32_t f32_to_u32(float x) {
  const float y = x > 0.0f ? x : 0.0f;
  const bool upper = y >= 2147483648.0f, over = y >= 4294967296.0f;
  const int32_t r = static_cast<int32_t>(over ? 0.0f : upper ? y - 2147483648.0f : y);
  return over ? 0xffffffffu : static_cast<uint32_t>(r) ^ (upper ? 0x80000000u : 0u);
}
inline int32_t f16_to_i16(float x) {
  const float y = x != x ? 0.0f : x;
  return static_cast<int32_t>(y < -32768.0f ? -32768.0f : y > 32767.0f ? 32767.0f : y);
}
inline uint32_t f16_to_u16(float x) {
  const float y = x > 0.0f ? x : 0.0f;
  return static_cast<uint32_t>(static_cast<int32_t>(y > 65535.0f ? 65535.0f : y));
}

// Exact powers of two; e within the normal range.
inline double pow2i(int64_t e) { return f64(static_cast<uint64_t>(e + 1023) << 52); }

inline float ldexp_f32(float x, int32_t e) {
  const int64_t k = e < -300 ? -300 : e > 300 ? 300 : e;
  return static_cast<float>(static_cast<double>(x) * pow2i(k));
}
inline double ldexp_f64(double x, int32_t e) {
  // Three steps keep every factor normal; only the last can round, because the first two keep |x| large on the way down
  // if the result is not zero.
  int64_t k = e < -2200 ? -2200 : e > 2200 ? 2200 : e;
  const int64_t shift = exponent(x) == 0 ? 64 : 0;
  x *= pow2i(shift);
  k -= shift;
  const int64_t top = static_cast<int64_t>(exponent(x)) + k;
  const bool special = x == 0.0 || exponent(x) == 2047;
  const double m = f64((bits(x) & 0x800fffffffffffffull) | (static_cast<uint64_t>(1023) << 52));
  const int64_t lowest = top < -60 ? -60 : top;
  const double normal = m * pow2i(top > 2046 ? 1023 : top < 1 ? -1022 : top - 1023);
  const double last = normal * pow2i(top < 1 ? lowest - 1 : top > 2046 ? 2 : 0);  // overflows as rounding requires
  return special ? x : last;
}

inline float rcp_f32(float x) { return 1.0f / x; }
inline float rsq_f32(float x) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x))); }

// 2^x for double x in the f32 exponent range, about 1e-16 relative.
inline double exp2_core(double x) {
  const double n = std::nearbyint(x);
  const double r = (x - n) * 0.693147180559945309417;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // Adds n to the exponent field through an exact integer-valued double.
  const uint64_t e = bits(n + 6755399441055744.0) << 52;
  return f64(bits(p) + e);
}
inline float exp2_f32(float x) {
  const double y = x < -200.0f ? -200.0 : x > 200.0f ? 200.0 : static_cast<double>(x);
  const float r = static_cast<float>(exp2_core(x != x ? 0.0 : y));
  return x != x ? quiet(x) : r;
}
// log2 of a positive normal double.
inline double log2_core(double x) {
  const uint64_t b = bits(x);
  const uint64_t up = (b & 0x000fffffffffffffull) >= 0x6a09e667f3bcdull ? 1 : 0;
  const double m = f64((b & 0x000fffffffffffffull) | ((1023ull - up) << 52));
  const double e = f64(((b >> 52) + up) | 0x4330000000000000ull) - (4503599627370496.0 + 1023.0);
  const double s = (m - 1.0) / (m + 1.0), q = s * s;
  double p = 1.0 / 21.0;
  p = p * q + 1.0 / 19.0;
  p = p * q + 1.0 / 17.0;
  p = p * q + 1.0 / 15.0;
  p = p * q + 1.0 / 13.0;
  p = p * q + 1.0 / 11.0;
  p = p * q + 1.0 / 9.0;
  p = p * q + 1.0 / 7.0;
  p = p * q + 1.0 / 5.0;
  p = p * q + 1.0 / 3.0;
  p = p * q + 1.0;
  return e + (2.0 * 1.44269504088896340736) * s * p;
}
inline float log2_f32(float x) {
  const bool usual = x > 0.0f && x < kInf32;
  const float r = static_cast<float>(log2_core(usual ? static_cast<double>(x) : 1.0));
  const float odd = x == 0.0f ? -kInf32 : x < 0.0f ? kNan32 : x;
  return usual ? r : odd;
}
// sin(2 pi x) and cos(2 pi x) for |x| <= 256 (the input domain of v_sin_f32 and v_cos_f32).
inline double turn_poly(double x, double quarter) {
  double r = x - std::nearbyint(x);
  const double k = std::nearbyint(r * 4.0);
  const double t = (r - k * 0.25) * 6.283185307179586476925, q = t * t;
  double s = -1.0 / 1307674368000.0;
  s = s * q + 1.0 / 6227020800.0;
  s = s * q - 1.0 / 39916800.0;
  s = s * q + 1.0 / 362880.0;
  s = s * q - 1.0 / 5040.0;
  s = s * q + 1.0 / 120.0;
  s = s * q - 1.0 / 6.0;
  s = s * q * t + t;
  double c = 1.0 / 20922789888000.0;
  c = c * q - 1.0 / 87178291200.0;
  c = c * q + 1.0 / 479001600.0;
  c = c * q - 1.0 / 3628800.0;
  c = c * q + 1.0 / 40320.0;
  c = c * q - 1.0 / 720.0;
  c = c * q + 1.0 / 24.0;
  c = c * q - 0.5;
  c = c * q + 1.0;
  const int32_t turn = (static_cast<int32_t>(k) + static_cast<int32_t>(quarter)) & 3;
  const double y = (turn & 1) ? c : s;
  return (turn & 2) ? -y : y;
}
inline float sin_turns(float x) {
  const bool in = x >= -256.0f && x <= 256.0f;
  const float r = static_cast<float>(turn_poly(in ? static_cast<double>(x) : 0.0, 0.0));
  const float out = x - x != 0.0f ? kNan32 : 0.0f;
  return in ? (x == 0.0f ? x : r + 0.0f) : out;
}
inline float cos_turns(float x) {
  const bool in = x >= -256.0f && x <= 256.0f;
  const float r = static_cast<float>(turn_poly(in ? static_cast<double>(x) : 0.0, 1.0));
  const float out = x - x != 0.0f ? kNan32 : 1.0f;
  return in ? r + 0.0f : out;
}

// a*b+c rounded once to f16: the product is exact in f32, and the sum is rounded to odd there, so that the second,
// narrower rounding does not cause double rounding (24 >= 11 + 2 bits).
inline float fma_f16(float a, float b, float c) {
  const float p = a * b, s = p + c;
  const float bb = s - p, err = (p - (s - bb)) + (c - bb);
  const uint32_t sb = bits(s);
  const bool toward = (err < 0.0f) != sign(s);
  const uint32_t adjust = (sb & 1) ? 0u : toward ? ~0u : 1u;
  const bool inexact = err != 0.0f && err == err && exponent(s) != 255;
  return f32(sb + (inexact ? adjust : 0u));
}

inline float flush(float x) { return denormal(x) ? std::copysign(0.0f, x) : x; }
// Two products of halves plus a float. Denormal halves, and a denormal sum before or after, become zeros, whatever MODE
// says (CDNA3 and CDNA4 ISA, section 6.4: V_DOT2).
inline float dot2_f16(float a0, float b0, float a1, float b1, float c) {
  const auto input = [](float x) { return std::fabs(x) < 0x1p-14f ? std::copysign(0.0f, x) : x; };
  return flush(std::fma(input(a1), input(b1), std::fma(input(a0), input(b0), flush(c))));
}
// v_mad/v_mac f32: two roundings, denormals flushed regardless of MODE.
inline float mad_f32(float a, float b, float c) { return flush(flush(flush(a) * flush(b)) + flush(c)); }

inline float frexp_mant(float x) {
  const float y = denormal(x) ? x * 8388608.0f : x;
  return exponent(x) == 255 || x == 0.0f ? (x != x ? quiet(x) : x) : f32((bits(y) & 0x807fffffu) | 0x3f000000u);
}
inline double frexp_mant(double x) {
  const double y = denormal(x) ? x * 4503599627370496.0 : x;
  return exponent(x) == 2047 || x == 0.0 ? (x != x ? quiet(x) : x)
                                         : f64((bits(y) & 0x800fffffffffffffull) | 0x3fe0000000000000ull);
}
inline int32_t frexp_exp(float x) {
  const bool den = denormal(x);
  const int32_t e = static_cast<int32_t>(exponent(den ? x * 8388608.0f : x)) - 126 - (den ? 23 : 0);
  return exponent(x) == 255 || x == 0.0f ? 0 : e;
}
inline int32_t frexp_exp(double x) {
  const bool den = denormal(x);
  const int32_t e = static_cast<int32_t>(exponent(den ? x * 4503599627370496.0 : x)) - 1022 - (den ? 52 : 0);
  return exponent(x) == 2047 || x == 0.0 ? 0 : e;
}
inline float fract(float x) {
  const float r = x - std::floor(x);
  return r >= 1.0f ? 0x1.fffffep-1f : r;
}
inline float fract_f16(float x) {
  const float r = x - std::floor(x);
  return r > 0.99951171875f ? 0.99951171875f : r;
}
inline double fract(double x) {
  const double r = x - std::floor(x);
  return r >= 1.0 ? 0x1.fffffffffffffp-1 : r;
}

// Class masks of v_cmp_class: bit 0 signalling NaN ... bit 9 +infinity.
template <class T>
inline uint32_t fp_class(T x, bool is_signalling, bool is_denormal) {
  const bool s = sign(x);
  if (x != x) return is_signalling ? 1u : 2u;
  if (x == x + x && x != T(0)) return s ? 4u : 512u;
  if (x == T(0)) return s ? 32u : 64u;
  if (is_denormal) return s ? 16u : 128u;
  return s ? 8u : 256u;
}

// Swaps neighbouring bits, pairs, nibbles, bytes ... ; compilers other than clang have no builtin for it.
template <class T>
T bitreverse_by_halves(T x) {
  for (unsigned width = sizeof(T) * 4; width != 0; width /= 2) {
    const T low = static_cast<T>(~T{0}) / ((T{1} << width) + 1);  // the lower half of every pair of `width`-bit fields
    x = (x >> width & low) | (x & low) << width;
  }
  return x;
}
#if defined(__clang__)
inline uint32_t bitreverse(uint32_t x) { return __builtin_bitreverse32(x); }
inline uint64_t bitreverse(uint64_t x) { return __builtin_bitreverse64(x); }
#else
inline uint32_t bitreverse(uint32_t x) { return bitreverse_by_halves(x); }
inline uint64_t bitreverse(uint64_t x) { return bitreverse_by_halves(x); }
#endif
inline int32_t ff1(uint32_t x) { return x ? std::countr_zero(x) : -1; }
inline int32_t ff1(uint64_t x) { return x ? std::countr_zero(x) : -1; }
inline int32_t ffbh(uint32_t x) { return x ? std::countl_zero(x) : -1; }
inline int32_t ffbh(uint64_t x) { return x ? std::countl_zero(x) : -1; }
inline int32_t ffbh_signed(int32_t x) {
  return x == 0 || x == -1 ? -1 : std::countl_zero(static_cast<uint32_t>(x < 0 ? ~x : x));
}
inline int32_t ffbh_signed(int64_t x) {
  return x == 0 || x == -1 ? -1 : std::countl_zero(static_cast<uint64_t>(x < 0 ? ~x : x));
}
inline int32_t sext(uint32_t x, uint32_t width) {
  return width == 0    ? 0
         : width >= 32 ? static_cast<int32_t>(x)
                       : static_cast<int32_t>(x << (32 - width)) >> (32 - width);
}
inline int64_t sext64(uint64_t x, uint32_t width) {
  return width == 0    ? 0
         : width >= 64 ? static_cast<int64_t>(x)
                       : static_cast<int64_t>(x << (64 - width)) >> (64 - width);
}
inline uint32_t low_bits(uint32_t n) { return n >= 32 ? ~0u : (1u << n) - 1u; }
inline uint64_t low_bits64(uint32_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1ull; }
inline int32_t s24(uint32_t x) { return static_cast<int32_t>(x << 8) >> 8; }
inline uint32_t u24(uint32_t x) { return x & 0xffffffu; }
inline uint32_t mul_hi_u32(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
inline int32_t mul_hi_i32(int32_t a, int32_t b) { return static_cast<int32_t>((static_cast<int64_t>(a) * b) >> 32); }

inline uint32_t perm_byte(uint64_t data, uint32_t sel) {
  const uint32_t plain = static_cast<uint32_t>(data >> ((sel & 7) * 8)) & 0xff;
  const uint32_t sign_bit = static_cast<uint32_t>(data >> ((sel & 3) * 16 + 15)) & 1;
  return sel < 8 ? plain : sel < 12 ? sign_bit * 0xffu : sel == 12 ? 0u : 0xffu;
}
inline uint32_t perm(uint32_t a, uint32_t b, uint32_t s) {
  const uint64_t data = static_cast<uint64_t>(a) << 32 | b;
  return perm_byte(data, s & 0xff) | perm_byte(data, (s >> 8) & 0xff) << 8 | perm_byte(data, (s >> 16) & 0xff) << 16 |
         perm_byte(data, s >> 24) << 24;
}
inline uint32_t sad_u8(uint32_t a, uint32_t b, uint32_t c, bool masked) {
  for (int k = 0; k < 32; k += 8) {
    const int32_t x = (a >> k) & 0xff, y = (b >> k) & 0xff;
    c += masked && y == 0 ? 0u : static_cast<uint32_t>(x > y ? x - y : y - x);
  }
  return c;
}
inline int32_t dot_i8(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = static_cast<uint32_t>(c);
  for (int k = 0; k < 32; k += 8) sum += static_cast<uint32_t>(sext(a >> k, 8) * sext(b >> k, 8));
  return static_cast<int32_t>(sum);
}
inline uint32_t dot_u8(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 32; k += 8) c += ((a >> k) & 0xff) * ((b >> k) & 0xff);
  return c;
}
inline int32_t dot_i4(uint32_t a, uint32_t b, int32_t c) {
  uint32_t sum = static_cast<uint32_t>(c);
  for (int k = 0; k < 32; k += 4) sum += static_cast<uint32_t>(sext(a >> k, 4) * sext(b >> k, 4));
  return static_cast<int32_t>(sum);
}
inline uint32_t dot_u4(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 32; k += 4) c += ((a >> k) & 0xf) * ((b >> k) & 0xf);
  return c;
}

}  // namespace HIPSYNTH_ISA
