// Half precision: the HIP 5.4 implementation on top of the newer runtime headers.
// The older header calls two reciprocal helpers that later toolchains dropped; they are one instruction each.
#ifndef HIPSYNTH_HIP_FP16_H
#define HIPSYNTH_HIP_FP16_H

#include <hip/amd_detail/hip_fp16_math_fwd.h>
#include <hip/hip_common.h>
#include <hip/hip_runtime.h>

#if defined(__clang__) && defined(__HIP__)
static __device__ inline _Float16 __llvm_amdgcn_rcp_f16(_Float16 x) {
#if defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_rcph(x);
#else
  return static_cast<_Float16>(1.0f / static_cast<float>(x));
#endif
}
static __device__ inline __2f16 __llvm_amdgcn_rcp_2f16(__2f16 x) {
  return __2f16{__llvm_amdgcn_rcp_f16(x.x), __llvm_amdgcn_rcp_f16(x.y)};
}
#endif

#include <hip/amd_detail/amd_hip_fp16.h>

// Functions that HIP added after 5.4.
#if defined(__cplusplus) && defined(__clang__) && defined(__HIP__)

#define HIPSYNTH_FP16_FN static __device__ inline

// IEEE minimumNumber and maximumNumber: a NaN loses against a number; the _nan forms hand a NaN on.
HIPSYNTH_FP16_FN __half __hmax(__half a, __half b) {
  return __half_raw{__builtin_fmaxf16(static_cast<__half_raw>(a).data, static_cast<__half_raw>(b).data)};
}
HIPSYNTH_FP16_FN __half __hmin(__half a, __half b) {
  return __half_raw{__builtin_fminf16(static_cast<__half_raw>(a).data, static_cast<__half_raw>(b).data)};
}
HIPSYNTH_FP16_FN __half __hmax_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); }
HIPSYNTH_FP16_FN __half __hmin_nan(__half a, __half b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); }
HIPSYNTH_FP16_FN __half2 __hmax2(__half2 a, __half2 b) {
  return __halves2half2(__hmax(__low2half(a), __low2half(b)), __hmax(__high2half(a), __high2half(b)));
}
HIPSYNTH_FP16_FN __half2 __hmin2(__half2 a, __half2 b) {
  return __halves2half2(__hmin(__low2half(a), __low2half(b)), __hmin(__high2half(a), __high2half(b)));
}

HIPSYNTH_FP16_FN __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
HIPSYNTH_FP16_FN __half __hsub_rn(__half a, __half b) { return __hsub(a, b); }
HIPSYNTH_FP16_FN __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
HIPSYNTH_FP16_FN __half __hfma_relu(__half a, __half b, __half c) {
  return __hmax(__hfma(a, b, c), __float2half(0.0f));
}
HIPSYNTH_FP16_FN __half __double2half(double value) { return __half_raw{static_cast<_Float16>(value)}; }
HIPSYNTH_FP16_FN __half htanh(__half x) { return __float2half(tanhf(__half2float(x))); }
HIPSYNTH_FP16_FN __half2 h2tanh(__half2 x) { return __halves2half2(htanh(__low2half(x)), htanh(__high2half(x))); }

namespace hipsynth_fp16 {
template <typename T>
HIPSYNTH_FP16_FN unsigned int bits(T value) {
  unsigned int word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  return word;
}
template <typename T>
HIPSYNTH_FP16_FN T from_bits(unsigned int word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
}  // namespace hipsynth_fp16

#define HIPSYNTH_FP16_SHUFFLE(name, type, lane_type)                                      \
  HIPSYNTH_FP16_FN type name(type value, lane_type lane, int width = warpSize) {          \
    return hipsynth_fp16::from_bits<type>(name(hipsynth_fp16::bits(value), lane, width)); \
  }
HIPSYNTH_FP16_SHUFFLE(__shfl, __half, int)
HIPSYNTH_FP16_SHUFFLE(__shfl_up, __half, unsigned int)
HIPSYNTH_FP16_SHUFFLE(__shfl_down, __half, unsigned int)
HIPSYNTH_FP16_SHUFFLE(__shfl_xor, __half, int)
HIPSYNTH_FP16_SHUFFLE(__shfl, __half2, int)
HIPSYNTH_FP16_SHUFFLE(__shfl_up, __half2, unsigned int)
HIPSYNTH_FP16_SHUFFLE(__shfl_down, __half2, unsigned int)
HIPSYNTH_FP16_SHUFFLE(__shfl_xor, __half2, int)
#undef HIPSYNTH_FP16_SHUFFLE

// Compare-and-swap on the word that holds the value: right for every kind of memory.
HIPSYNTH_FP16_FN __half2 atomicAdd(__half2* address, __half2 value) {
  unsigned int* word = reinterpret_cast<unsigned int*>(address);
  unsigned int seen = *word, assumed;
  do {
    assumed = seen;
    unsigned int sum = hipsynth_fp16::bits(__hadd2(hipsynth_fp16::from_bits<__half2>(assumed), value));
    seen = atomicCAS(word, assumed, sum);
  } while (seen != assumed);
  return hipsynth_fp16::from_bits<__half2>(assumed);
}
HIPSYNTH_FP16_FN __half atomicAdd(__half* address, __half value) {
  size_t place = reinterpret_cast<size_t>(address);
  unsigned int* word = reinterpret_cast<unsigned int*>(place & ~static_cast<size_t>(3));
  unsigned int shift = (place & 2) != 0 ? 16 : 0;
  unsigned int seen = *word, assumed;
  do {
    assumed = seen;
    unsigned int sum = hipsynth_fp16::bits(__hadd(hipsynth_fp16::from_bits<__half>(assumed >> shift), value));
    seen = atomicCAS(word, assumed, (assumed & ~(0xffffu << shift)) | (sum << shift));
  } while (seen != assumed);
  return hipsynth_fp16::from_bits<__half>(assumed >> shift);
}
// One packed instruction where the architecture has it for any address (gfx942, gfx950), as in HIP's own header.
HIPSYNTH_FP16_FN __half2 unsafeAtomicAdd(__half2* address, __half2 value) {
#if __has_builtin(__builtin_amdgcn_flat_atomic_fadd_v2f16)
  __2f16 old = __builtin_amdgcn_flat_atomic_fadd_v2f16(reinterpret_cast<__2f16*>(address),
                                                       hipsynth_fp16::from_bits<__2f16>(hipsynth_fp16::bits(value)));
  return hipsynth_fp16::from_bits<__half2>(hipsynth_fp16::bits(old));
#else
  return atomicAdd(address, value);
#endif
}
#undef HIPSYNTH_FP16_FN

// Operators for host code, where the older header has them for the device alone.
#define HIPSYNTH_FP16_OPERATORS(sign)                                             \
  static __host__ inline __half operator sign(const __half& a, const __half& b) { \
    return __half(static_cast<float>(a) sign static_cast<float>(b));              \
  }                                                                               \
  static __host__ inline __half& operator sign## = (__half & a, const __half& b) { return a = a sign b; }
HIPSYNTH_FP16_OPERATORS(+)
HIPSYNTH_FP16_OPERATORS(-)
HIPSYNTH_FP16_OPERATORS(*)
HIPSYNTH_FP16_OPERATORS(/)
#undef HIPSYNTH_FP16_OPERATORS
#define HIPSYNTH_FP16_COMPARISON(sign)                                          \
  static __host__ inline bool operator sign(const __half& a, const __half& b) { \
    return static_cast<float>(a) sign static_cast<float>(b);                    \
  }
HIPSYNTH_FP16_COMPARISON(==)
HIPSYNTH_FP16_COMPARISON(!=)
HIPSYNTH_FP16_COMPARISON(<)
HIPSYNTH_FP16_COMPARISON(<=)
HIPSYNTH_FP16_COMPARISON(>)
HIPSYNTH_FP16_COMPARISON(>=)
#undef HIPSYNTH_FP16_COMPARISON
static __host__ inline __half operator-(const __half& a) { return __half(-static_cast<float>(a)); }
static __host__ inline __half __ushort_as_half(unsigned short bits) {
  __half_raw raw;
  __builtin_memcpy(&raw, &bits, sizeof(raw));
  return raw;
}

#define HIPRT_INF_FP16 __ushort_as_half(static_cast<unsigned short>(0x7C00))
#define HIPRT_MAX_NORMAL_FP16 __ushort_as_half(static_cast<unsigned short>(0x7BFF))
#define HIPRT_MIN_DENORM_FP16 __ushort_as_half(static_cast<unsigned short>(0x0001))
#define HIPRT_NAN_FP16 __ushort_as_half(static_cast<unsigned short>(0x7FFF))
#define HIPRT_NEG_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x8000))
#define HIPRT_ONE_FP16 __ushort_as_half(static_cast<unsigned short>(0x3C00))
#define HIPRT_ZERO_FP16 __ushort_as_half(static_cast<unsigned short>(0x0000))

#endif

#endif  // HIPSYNTH_HIP_FP16_H
