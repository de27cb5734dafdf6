// The scalar ALU: one value, no EXEC. `lane` functions may set `scc` and access the wave.
#pragma once

#include "operands.h"

namespace HIPSYNTH_ISA {

template <class Ty>
inline typename Ty::T scalar_source(const Wave& w, const Operand& o) {
  if constexpr (Ty::kRows == 0) {
    return 0;
  } else {
    const uint64_t v = read_scalar<Ty::kRows>(w, o);
    if constexpr (Ty::kRows == 2)
      return std::bit_cast<typename Ty::T>(v);
    else
      return static_cast<typename Ty::T>(static_cast<uint32_t>(v));
  }
}

template <class Op>
void salu(Wave& w, const Inst& in) {
  using D = typename Op::D;
  const auto a = scalar_source<typename Op::A>(w, in.src[0]);
  const auto b = scalar_source<typename Op::B>(w, in.src[1]);
  const auto c = scalar_source<typename Op::C>(w, in.src[2]);
  typename D::T d{};
  bool scc = w.scc;
  Op::lane(a, b, c, static_cast<int32_t>(in.imm), d, scc, w);
  w.scc = scc;
  if constexpr (D::kRows != 0) {
    if (in.dst.kind != OperandKind::sgpr) return;
    if constexpr (D::kRows == 2)
      w.set_sgpr64(in.dst.reg, static_cast<uint64_t>(d));
    else
      w.sgpr[in.dst.reg] = static_cast<uint32_t>(d);
  }
}

}  // namespace HIPSYNTH_ISA
