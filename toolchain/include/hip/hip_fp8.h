// 8-bit floats with the names of HIP's public API: E4M3 and E5M2, as in OCP's specification and as FNUZ (one zero, no
// infinity, bias one higher), which is what gfx942 computes with; gfx950 computes with OCP's. A value is its 8 bits. Both
// convert their own formats by instructions, everything else is converted bit by bit: round to nearest even, subnormals kept.
#ifndef HIPSYNTH_HIP_FP8_H
#define HIPSYNTH_HIP_FP8_H

#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#include <string.h>

#define HIPSYNTH_FP8_FN static __host__ __device__ inline

// Which kind the device computes with; the host and devices without 8-bit floats offer both.
#if defined(__gfx942__)
#define HIP_FP8_TYPE_FNUZ 1
#define HIP_FP8_TYPE_OCP 0
#define HIP_FP8_CVT_FAST_PATH 1
#elif defined(__gfx950__)
#define HIP_FP8_TYPE_FNUZ 0
#define HIP_FP8_TYPE_OCP 1
#define HIP_FP8_CVT_FAST_PATH 1
#else
#define HIP_FP8_TYPE_FNUZ 1
#define HIP_FP8_TYPE_OCP 1
#define HIP_FP8_CVT_FAST_PATH 0
#endif

enum __hip_saturation_t { __HIP_NOSAT = 0, __HIP_SATFINITE = 1 };
enum __hip_fp8_interpretation_t { __HIP_E4M3 = 0, __HIP_E5M2 = 1, __HIP_E4M3_FNUZ = 2, __HIP_E5M2_FNUZ = 3 };
typedef unsigned char __hip_fp8_storage_t;
typedef unsigned short __hip_fp8x2_storage_t;
typedef unsigned int __hip_fp8x4_storage_t;

namespace hipsynth_fp8 {

// The formats of the instructions, their largest values as floats, and the first float that saturation leaves alone:
// an infinity becomes OCP's largest value, and FNUZ's NaN.
#if defined(__gfx950__)
constexpr __hip_fp8_interpretation_t kNativeE4M3 = __HIP_E4M3, kNativeE5M2 = __HIP_E5M2;
constexpr unsigned int kLargestE4M3 = 0x43e00000u, kLargestE5M2 = 0x47600000u, kKept = 0x7f800001u;
#else
constexpr __hip_fp8_interpretation_t kNativeE4M3 = __HIP_E4M3_FNUZ, kNativeE5M2 = __HIP_E5M2_FNUZ;
constexpr unsigned int kLargestE4M3 = 0x43700000u, kLargestE5M2 = 0x47600000u, kKept = 0x7f800000u;
#endif

// The four formats: mantissa bits, exponent bias, the largest finite code, and what stands for infinity and NaN.
struct Format {
  int mantissa, bias;
  unsigned char largest, infinity, nan;
  bool one_zero;
};

HIPSYNTH_FP8_FN constexpr Format format(__hip_fp8_interpretation_t kind) {
  return kind == __HIP_E4M3        ? Format{3, 7, 0x7e, 0x7f, 0x7f, false}
         : kind == __HIP_E5M2      ? Format{2, 15, 0x7b, 0x7c, 0x7e, false}
         : kind == __HIP_E4M3_FNUZ ? Format{3, 8, 0x7f, 0x80, 0x80, true}
                                   : Format{2, 16, 0x7f, 0x80, 0x80, true};
}

// From the bits of an IEEE number with `Mantissa` mantissa bits and the exponent bias `Bias`.
template <int Mantissa, int Bias>
HIPSYNTH_FP8_FN unsigned char encode(unsigned long long bits, bool negative, __hip_saturation_t saturation,
                                     __hip_fp8_interpretation_t kind) {
  constexpr unsigned long long kOne = 1ull << Mantissa;
  constexpr unsigned long long kInfinity = (2ull * Bias + 1) << Mantissa;
  const Format f = format(kind);
  const unsigned char sign = negative ? 0x80 : 0;
  if (bits > kInfinity) return f.one_zero ? f.nan : sign | f.nan;
  if (bits == kInfinity) {
    if (f.one_zero) return f.nan;
    return sign | (saturation == __HIP_SATFINITE ? f.largest : f.infinity);
  }
  if (bits < kOne) return f.one_zero ? 0 : sign;  // zero, or a subnormal far below the smallest 8-bit float
  const int exponent = static_cast<int>(bits >> Mantissa) - Bias + f.bias;
  const int shift = Mantissa - f.mantissa + (exponent < 1 ? 1 - exponent : 0);
  if (shift > Mantissa + 1) return f.one_zero ? 0 : sign;
  const unsigned long long value = (bits & (kOne - 1)) | kOne, half = 1ull << (shift - 1);
  const unsigned long long rest = value & (2 * half - 1);
  unsigned int code = static_cast<unsigned int>(value >> shift);
  code += rest > half || (rest == half && (code & 1) != 0) ? 1 : 0;
  code += exponent > 1 ? static_cast<unsigned int>(exponent - 1) << f.mantissa : 0;
  if (code > f.largest) {
    if (saturation == __HIP_SATFINITE) return sign | f.largest;
    return f.one_zero ? f.nan : sign | f.infinity;
  }
  return code == 0 && f.one_zero ? 0 : static_cast<unsigned char>(sign | code);
}

HIPSYNTH_FP8_FN unsigned char narrow(double value, __hip_saturation_t saturation, __hip_fp8_interpretation_t kind) {
  unsigned long long bits;
  memcpy(&bits, &value, sizeof(bits));
  return encode<52, 1023>(bits & ~(1ull << 63), bits >> 63 != 0, saturation, kind);
}

HIPSYNTH_FP8_FN unsigned char narrow(float value, __hip_saturation_t saturation, __hip_fp8_interpretation_t kind) {
  unsigned int bits;
  memcpy(&bits, &value, sizeof(bits));
#if HIP_FP8_CVT_FAST_PATH
  if (kind == kNativeE4M3 || kind == kNativeE5M2) {
    // In integers: under -ffast-math a compiler takes every number for finite.
    const unsigned int limit = kind == kNativeE4M3 ? kLargestE4M3 : kLargestE5M2, magnitude = bits & 0x7fffffffu;
    if (saturation == __HIP_SATFINITE && magnitude > limit && magnitude < kKept) {
      bits = limit | (bits & 0x80000000u);
      memcpy(&value, &bits, sizeof(value));
    }
    const int pair = kind == kNativeE4M3 ? __builtin_amdgcn_cvt_pk_fp8_f32(value, value, 0, false)
                                         : __builtin_amdgcn_cvt_pk_bf8_f32(value, value, 0, false);
    return static_cast<unsigned char>(pair);
  }
#endif
  return encode<23, 127>(bits & 0x7fffffffu, bits >> 31 != 0, saturation, kind);
}

// Exact: every 8-bit float is a float.
HIPSYNTH_FP8_FN float widen(unsigned char code, __hip_fp8_interpretation_t kind) {
#if HIP_FP8_CVT_FAST_PATH
  if (kind == kNativeE4M3) return __builtin_amdgcn_cvt_f32_fp8(code, 0);
  if (kind == kNativeE5M2) return __builtin_amdgcn_cvt_f32_bf8(code, 0);
#endif
  const Format f = format(kind);
  const unsigned int magnitude = code & 0x7fu, sign = (code & 0x80u) << 24;
  unsigned int bits = 0x7fc00000u;
  if (f.one_zero ? code != f.nan : magnitude < f.infinity || (kind == __HIP_E5M2 && magnitude == f.infinity)) {
    if (!f.one_zero && kind == __HIP_E5M2 && magnitude == f.infinity) {
      bits = 0x7f800000u;
    } else {
      const int exponent = static_cast<int>(magnitude >> f.mantissa);
      const unsigned int fraction = magnitude & ((1u << f.mantissa) - 1);
      const float scaled = static_cast<float>(exponent == 0 ? fraction : fraction | (1u << f.mantissa));
      const unsigned int power = static_cast<unsigned int>((exponent == 0 ? 1 : exponent) - f.bias - f.mantissa + 127);
      const unsigned int power_bits = power << 23;
      float factor, value;
      memcpy(&factor, &power_bits, sizeof(factor));
      value = scaled * factor;
      memcpy(&bits, &value, sizeof(bits));
    }
  }
  bits |= sign;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

HIPSYNTH_FP8_FN float of_half(__half_raw raw) { return static_cast<float>(raw.data); }

}  // namespace hipsynth_fp8

// --- conversions ---------------------------------------------------------------------------------------------------

HIPSYNTH_FP8_FN __hip_fp8_storage_t __hip_cvt_float_to_fp8(float value, __hip_saturation_t saturation,
                                                           __hip_fp8_interpretation_t kind) {
  return hipsynth_fp8::narrow(value, saturation, kind);
}
HIPSYNTH_FP8_FN __hip_fp8_storage_t __hip_cvt_double_to_fp8(double value, __hip_saturation_t saturation,
                                                            __hip_fp8_interpretation_t kind) {
  return hipsynth_fp8::narrow(value, saturation, kind);
}
HIPSYNTH_FP8_FN __hip_fp8_storage_t __hip_cvt_halfraw_to_fp8(__half_raw value, __hip_saturation_t saturation,
                                                             __hip_fp8_interpretation_t kind) {
  return hipsynth_fp8::narrow(hipsynth_fp8::of_half(value), saturation, kind);
}
HIPSYNTH_FP8_FN __hip_fp8_storage_t __hip_cvt_bfloat16raw_to_fp8(__hip_bfloat16_raw value,
                                                                 __hip_saturation_t saturation,
                                                                 __hip_fp8_interpretation_t kind) {
  return hipsynth_fp8::narrow(hipsynth_bf16::widen(value.x), saturation, kind);
}
HIPSYNTH_FP8_FN __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 value, __hip_saturation_t saturation,
                                                                __hip_fp8_interpretation_t kind) {
  return static_cast<__hip_fp8x2_storage_t>(hipsynth_fp8::narrow(value.x, saturation, kind) |
                                            hipsynth_fp8::narrow(value.y, saturation, kind) << 8);
}
HIPSYNTH_FP8_FN __hip_fp8x2_storage_t __hip_cvt_double2_to_fp8x2(double2 value, __hip_saturation_t saturation,
                                                                 __hip_fp8_interpretation_t kind) {
  return static_cast<__hip_fp8x2_storage_t>(hipsynth_fp8::narrow(value.x, saturation, kind) |
                                            hipsynth_fp8::narrow(value.y, saturation, kind) << 8);
}
HIPSYNTH_FP8_FN __hip_fp8x2_storage_t __hip_cvt_halfraw2_to_fp8x2(__half2_raw value, __hip_saturation_t saturation,
                                                                  __hip_fp8_interpretation_t kind) {
  float2 wide = make_float2(static_cast<float>(value.data[0]), static_cast<float>(value.data[1]));
  return __hip_cvt_float2_to_fp8x2(wide, saturation, kind);
}
HIPSYNTH_FP8_FN __hip_fp8x2_storage_t __hip_cvt_bfloat16raw2_to_fp8x2(__hip_bfloat162_raw value,
                                                                      __hip_saturation_t saturation,
                                                                      __hip_fp8_interpretation_t kind) {
  float2 wide = make_float2(hipsynth_bf16::widen(value.x), hipsynth_bf16::widen(value.y));
  return __hip_cvt_float2_to_fp8x2(wide, saturation, kind);
}
HIPSYNTH_FP8_FN __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t value, __hip_fp8_interpretation_t kind) {
  __half_raw raw;
  raw.data = static_cast<_Float16>(hipsynth_fp8::widen(value, kind));
  return raw;
}
HIPSYNTH_FP8_FN __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t value, __hip_fp8_interpretation_t kind) {
  __half2_raw raw;
  raw.data[0] = static_cast<_Float16>(hipsynth_fp8::widen(static_cast<unsigned char>(value), kind));
  raw.data[1] = static_cast<_Float16>(hipsynth_fp8::widen(static_cast<unsigned char>(value >> 8), kind));
  return raw;
}

// --- types ---------------------------------------------------------------------------------------------------------

// One, two and four values of a format; all conversions from wider numbers saturate.
#define HIPSYNTH_FP8_TYPES(suffix, kind)                                                                               \
  struct __hip_fp8_##suffix {                                                                                          \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;                                        \
    static constexpr __hip_fp8_interpretation_t __default_interpret = kind;                                            \
    __hip_fp8_storage_t __x;                                                                                           \
    __hip_fp8_##suffix() = default;                                                                                    \
    __host__ __device__ __hip_fp8_##suffix(float v) : __x(hipsynth_fp8::narrow(v, __HIP_SATFINITE, kind)) {}           \
    __host__ __device__ __hip_fp8_##suffix(double v) : __x(hipsynth_fp8::narrow(v, __HIP_SATFINITE, kind)) {}          \
    __host__ __device__ __hip_fp8_##suffix(short v) : __hip_fp8_##suffix(static_cast<float>(v)) {}                     \
    __host__ __device__ __hip_fp8_##suffix(unsigned short v) : __hip_fp8_##suffix(static_cast<float>(v)) {}            \
    __host__ __device__ __hip_fp8_##suffix(int v) : __hip_fp8_##suffix(static_cast<double>(v)) {}                      \
    __host__ __device__ __hip_fp8_##suffix(unsigned int v) : __hip_fp8_##suffix(static_cast<double>(v)) {}             \
    __host__ __device__ __hip_fp8_##suffix(long v) : __hip_fp8_##suffix(static_cast<double>(v)) {}                     \
    __host__ __device__ __hip_fp8_##suffix(unsigned long v) : __hip_fp8_##suffix(static_cast<double>(v)) {}            \
    __host__ __device__ __hip_fp8_##suffix(long long v) : __hip_fp8_##suffix(static_cast<double>(v)) {}                \
    __host__ __device__ __hip_fp8_##suffix(unsigned long long v) : __hip_fp8_##suffix(static_cast<double>(v)) {}       \
    __host__ __device__ __hip_fp8_##suffix(const __half& v) : __hip_fp8_##suffix(__half2float(v)) {}                   \
    __host__ __device__ __hip_fp8_##suffix(const __hip_bfloat16& v) : __hip_fp8_##suffix(__bfloat162float(v)) {}       \
    __host__ __device__ operator float() const { return hipsynth_fp8::widen(__x, kind); }                              \
    __host__ __device__ operator __half() const { return __half(__hip_cvt_fp8_to_halfraw(__x, kind)); }                \
    __host__ __device__ operator __hip_bfloat16() const { return hipsynth_fp8::widen(__x, kind); }                     \
    __host__ __device__ explicit operator bool() const { return hipsynth_fp8::widen(__x, kind) != 0.0f; }              \
  };                                                                                                                   \
  struct __hip_fp8x2_##suffix {                                                                                        \
    __hip_fp8x2_storage_t __x;                                                                                         \
    __hip_fp8x2_##suffix() = default;                                                                                  \
    __host__ __device__ __hip_fp8x2_##suffix(float2 v) : __x(__hip_cvt_float2_to_fp8x2(v, __HIP_SATFINITE, kind)) {}   \
    __host__ __device__ __hip_fp8x2_##suffix(double2 v) : __x(__hip_cvt_double2_to_fp8x2(v, __HIP_SATFINITE, kind)) {} \
    __host__ __device__ __hip_fp8x2_##suffix(const __half2& v)                                                         \
        : __x(__hip_cvt_halfraw2_to_fp8x2(v, __HIP_SATFINITE, kind)) {}                                                \
    __host__ __device__ operator float2() const {                                                                      \
      return make_float2(hipsynth_fp8::widen(static_cast<unsigned char>(__x), kind),                                   \
                         hipsynth_fp8::widen(static_cast<unsigned char>(__x >> 8), kind));                             \
    }                                                                                                                  \
  };                                                                                                                   \
  struct __hip_fp8x4_##suffix {                                                                                        \
    __hip_fp8x4_storage_t __x;                                                                                         \
    __hip_fp8x4_##suffix() = default;                                                                                  \
    __host__ __device__ __hip_fp8x4_##suffix(float4 v)                                                                 \
        : __x(__hip_cvt_float2_to_fp8x2(make_float2(v.x, v.y), __HIP_SATFINITE, kind) |                                \
              static_cast<unsigned int>(__hip_cvt_float2_to_fp8x2(make_float2(v.z, v.w), __HIP_SATFINITE, kind))       \
                  << 16) {}                                                                                            \
    __host__ __device__ operator float4() const {                                                                      \
      return make_float4(hipsynth_fp8::widen(static_cast<unsigned char>(__x), kind),                                   \
                         hipsynth_fp8::widen(static_cast<unsigned char>(__x >> 8), kind),                              \
                         hipsynth_fp8::widen(static_cast<unsigned char>(__x >> 16), kind),                             \
                         hipsynth_fp8::widen(static_cast<unsigned char>(__x >> 24), kind));                            \
    }                                                                                                                  \
  };

HIPSYNTH_FP8_TYPES(e4m3, __HIP_E4M3)
HIPSYNTH_FP8_TYPES(e5m2, __HIP_E5M2)
HIPSYNTH_FP8_TYPES(e4m3_fnuz, __HIP_E4M3_FNUZ)
HIPSYNTH_FP8_TYPES(e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef HIPSYNTH_FP8_TYPES
#undef HIPSYNTH_FP8_FN

#endif  // HIPSYNTH_HIP_FP8_H
