// bfloat16 with the names of HIP's public API: __hip_bfloat16, __hip_bfloat162, conversions, arithmetic, comparisons.
// A value is its 16 bits; arithmetic widens to float and rounds to nearest even once per operation.
#ifndef HIPSYNTH_HIP_BF16_H
#define HIPSYNTH_HIP_BF16_H

#include <hip/hip_runtime.h>
#include <math.h>
#include <string.h>

#define HIPSYNTH_BF16_FN static __host__ __device__ inline

struct __hip_bfloat16_raw {
  unsigned short x;
};
struct __hip_bfloat162_raw {
  unsigned short x;
  unsigned short y;
};

namespace hipsynth_bf16 {

HIPSYNTH_BF16_FN float widen(unsigned short bits) {
  unsigned int wide = static_cast<unsigned int>(bits) << 16;
  float value;
  memcpy(&value, &wide, sizeof(value));
  return value;
}

// Round to nearest even; a NaN stays a NaN (quieted, sign and upper payload kept).
HIPSYNTH_BF16_FN unsigned short narrow(float value) {
  unsigned int wide;
  memcpy(&wide, &value, sizeof(wide));
  if ((wide & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((wide >> 16) | 0x40u);
  return static_cast<unsigned short>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
}

// Towards zero, down and up: the kept bits truncate; one step away from zero where the direction asks for it.
HIPSYNTH_BF16_FN unsigned short narrow_directed(float value, bool away_if_positive, bool away_if_negative) {
  unsigned int wide;
  memcpy(&wide, &value, sizeof(wide));
  if ((wide & 0x7fffffffu) > 0x7f800000u) return static_cast<unsigned short>((wide >> 16) | 0x40u);
  bool away = (wide & 0x80000000u) != 0 ? away_if_negative : away_if_positive;
  bool inexact = (wide & 0xffffu) != 0;
  return static_cast<unsigned short>((wide >> 16) + (away && inexact ? 1u : 0u));
}

}  // namespace hipsynth_bf16

struct __attribute__((aligned(2))) __hip_bfloat16 {
  unsigned short __x;

  __hip_bfloat16() = default;
  __host__ __device__ __hip_bfloat16(const __hip_bfloat16_raw& raw) : __x(raw.x) {}
  __host__ __device__ __hip_bfloat16(float value) : __x(hipsynth_bf16::narrow(value)) {}
  __host__ __device__ __hip_bfloat16(__bf16 value) { __builtin_memcpy(&__x, &value, sizeof(__x)); }
  __host__ __device__ __hip_bfloat16(double value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(int value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(unsigned int value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(long value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(unsigned long value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(long long value) : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}
  __host__ __device__ __hip_bfloat16(unsigned long long value)
      : __x(hipsynth_bf16::narrow(static_cast<float>(value))) {}

  __host__ __device__ operator float() const { return hipsynth_bf16::widen(__x); }
  __host__ __device__ operator __hip_bfloat16_raw() const {
    __hip_bfloat16_raw raw;
    raw.x = __x;
    return raw;
  }
};

struct __attribute__((aligned(4))) __hip_bfloat162 {
  __hip_bfloat16 x;
  __hip_bfloat16 y;

  __hip_bfloat162() = default;
  __host__ __device__ __hip_bfloat162(const __hip_bfloat16& low, const __hip_bfloat16& high) : x(low), y(high) {}
  __host__ __device__ __hip_bfloat162(const __hip_bfloat162_raw& raw) {
    x.__x = raw.x;
    y.__x = raw.y;
  }
  __host__ __device__ operator __hip_bfloat162_raw() const {
    __hip_bfloat162_raw raw;
    raw.x = x.__x;
    raw.y = y.__x;
    return raw;
  }
  __host__ __device__ operator float2() const { return make_float2(x, y); }
};

// --- conversions ---------------------------------------------------------------------------------------------------

HIPSYNTH_BF16_FN __hip_bfloat16 __float2bfloat16(float value) { return __hip_bfloat16(value); }
HIPSYNTH_BF16_FN __hip_bfloat16 __float2bfloat16_rn(float value) { return __hip_bfloat16(value); }
HIPSYNTH_BF16_FN __hip_bfloat16 __float2bfloat16_rz(float value) {
  __hip_bfloat16 result;
  result.__x = hipsynth_bf16::narrow_directed(value, false, false);
  return result;
}
HIPSYNTH_BF16_FN __hip_bfloat16 __float2bfloat16_rd(float value) {
  __hip_bfloat16 result;
  result.__x = hipsynth_bf16::narrow_directed(value, false, true);
  return result;
}
HIPSYNTH_BF16_FN __hip_bfloat16 __float2bfloat16_ru(float value) {
  __hip_bfloat16 result;
  result.__x = hipsynth_bf16::narrow_directed(value, true, false);
  return result;
}
HIPSYNTH_BF16_FN __hip_bfloat16 __double2bfloat16(double value) { return __hip_bfloat16(value); }
HIPSYNTH_BF16_FN __hip_bfloat16 __int2bfloat16_rn(int value) { return __hip_bfloat16(value); }
HIPSYNTH_BF16_FN __hip_bfloat16 __uint2bfloat16_rn(unsigned int value) { return __hip_bfloat16(value); }
HIPSYNTH_BF16_FN float __bfloat162float(__hip_bfloat16 value) { return hipsynth_bf16::widen(value.__x); }
HIPSYNTH_BF16_FN int __bfloat162int_rz(__hip_bfloat16 value) { return static_cast<int>(__bfloat162float(value)); }
HIPSYNTH_BF16_FN int __bfloat162int_rn(__hip_bfloat16 value) {
  return static_cast<int>(rintf(__bfloat162float(value)));
}
HIPSYNTH_BF16_FN __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __hip_bfloat16 result;
  result.__x = bits;
  return result;
}
HIPSYNTH_BF16_FN __hip_bfloat16 __short_as_bfloat16(short bits) {
  return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
}
HIPSYNTH_BF16_FN unsigned short __bfloat16_as_ushort(__hip_bfloat16 value) { return value.__x; }
HIPSYNTH_BF16_FN short __bfloat16_as_short(__hip_bfloat16 value) { return static_cast<short>(value.__x); }

HIPSYNTH_BF16_FN __hip_bfloat162 __halves2bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) { return {low, high}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __lows2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.x, b.x}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __highs2bfloat162(__hip_bfloat162 a, __hip_bfloat162 b) { return {a.y, b.y}; }
HIPSYNTH_BF16_FN __hip_bfloat162 make_bfloat162(__hip_bfloat16 low, __hip_bfloat16 high) { return {low, high}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 value) { return {value, value}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __float2bfloat162_rn(float value) { return {value, value}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __floats2bfloat162_rn(float low, float high) { return {low, high}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __float22bfloat162_rn(float2 value) { return {value.x, value.y}; }
HIPSYNTH_BF16_FN float2 __bfloat1622float2(__hip_bfloat162 value) {
  return make_float2(__bfloat162float(value.x), __bfloat162float(value.y));
}
HIPSYNTH_BF16_FN __hip_bfloat16 __low2bfloat16(__hip_bfloat162 value) { return value.x; }
HIPSYNTH_BF16_FN __hip_bfloat16 __high2bfloat16(__hip_bfloat162 value) { return value.y; }
HIPSYNTH_BF16_FN float __low2float(__hip_bfloat162 value) { return __bfloat162float(value.x); }
HIPSYNTH_BF16_FN float __high2float(__hip_bfloat162 value) { return __bfloat162float(value.y); }
HIPSYNTH_BF16_FN __hip_bfloat162 __low2bfloat162(__hip_bfloat162 value) { return {value.x, value.x}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __high2bfloat162(__hip_bfloat162 value) { return {value.y, value.y}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __lowhigh2highlow(__hip_bfloat162 value) { return {value.y, value.x}; }

// --- arithmetic ----------------------------------------------------------------------------------------------------

HIPSYNTH_BF16_FN __hip_bfloat16 __hneg(__hip_bfloat16 a) { return __ushort_as_bfloat16(a.__x ^ 0x8000u); }
HIPSYNTH_BF16_FN __hip_bfloat16 __habs(__hip_bfloat16 a) { return __ushort_as_bfloat16(a.__x & 0x7fffu); }
HIPSYNTH_BF16_FN __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return __hip_bfloat16(fmaf(__bfloat162float(a), __bfloat162float(b), __bfloat162float(c)));
}
HIPSYNTH_BF16_FN __hip_bfloat162 __hneg2(__hip_bfloat162 a) { return {__hneg(a.x), __hneg(a.y)}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __habs2(__hip_bfloat162 a) { return {__habs(a.x), __habs(a.y)}; }
HIPSYNTH_BF16_FN __hip_bfloat162 __hfma2(__hip_bfloat162 a, __hip_bfloat162 b, __hip_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

#define HIPSYNTH_BF16_BINARY(name, op)                                                                        \
  HIPSYNTH_BF16_FN __hip_bfloat16 __h##name(__hip_bfloat16 a, __hip_bfloat16 b) {                             \
    return __hip_bfloat16(__bfloat162float(a) op __bfloat162float(b));                                        \
  }                                                                                                           \
  HIPSYNTH_BF16_FN __hip_bfloat16 operator op(__hip_bfloat16 a, __hip_bfloat16 b) { return __h##name(a, b); } \
  HIPSYNTH_BF16_FN __hip_bfloat16& operator op## = (__hip_bfloat16 & a, __hip_bfloat16 b) {                   \
    return a = __h##name(a, b);                                                                               \
  }                                                                                                           \
  HIPSYNTH_BF16_FN __hip_bfloat162 operator op(__hip_bfloat162 a, __hip_bfloat162 b) {                        \
    return {__h##name(a.x, b.x), __h##name(a.y, b.y)};                                                        \
  }                                                                                                           \
  HIPSYNTH_BF16_FN __hip_bfloat162& operator op## = (__hip_bfloat162 & a, __hip_bfloat162 b) { return a = a op b; }

HIPSYNTH_BF16_BINARY(add, +)
HIPSYNTH_BF16_BINARY(sub, -)
HIPSYNTH_BF16_BINARY(mul, *)
HIPSYNTH_BF16_BINARY(div, /)
#undef HIPSYNTH_BF16_BINARY

HIPSYNTH_BF16_FN __hip_bfloat162 __hadd2(__hip_bfloat162 a, __hip_bfloat162 b) { return a + b; }
HIPSYNTH_BF16_FN __hip_bfloat162 __hsub2(__hip_bfloat162 a, __hip_bfloat162 b) { return a - b; }
HIPSYNTH_BF16_FN __hip_bfloat162 __hmul2(__hip_bfloat162 a, __hip_bfloat162 b) { return a * b; }
HIPSYNTH_BF16_FN __hip_bfloat162 __h2div(__hip_bfloat162 a, __hip_bfloat162 b) { return a / b; }
HIPSYNTH_BF16_FN __hip_bfloat16 operator-(__hip_bfloat16 a) { return __hneg(a); }
HIPSYNTH_BF16_FN __hip_bfloat16 operator+(__hip_bfloat16 a) { return a; }
HIPSYNTH_BF16_FN __hip_bfloat162 operator-(__hip_bfloat162 a) { return __hneg2(a); }
HIPSYNTH_BF16_FN __hip_bfloat16& operator++(__hip_bfloat16& a) { return a += __hip_bfloat16(1.0f); }
HIPSYNTH_BF16_FN __hip_bfloat16& operator--(__hip_bfloat16& a) { return a -= __hip_bfloat16(1.0f); }
HIPSYNTH_BF16_FN __hip_bfloat16 operator++(__hip_bfloat16& a, int) {
  const __hip_bfloat16 before = a;
  ++a;
  return before;
}
HIPSYNTH_BF16_FN __hip_bfloat16 operator--(__hip_bfloat16& a, int) {
  const __hip_bfloat16 before = a;
  --a;
  return before;
}

// A bfloat16 beside a number of another type: both become float (the implicit conversions alone would be ambiguous).
#define HIPSYNTH_BF16_MIXED(op)                                                                        \
  HIPSYNTH_BF16_FN float operator op(__hip_bfloat16 a, float b) { return __bfloat162float(a) op b; }   \
  HIPSYNTH_BF16_FN float operator op(float a, __hip_bfloat16 b) { return a op __bfloat162float(b); }   \
  HIPSYNTH_BF16_FN double operator op(__hip_bfloat16 a, double b) { return __bfloat162float(a) op b; } \
  HIPSYNTH_BF16_FN double operator op(double a, __hip_bfloat16 b) { return a op __bfloat162float(b); } \
  HIPSYNTH_BF16_FN float operator op(__hip_bfloat16 a, int b) { return __bfloat162float(a) op b; }     \
  HIPSYNTH_BF16_FN float operator op(int a, __hip_bfloat16 b) { return a op __bfloat162float(b); }

HIPSYNTH_BF16_MIXED(+)
HIPSYNTH_BF16_MIXED(-)
HIPSYNTH_BF16_MIXED(*)
HIPSYNTH_BF16_MIXED(/)
#undef HIPSYNTH_BF16_MIXED

// --- comparisons ---------------------------------------------------------------------------------------------------

#define HIPSYNTH_BF16_COMPARE(name, op)                                                              \
  HIPSYNTH_BF16_FN bool __h##name(__hip_bfloat16 a, __hip_bfloat16 b) {                              \
    return __bfloat162float(a) op __bfloat162float(b);                                               \
  }                                                                                                  \
  HIPSYNTH_BF16_FN bool operator op(__hip_bfloat16 a, __hip_bfloat16 b) { return __h##name(a, b); }  \
  HIPSYNTH_BF16_FN bool operator op(__hip_bfloat16 a, float b) { return __bfloat162float(a) op b; }  \
  HIPSYNTH_BF16_FN bool operator op(float a, __hip_bfloat16 b) { return a op __bfloat162float(b); }  \
  HIPSYNTH_BF16_FN bool operator op(__hip_bfloat16 a, double b) { return __bfloat162float(a) op b; } \
  HIPSYNTH_BF16_FN bool operator op(double a, __hip_bfloat16 b) { return a op __bfloat162float(b); } \
  HIPSYNTH_BF16_FN bool operator op(__hip_bfloat16 a, int b) { return __bfloat162float(a) op b; }    \
  HIPSYNTH_BF16_FN bool operator op(int a, __hip_bfloat16 b) { return a op __bfloat162float(b); }    \
  HIPSYNTH_BF16_FN __hip_bfloat162 __h##name##2(__hip_bfloat162 a, __hip_bfloat162 b) {              \
    return {a.x op b.x ? 1.0f : 0.0f, a.y op b.y ? 1.0f : 0.0f};                                     \
  }                                                                                                  \
  HIPSYNTH_BF16_FN bool __hb##name##2(__hip_bfloat162 a, __hip_bfloat162 b) { return a.x op b.x && a.y op b.y; }

// The unordered forms are true if either is a NaN.
#define HIPSYNTH_BF16_UNORDERED(name, opposite) \
  HIPSYNTH_BF16_FN bool __h##name##u(__hip_bfloat16 a, __hip_bfloat16 b) { return !__h##opposite(a, b); }

HIPSYNTH_BF16_COMPARE(eq, ==)
HIPSYNTH_BF16_COMPARE(ne, !=)
HIPSYNTH_BF16_COMPARE(lt, <)
HIPSYNTH_BF16_COMPARE(le, <=)
HIPSYNTH_BF16_COMPARE(gt, >)
HIPSYNTH_BF16_COMPARE(ge, >=)
#undef HIPSYNTH_BF16_COMPARE
HIPSYNTH_BF16_FN bool __hequ(__hip_bfloat16 a, __hip_bfloat16 b) { return !(__hlt(a, b) || __hgt(a, b)); }
HIPSYNTH_BF16_UNORDERED(ne, eq)
HIPSYNTH_BF16_UNORDERED(lt, ge)
HIPSYNTH_BF16_UNORDERED(le, gt)
HIPSYNTH_BF16_UNORDERED(gt, le)
HIPSYNTH_BF16_UNORDERED(ge, lt)
#undef HIPSYNTH_BF16_UNORDERED

HIPSYNTH_BF16_FN bool __hisnan(__hip_bfloat16 a) { return (a.__x & 0x7fffu) > 0x7f80u; }
HIPSYNTH_BF16_FN int __hisinf(__hip_bfloat16 a) {
  return (a.__x & 0x7fffu) != 0x7f80u ? 0 : (a.__x & 0x8000u) != 0 ? -1 : 1;
}
HIPSYNTH_BF16_FN __hip_bfloat16 __hmax(__hip_bfloat16 a, __hip_bfloat16 b) {
  return __hip_bfloat16(fmaxf(__bfloat162float(a), __bfloat162float(b)));
}
HIPSYNTH_BF16_FN __hip_bfloat16 __hmin(__hip_bfloat16 a, __hip_bfloat16 b) {
  return __hip_bfloat16(fminf(__bfloat162float(a), __bfloat162float(b)));
}
HIPSYNTH_BF16_FN __hip_bfloat162 __hmax2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hmax(a.x, b.x), __hmax(a.y, b.y)};
}
HIPSYNTH_BF16_FN __hip_bfloat162 __hmin2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hmin(a.x, b.x), __hmin(a.y, b.y)};
}

// --- functions -----------------------------------------------------------------------------------------------------

#define HIPSYNTH_BF16_UNARY(name, expression)                 \
  HIPSYNTH_BF16_FN __hip_bfloat16 h##name(__hip_bfloat16 a) { \
    float v = __bfloat162float(a);                            \
    return __hip_bfloat16(expression);                        \
  }                                                           \
  HIPSYNTH_BF16_FN __hip_bfloat162 h2##name(__hip_bfloat162 a) { return {h##name(a.x), h##name(a.y)}; }

HIPSYNTH_BF16_UNARY(ceil, ceilf(v))
HIPSYNTH_BF16_UNARY(floor, floorf(v))
HIPSYNTH_BF16_UNARY(trunc, truncf(v))
HIPSYNTH_BF16_UNARY(rint, rintf(v))
HIPSYNTH_BF16_UNARY(sqrt, sqrtf(v))
HIPSYNTH_BF16_UNARY(rsqrt, 1.0f / sqrtf(v))
HIPSYNTH_BF16_UNARY(rcp, 1.0f / v)
HIPSYNTH_BF16_UNARY(exp, expf(v))
HIPSYNTH_BF16_UNARY(exp2, exp2f(v))
HIPSYNTH_BF16_UNARY(exp10, powf(10.0f, v))
HIPSYNTH_BF16_UNARY(log, logf(v))
HIPSYNTH_BF16_UNARY(log2, log2f(v))
HIPSYNTH_BF16_UNARY(log10, log10f(v))
HIPSYNTH_BF16_UNARY(sin, sinf(v))
HIPSYNTH_BF16_UNARY(cos, cosf(v))
HIPSYNTH_BF16_UNARY(tanh, tanhf(v))
#undef HIPSYNTH_BF16_UNARY

#if defined(__HIP__)
#define HIPSYNTH_BF16_SHUFFLE(name, type)                                                                          \
  static __device__ inline __hip_bfloat16 name(__hip_bfloat16 a, type lane, int width = warpSize) {                \
    return __ushort_as_bfloat16(static_cast<unsigned short>(name(static_cast<unsigned int>(a.__x), lane, width))); \
  }

HIPSYNTH_BF16_SHUFFLE(__shfl, int)
HIPSYNTH_BF16_SHUFFLE(__shfl_up, unsigned int)
HIPSYNTH_BF16_SHUFFLE(__shfl_down, unsigned int)
HIPSYNTH_BF16_SHUFFLE(__shfl_xor, int)
#undef HIPSYNTH_BF16_SHUFFLE

static __device__ inline __hip_bfloat16 __ldg(const __hip_bfloat16* pointer) { return *pointer; }
static __device__ inline __hip_bfloat162 __ldg(const __hip_bfloat162* pointer) { return *pointer; }

// No bfloat16 atomic on a single half-word: compare-and-swap on the word that holds it.
static __device__ inline __hip_bfloat16 atomicAdd(__hip_bfloat16* address, __hip_bfloat16 value) {
  size_t place = reinterpret_cast<size_t>(address);
  unsigned int* word = reinterpret_cast<unsigned int*>(place & ~static_cast<size_t>(3));
  unsigned int shift = (place & 2) != 0 ? 16 : 0;
  unsigned int seen = *word, assumed;
  do {
    assumed = seen;
    __hip_bfloat16 sum = __hadd(__ushort_as_bfloat16(static_cast<unsigned short>(assumed >> shift)), value);
    unsigned int replaced = (assumed & ~(0xffffu << shift)) | (static_cast<unsigned int>(sum.__x) << shift);
    seen = atomicCAS(word, assumed, replaced);
  } while (seen != assumed);
  return __ushort_as_bfloat16(static_cast<unsigned short>(assumed >> shift));
}

// One packed instruction where the architecture has it for any address (gfx942, gfx950), as in HIP's own header.
static __device__ inline __hip_bfloat162 unsafeAtomicAdd(__hip_bfloat162* address, __hip_bfloat162 value) {
#if __has_builtin(__builtin_amdgcn_flat_atomic_fadd_v2bf16)
  using packed = short __attribute__((ext_vector_type(2)));
  packed added;
  memcpy(&added, &value, sizeof(added));
  packed old = __builtin_amdgcn_flat_atomic_fadd_v2bf16(reinterpret_cast<packed*>(address), added);
  __hip_bfloat162 before;
  memcpy(&before, &old, sizeof(before));
  return before;
#else
  unsigned int* word = reinterpret_cast<unsigned int*>(address);
  unsigned int seen = *word, assumed;
  __hip_bfloat162 before;
  do {
    assumed = seen;
    memcpy(&before, &assumed, sizeof(before));
    __hip_bfloat162 after = before + value;
    unsigned int replaced;
    memcpy(&replaced, &after, sizeof(replaced));
    seen = atomicCAS(word, assumed, replaced);
  } while (seen != assumed);
  return before;
#endif
}
#endif

#undef HIPSYNTH_BF16_FN

#define HIPRT_INF_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7F80))
#define HIPRT_MAX_NORMAL_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7F7F))
#define HIPRT_MIN_DENORM_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0001))
#define HIPRT_NAN_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x7FFF))
#define HIPRT_NEG_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x8000))
#define HIPRT_ONE_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x3F80))
#define HIPRT_ZERO_BF16 __ushort_as_bfloat16(static_cast<unsigned short>(0x0000))

#endif  // HIPSYNTH_HIP_BF16_H
