// The lane loop of the vector ALU. An opcode is a struct Op with operand types D, E (mask result), A, B, C, X and a
// static function `lane`; everything about lanes, EXEC and modifiers is here and in general.cpp.
#pragma once

#include "operands.h"

namespace HIPSYNTH_ISA {

// Instructions with SDWA, DPP, op_sel, clamp or omod, or any under a non-default MODE (general.cpp).
void general(Wave& w, const Inst& in);

// round and denorm fields of MODE all at their defaults (nearest even, denormals kept).
inline bool default_mode(const FpMode& m) {
  uint32_t v;
  std::memcpy(&v, &m, 4);
  return v == 0x03030000u;
}

// What the general path needs to know about an opcode.
struct Shape {
  Cls d, a, b, c, x;
  uint8_t rows_d, rows[4];
  bool has_mask, floating, keeps_high, reads_dst, writes_exec;
};

template <class Op>
struct ShapeOf {
  template <class Ty>
  static constexpr bool is_float() {
    return Ty::kCls == Cls::f16 || Ty::kCls == Cls::f32 || Ty::kCls == Cls::f64 || std::is_base_of_v<PkF16, Ty> ||
           std::is_same_v<Ty, PkF32>;
  }
  static constexpr bool kFloating = is_float<typename Op::D>() || is_float<typename Op::A>();
  static constexpr Shape kShape{
      Op::D::kCls,
      Op::A::kCls,
      Op::B::kCls,
      Op::C::kCls,
      Op::X::kCls,
      Op::D::kRows,
      {Op::A::kRows, Op::B::kRows, Op::C::kRows, Op::X::kRows},
      Op::E::kRows != 0,
      kFloating,
      Op::kKeepsHigh,
      Op::kReadsDst,
      Op::kWritesExec,
  };
};

template <class Op>
void valu(Wave& w, const Inst& in) {
  using D = typename Op::D;
  using E = typename Op::E;
  using A = typename Op::A;
  using B = typename Op::B;
  using C = typename Op::C;
  using X = typename Op::X;
  if constexpr (ShapeOf<Op>::kFloating) {
    if (!default_mode(w.mode)) [[unlikely]]
      return general(w, in);
  }
  constexpr int kRoom = kLanes;
  alignas(64) uint32_t ba[A::kRows * kRoom + 1], bb[B::kRows * kRoom + 1], bc[C::kRows * kRoom + 1],
      bx[X::kRows * kRoom + 1], be[E::kRows * kRoom + 1], tmp[D::kRows * kRoom + 1];
  const uint32_t* a = source<A>(w, in.src[0], ba);
  const uint32_t* b = source<B>(w, in.src[1], bb);
  const uint32_t* c = source<C>(w, in.src[2], bc);
  const uint32_t* x = source<X>(w, in.src[3], bx);
  const uint64_t exec = w.exec();
  uint32_t* dst = D::kRows ? w.row(row_index(w, in.dst)) : nullptr;
  uint32_t* out = exec == ~0ull ? dst : tmp;
  const FpMode mode = w.mode;
  HIPSYNTH_LANE_LOOP
  for (int i = 0; i < kLanes; ++i) {
    typename D::T d{};
    if constexpr (Op::kReadsDst) d = D::load(dst, i);
    uint32_t e = 0;
    Op::lane(A::load(a, i), B::load(b, i), C::load(c, i), X::load(x, i), d, e, i, mode);
    if constexpr (Op::kKeepsHigh) {
      const uint32_t high = dst[i] & 0xffff0000u;
      D::store(out, i, d);
      out[i] |= high;
    } else {
      D::store(out, i, d);
    }
    if constexpr (E::kRows != 0) be[i] = e;
  }
  if constexpr (D::kRows != 0) {
    if (exec != ~0ull) {
      blend(dst, tmp, exec);
      if constexpr (D::kRows == 2) blend(dst + kLanes, tmp + kLanes, exec);
    }
  }
  if constexpr (E::kRows != 0) {
    const uint64_t m = pack_mask(be) & exec;
    if (in.sdst.kind == OperandKind::sgpr) w.set_sgpr64(in.sdst.reg, m);
    if constexpr (Op::kWritesExec) w.set_exec(m);
  }
}

// Eight f64 lanes, and sixteen 32-bit words of a row.
using V8d = double __attribute__((ext_vector_type(8)));
using V16u = uint32_t __attribute__((ext_vector_type(16), aligned(4)));

struct V16d {
  V8d even, odd;  // lanes in the order that 128-bit unpacking gives; the same for every operand
};
inline V16d load16(const uint32_t* p) {
  V16u lo, hi;
  std::memcpy(&lo, p, sizeof lo);
  std::memcpy(&hi, p + kLanes, sizeof hi);
  const V16u a = __builtin_shufflevector(lo, hi, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  const V16u b = __builtin_shufflevector(lo, hi, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  return {std::bit_cast<V8d>(a), std::bit_cast<V8d>(b)};
}
inline void store16(uint32_t* p, const V16d& v) {
  const V16u a = std::bit_cast<V16u>(v.even), b = std::bit_cast<V16u>(v.odd);
  const V16u lo = __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
  const V16u hi = __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
  std::memcpy(p, &lo, sizeof lo);
  std::memcpy(p + kLanes, &hi, sizeof hi);
}

// valu() for rows whose operands are all f64: words are interleaved in registers instead of being widened.
template <class Op>
void valu_f64(Wave& w, const Inst& in) {
  if (!default_mode(w.mode)) [[unlikely]]
    return general(w, in);
  constexpr bool kThree = Op::C::kRows != 0;
  alignas(64) uint32_t ba[2 * kLanes], bb[2 * kLanes], bc[kThree ? 2 * kLanes : 1], tmp[2 * kLanes];
  const uint32_t* a = source<F64>(w, in.src[0], ba);
  const uint32_t* b = source<F64>(w, in.src[1], bb);
  const uint32_t* c = source<typename Op::C>(w, in.src[2], bc);
  const uint64_t exec = w.exec();
  uint32_t* dst = w.row(row_index(w, in.dst));
  uint32_t* out = exec == ~0ull ? dst : tmp;
  for (int i = 0; i < kLanes; i += 16) {
    const V16d va = load16(a + i), vb = load16(b + i);
    V16d vc{};
    if constexpr (kThree) vc = load16(c + i);
    store16(out + i, {Op::vec(va.even, vb.even, vc.even), Op::vec(va.odd, vb.odd, vc.odd)});
  }
  if (exec != ~0ull) {
    blend(dst, tmp, exec);
    blend(dst + kLanes, tmp + kLanes, exec);
  }
}

}  // namespace HIPSYNTH_ISA
