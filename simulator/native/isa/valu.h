// The lane loop of the vector ALU. An opcode is a struct Op with operand types D, E (mask result), A, B, C, X and a
// static function `lane` (or `vec`, see vector.h); lanes, EXEC and modifiers are handled only here and in general.cpp.
#pragma once

#include "mode.h"
#include "operands.h"

namespace HIPSYNTH_ISA {

// Instructions with SDWA, DPP, op_sel, clamp or omod, or any under a non-default MODE (general.cpp).
void general(Wave& w, const Inst& in);

// Properties of an opcode that the general path needs.
struct Shape {
  Cls d, a, b, c, x;
  uint8_t rows_d, rows[4];
  bool has_mask, floating, halves, keeps_high, reads_dst, writes_exec;
};

template <class Op>
struct ShapeOf {
  // Types that only carry float bits (F32Bits) do not count: MODE does not affect them.
  template <class Ty>
  static constexpr bool is_float() {
    return std::is_floating_point_v<typename Ty::T> || std::is_base_of_v<PkF16, Ty> || std::is_same_v<Ty, PkF32>;
  }
  static constexpr bool kFloating = is_float<typename Op::D>() || is_float<typename Op::A>();
  static constexpr bool kHalves = kFloating && (Op::D::kCls == Cls::f16 || Op::D::kCls == Cls::pk16);
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
      kHalves,
      Op::kKeepsHigh,
      Op::kReadsDst,
      Op::kWritesExec,
  };
};

// Whether the plain handlers are sufficient under MODE.
template <class Op>
inline bool usual_mode(const FpMode& m) {
  return !ShapeOf<Op>::kFloating || (default_mode(m) && !(ShapeOf<Op>::kHalves && m.fp16_ovfl));
}

template <class Op>
void valu(Wave& w, const Inst& in) {
  using D = typename Op::D;
  using E = typename Op::E;
  using A = typename Op::A;
  using B = typename Op::B;
  using C = typename Op::C;
  using X = typename Op::X;
  if (!usual_mode<Op>(w.mode)) [[unlikely]]
    return general(w, in);
  constexpr int kRoom = kLanes;
  alignas(64) uint32_t ba[A::kRows * kRoom + 1], bb[B::kRows * kRoom + 1], bc[C::kRows * kRoom + 1],
      bx[X::kRows * kRoom + 1], be[E::kRows * kRoom + 1], tmp[D::kRows * kRoom + 1];
  const uint32_t* a = source<A>(w, in.src[0], ba);
  const uint32_t* b = source<B>(w, in.src[1], bb);
  const uint32_t* c = source<C>(w, in.src[2], bc);
  const uint32_t* x = source<X>(w, in.src[3], bx);
  const uint64_t exec = w.exec();
  uint32_t* dst = D::kRows ? w.row(row_index(w, in.dst)) : nullptr;
  uint32_t* fresh = tmp;
  asm("" : "+r"(fresh));  // stack-relative loads and stores would be mispredicted as dependent
  uint32_t* out = exec == ~0ull ? dst : fresh;
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
      blend(dst, fresh, exec);
      if constexpr (D::kRows == 2) blend(dst + kLanes, fresh + kLanes, exec);
    }
  }
  if constexpr (E::kRows != 0) {
    const uint64_t m = pack_mask(be) & exec;
    if (in.sdst.kind == OperandKind::sgpr) w.set_sgpr64(in.sdst.reg, m);
    if constexpr (Op::kWritesExec) w.set_exec(m);
  }
}

}  // namespace HIPSYNTH_ISA
