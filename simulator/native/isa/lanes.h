// Reads and writes one lane's value of each operand type from and to register rows.
//
// A row is 64 consecutive uint32_t, one per lane; a 64-bit operand is two adjacent rows (low, high), so the high word
// of lane i is p[64 + i]. Lane i only ever accesses index i of a row, so the vectorised loops are safe even if
// destination and source rows coincide.
#pragma once

#include "core/wave.h"
#include "division.h"
#include "numerics.h"
#include "small_floats.h"

namespace HIPSYNTH_ISA {

using hipsynth::kLanes;

// Sign-bit handling and conversion class of an operand; determines neg/abs/sext, clamp, omod and op_sel.
enum class Cls : uint8_t { bits32, bits64, f16, f32, f64, i16, u16, pk16, pkb16, pk32, mask };

struct U32 {
  using T = uint32_t;
  static constexpr int kRows = 1;
  static constexpr Cls kCls = Cls::bits32;
  static T load(const uint32_t* p, int i) { return p[i]; }
  static void store(uint32_t* p, int i, T v) { p[i] = v; }
};
struct I32 : U32 {
  using T = int32_t;
  static T load(const uint32_t* p, int i) { return static_cast<int32_t>(p[i]); }
  static void store(uint32_t* p, int i, T v) { p[i] = static_cast<uint32_t>(v); }
};
struct F32 : U32 {
  using T = float;
  static constexpr Cls kCls = Cls::f32;
  static T load(const uint32_t* p, int i) { return f32(p[i]); }
  static void store(uint32_t* p, int i, T v) { p[i] = bits(v); }
};
struct U64 {
  using T = uint64_t;
  static constexpr int kRows = 2;
  static constexpr Cls kCls = Cls::bits64;
  static T load(const uint32_t* p, int i) { return p[i] | static_cast<uint64_t>(p[kLanes + i]) << 32; }
  static void store(uint32_t* p, int i, T v) {
    p[i] = static_cast<uint32_t>(v);
    p[kLanes + i] = static_cast<uint32_t>(v >> 32);
  }
};
struct I64 : U64 {
  using T = int64_t;
  static T load(const uint32_t* p, int i) { return static_cast<int64_t>(U64::load(p, i)); }
  static void store(uint32_t* p, int i, T v) { U64::store(p, i, static_cast<uint64_t>(v)); }
};
struct F64 : U64 {
  using T = double;
  static constexpr Cls kCls = Cls::f64;
  static T load(const uint32_t* p, int i) { return f64(U64::load(p, i)); }
  static void store(uint32_t* p, int i, T v) { U64::store(p, i, bits(v)); }
};
// 16-bit values are in the low half. f16 is computed in float and rounded once more on the store (exact for + - * /
// sqrt since 24 >= 2 * 11 + 2; fma has its own routine).
struct F16 : U32 {
  using T = float;
  static constexpr Cls kCls = Cls::f16;
  static T load(const uint32_t* p, int i) { return half_to_float(p[i] & 0xffffu); }
  static void store(uint32_t* p, int i, T v) { p[i] = float_to_half(v); }
};
struct F16S : F16 {
  static T load(const uint32_t* p, int i) { return half_to_float_exact(p[i] & 0xffffu); }
};
struct U16 : U32 {
  static constexpr Cls kCls = Cls::u16;
  static T load(const uint32_t* p, int i) { return p[i] & 0xffffu; }
  static void store(uint32_t* p, int i, T v) { p[i] = v & 0xffffu; }
};
struct I16 : I32 {
  static constexpr Cls kCls = Cls::i16;
  static T load(const uint32_t* p, int i) { return static_cast<int32_t>(p[i] << 16) >> 16; }
  static void store(uint32_t* p, int i, T v) { p[i] = static_cast<uint32_t>(v) & 0xffffu; }
};
// Two halves of one register, or two registers of a pair, computed separately.
template <class V>
struct Two {
  V lo, hi;
};
struct PkF16 : U32 {
  using T = Two<float>;
  static constexpr Cls kCls = Cls::pk16;
  static T load(const uint32_t* p, int i) { return {half_to_float(p[i] & 0xffffu), half_to_float(p[i] >> 16)}; }
  static void store(uint32_t* p, int i, T v) { p[i] = float_to_half(v.lo) | float_to_half(v.hi) << 16; }
};
struct PkF16S : PkF16 {
  static T load(const uint32_t* p, int i) {
    return {half_to_float_exact(p[i] & 0xffffu), half_to_float_exact(p[i] >> 16)};
  }
};
struct PkBf16 : U32 {
  using T = Two<float>;
  static constexpr Cls kCls = Cls::pkb16;
  static T load(const uint32_t* p, int i) { return {bf16_to_float(p[i] & 0xffffu), bf16_to_float(p[i] >> 16)}; }
};
struct PkU16 : U32 {
  using T = Two<uint32_t>;
  static constexpr Cls kCls = Cls::pk16;
  static T load(const uint32_t* p, int i) { return {p[i] & 0xffffu, p[i] >> 16}; }
  static void store(uint32_t* p, int i, T v) { p[i] = (v.lo & 0xffffu) | v.hi << 16; }
};
struct PkI16 : U32 {
  using T = Two<int32_t>;
  static constexpr Cls kCls = Cls::pk16;
  static T load(const uint32_t* p, int i) {
    return {static_cast<int32_t>(p[i] << 16) >> 16, static_cast<int32_t>(p[i]) >> 16};
  }
  static void store(uint32_t* p, int i, T v) {
    p[i] = (static_cast<uint32_t>(v.lo) & 0xffffu) | static_cast<uint32_t>(v.hi) << 16;
  }
};
struct PkF32 {
  using T = Two<float>;
  static constexpr int kRows = 2;
  static constexpr Cls kCls = Cls::pk32;
  static T load(const uint32_t* p, int i) { return {f32(p[i]), f32(p[kLanes + i])}; }
  static void store(uint32_t* p, int i, T v) {
    p[i] = bits(v.lo);
    p[kLanes + i] = bits(v.hi);
  }
};
struct PkU32 : U64 {
  using T = Two<uint32_t>;
  static constexpr Cls kCls = Cls::pk32;
  static T load(const uint32_t* p, int i) { return {p[i], p[kLanes + i]}; }
  static void store(uint32_t* p, int i, T v) {
    p[i] = v.lo;
    p[kLanes + i] = v.hi;
  }
};
// One bit per lane of an SGPR pair, widened to 0 or 1.
struct Mask : U32 {
  static constexpr Cls kCls = Cls::mask;
};
// Absent operand.
struct None {
  using T = uint32_t;
  static constexpr int kRows = 0;
  static constexpr Cls kCls = Cls::bits32;
  static T load(const uint32_t*, int) { return 0; }
  static void store(uint32_t*, int, T) {}
};

}  // namespace HIPSYNTH_ISA
