// Includes everything that the generated handlers use.
#pragma once

#include "isa/mfma.h"
#include "isa/mx_mfma.h"
#include "isa/salu.h"
#include "isa/scaled.h"
#include "isa/special.h"
#include "isa/table.h"
#include "isa/valu.h"
#include "isa/vector.h"

namespace HIPSYNTH_ISA {

using ::Handlers;

// 32 bits that take float modifiers but no float arithmetic; 64 and 16 bits likewise.
struct F32Bits : U32 {
  static constexpr Cls kCls = Cls::f32;
};
struct F64Bits : U64 {
  static constexpr Cls kCls = Cls::f64;
};
struct H16 : U16 {
  static constexpr Cls kCls = Cls::f16;
};

// Short names used by the table's statements.
template <class T>
inline T imin(T a, T b) {
  return a < b ? a : b;
}
template <class T>
inline T imax(T a, T b) {
  return a > b ? a : b;
}
inline int32_t wrap(int64_t v) { return static_cast<int32_t>(v); }
inline int32_t saturate32(int64_t v) {
  return static_cast<int32_t>(v > 0x7fffffff ? 0x7fffffff : v < -0x80000000ll ? -0x80000000ll : v);
}
inline uint32_t limit_u32(uint64_t v) { return v > ~0u ? ~0u : static_cast<uint32_t>(v); }
inline int32_t saturate16(int32_t v) { return v > 32767 ? 32767 : v < -32768 ? -32768 : v; }
inline uint32_t popcount(uint32_t v) { return static_cast<uint32_t>(std::popcount(v)); }
inline int32_t popcount64(uint64_t v) { return std::popcount(v); }
// Cube map face of direction (x, y, z): 0 and 1 if x is the major axis, 2 and 3 for y, 4 and 5 for z.
inline float cube_face(float x, float y, float z) {
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  if (az >= ax && az >= ay) return z < 0.0f ? 5.0f : 4.0f;
  if (ay >= ax) return y < 0.0f ? 3.0f : 2.0f;
  return x < 0.0f ? 1.0f : 0.0f;
}
inline uint64_t quad_any(uint64_t v) {
  uint64_t r = 0;
  for (int k = 0; k < 64; k += 4) r |= ((v >> k) & 15) ? 15ull << k : 0ull;
  return r;
}
inline uint32_t class_f32(uint32_t x) { return fp_class(f32(x), signalling(f32(x)), denormal(f32(x))); }
inline uint32_t class_f64(uint64_t x) { return fp_class(f64(x), signalling(f64(x)), denormal(f64(x))); }
inline uint32_t half_class(uint32_t h) {
  const uint32_t e = (h >> 10) & 31, m = h & 1023;
  const bool s = h >> 15;
  if (e == 31 && m != 0) return m & 512 ? 2u : 1u;
  if (e == 31) return s ? 4u : 512u;
  if (e != 0) return s ? 8u : 256u;
  return m != 0 ? (s ? 16u : 128u) : (s ? 32u : 64u);
}
// The clamp bit on a result that is converted to fewer bits.
inline float unit_interval(float x, const FpMode& mode) {
  if (x != x) return mode.dx10_clamp ? 0.0f : x;
  return x <= 0.0f ? 0.0f : x > 1.0f ? 1.0f : x;
}
inline uint32_t norm_i16(float x) {
  const float c = x != x ? 0.0f : x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x;
  return static_cast<uint32_t>(static_cast<int32_t>(__builtin_roundevenf(c * 32767.0f))) & 0xffffu;
}
inline uint32_t norm_u16(float x) {
  const float c = x > 0.0f ? (x > 1.0f ? 1.0f : x) : 0.0f;
  return static_cast<uint32_t>(static_cast<int32_t>(__builtin_roundevenf(c * 65535.0f))) & 0xffffu;
}

}  // namespace HIPSYNTH_ISA
