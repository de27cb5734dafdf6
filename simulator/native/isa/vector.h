// The vector ALU for rows whose statement also works on whole vectors (`vec` in the tables). Sources are loaded into
// vector registers, scalars are broadcast; signs, selects of packed f32 and blending under EXEC are done in registers.
// valu() in valu.h goes through memory for all of these.
#pragma once

#include <algorithm>

#include "valu.h"

namespace HIPSYNTH_ISA {

using V16f = float __attribute__((ext_vector_type(16), aligned(4)));
using V8u = uint64_t __attribute__((ext_vector_type(8), aligned(8)));
using V8i = int64_t __attribute__((ext_vector_type(8), aligned(8)));
using V8d = double __attribute__((ext_vector_type(8), aligned(8)));

// Names that statements use on vectors.
template <class V>
inline V fma(V a, V b, V c) {
  return __builtin_elementwise_fma(a, b, c);
}
inline V16u as_u(V16i v) { return std::bit_cast<V16u>(v); }
// Never returns -0: see to_convert() in numerics.h.
inline V16f to_float(V16u v) {
  V16u bits = std::bit_cast<V16u>(__builtin_convertvector(v, V16f));
#ifndef __AVX512F__
  pin(bits);  // otherwise the compiler, unaware of the rounding mode, assumes a clear sign
  bits &= 0x7fffffff;
#endif
  return std::bit_cast<V16f>(bits);
}

// Like vmax() and vmin() of numerics.h; I is the vector of integers of the same width.
template <class V>
inline constexpr int kQuietBit = std::is_same_v<V, V16f> ? 22 : 51;
template <class I, class V>
inline I signalling_lanes(V v) {
  return (v != v) & ((std::bit_cast<I>(v) >> kQuietBit<V> & 1) == 0);
}
template <class I, class V>
inline V extreme(V a, V b, I pick_a, bool ieee) {
  V r = pick_a ? a : b;
  r = (b != b) ? a : r;
  r = (a != a) ? b : r;
  if (!ieee) return r;
  const I quiet_bit = I(1) << kQuietBit<V>;
  r = signalling_lanes<I>(b) ? std::bit_cast<V>(std::bit_cast<I>(b) | quiet_bit) : r;
  return signalling_lanes<I>(a) ? std::bit_cast<V>(std::bit_cast<I>(a) | quiet_bit) : r;
}
template <class I, class V>
inline V larger(V a, V b, bool ieee) {
  return extreme<I>(a, b, (a > b) | ((a == b) & (std::bit_cast<I>(a) >= 0)), ieee);
}
template <class I, class V>
inline V smaller(V a, V b, bool ieee) {
  return extreme<I>(a, b, (a < b) | ((a == b) & (std::bit_cast<I>(a) < 0)), ieee);
}
inline V16f vmax(V16f a, V16f b, bool ieee) { return larger<V16i>(a, b, ieee); }
inline V16f vmin(V16f a, V16f b, bool ieee) { return smaller<V16i>(a, b, ieee); }
inline V8d vmax(V8d a, V8d b, bool ieee) { return larger<V8i>(a, b, ieee); }
inline V8d vmin(V8d a, V8d b, bool ieee) { return smaller<V8i>(a, b, ieee); }
inline V16f vmed3(V16f a, V16f b, V16f c, bool ieee) {
  const V16f ab = vmax(a, b, ieee), top = vmax(ab, c, ieee);
  const V16f median = top == a ? vmax(b, c, ieee) : top == b ? vmax(a, c, ieee) : ab;
  return ((a != a) | (b != b) | (c != c)) ? vmin(vmin(a, b, ieee), c, ieee) : median;
}

// Source of an operand's lanes: a row, or one value (or mask) for all.
struct Place {
  const uint32_t* row;
  uint64_t scalar;
};
template <class Ty, bool kPlain>
[[gnu::always_inline]] inline Place place_of(const Wave& w, const Operand& o) {
  if constexpr (Ty::kRows == 0) return {nullptr, 0};
  constexpr int kScalarRows = Ty::kCls == Cls::mask ? 2 : std::max(Ty::kRows, 1);
  if constexpr (kPlain) {
    if (Ty::kCls != Cls::mask && o.kind == OperandKind::vgpr) return {w.row(o.reg), 0};
    const void* at = o.kind == OperandKind::sgpr ? static_cast<const void*>(&w.sgpr[o.reg]) : &o.value;
    if constexpr (kScalarRows == 1) {
      uint32_t v;
      std::memcpy(&v, at, sizeof v);
      return {nullptr, v};
    } else {
      Place p{nullptr, 0};
      std::memcpy(&p.scalar, at, sizeof p.scalar);
      return p;
    }
  } else {
    if (o.kind == OperandKind::vgpr || o.kind == OperandKind::agpr) return {w.row(row_index(w, o)), 0};
    return {nullptr, read_scalar<kScalarRows>(w, o)};
  }
}

// All lanes of an operand of up to two rows.
template <int kRows>
struct Fetched {
  V16u v[kRows][kChunks];
};

// Applies abs, then neg, to the sign bits, like apply_sign().
template <Cls kCls, int kRows>
[[gnu::always_inline]] inline void change_sign(Fetched<kRows>* f, bool neg, bool abs) {
  constexpr uint32_t kBit = kCls == Cls::f16 || kCls == Cls::i16 || kCls == Cls::u16 ? 0x8000u : 0x80000000u;
  const uint32_t keep = abs ? ~kBit : ~0u, flip = neg ? kBit : 0u;
  V16u* row = f->v[kCls == Cls::f64 || kCls == Cls::bits64 ? kRows - 1 : 0];
  for (int k = 0; k < kChunks; ++k) row[k] = (row[k] & keep) ^ flip;
}

// Loads source `slot`. For a packed pair, op_sel and op_sel_hi select the word for each result; neg_lo and neg_hi
// negate.
template <class Ty, bool kPlain>
[[gnu::always_inline]] inline Fetched<Ty::kRows> fetch_lanes(const Place& from, const Inst& in, int slot) {
  Fetched<Ty::kRows> f;
  if constexpr (Ty::kCls == Cls::mask) {
    for (int k = 0; k < kChunks; ++k) f.v[0][k] = as_u(widen_bits(static_cast<uint32_t>(from.scalar >> k * kChunk)));
  } else if constexpr (Ty::kRows != 0) {
    constexpr bool kPair = Ty::kCls == Cls::pk32;
    for (int r = 0; r < Ty::kRows; ++r) {
      const int word = kPair && !kPlain ? (r == 0 ? in.op_sel : in.op_sel_hi) >> slot & 1 : r;
      const V16u same = static_cast<uint32_t>(from.scalar >> 32 * word);
      for (int k = 0; k < kChunks; ++k) {
        f.v[r][k] = from.row ? load_chunk(from.row + word * kLanes + k * kChunk) : same;
      }
    }
    const Operand& o = in.src[slot];
    if (!kPlain && !kPair && (o.neg | o.abs)) change_sign<Ty::kCls, Ty::kRows>(&f, o.neg, o.abs);
    if constexpr (kPair && !kPlain) {
      if (in.neg_lo | in.neg_hi) {
        for (int r = 0; r < 2; ++r) {
          const uint32_t flip = ((r == 0 ? in.neg_lo : in.neg_hi) >> slot & 1u) << 31;
          for (int k = 0; k < kChunks; ++k) f.v[r][k] ^= flip;
        }
      }
    }
  }
  return f;
}

// Splits 64-bit operands into two vectors of eight, in the lane order of 128-bit unpacking; extends 32-bit operands
// that are combined with them.
inline V16u unpack_low(V16u a, V16u b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline V16u unpack_high(V16u a, V16u b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
inline V16u even_words(V16u a, V16u b) {
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
}
inline V16u odd_words(V16u a, V16u b) {
  return __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

// Vector types of an operand's lanes: sixteen of 32 bits, eight of 64.
template <class Ty>
inline constexpr bool kFloatLanes = std::is_same_v<typename Ty::T, float> || std::is_same_v<Ty, PkF32>;
template <class Ty>
inline constexpr bool kSigned = std::is_same_v<typename Ty::T, int32_t> || std::is_same_v<typename Ty::T, int64_t>;
template <class Ty>
using Narrow =
    std::conditional_t<Ty::kCls == Cls::mask || kSigned<Ty>, V16i, std::conditional_t<kFloatLanes<Ty>, V16f, V16u>>;
template <class Ty>
using Wide = std::conditional_t<std::is_same_v<typename Ty::T, double>, V8d, std::conditional_t<kSigned<Ty>, V8i, V8u>>;

template <class Ty>
[[gnu::always_inline]] inline Narrow<Ty> narrow_lanes(const Fetched<Ty::kRows>& f, int row, int k) {
  if constexpr (Ty::kRows == 0)
    return {};
  else
    return std::bit_cast<Narrow<Ty>>(f.v[Ty::kRows == 2 ? row : 0][k]);
}
template <class Ty>
[[gnu::always_inline]] inline Wide<Ty> wide_lanes(const Fetched<Ty::kRows>& f, int half, int k) {
  if constexpr (Ty::kRows == 0) {
    return {};
  } else {
    const V16u lo = f.v[0][k];
    V16u hi{};
    if constexpr (Ty::kRows == 2)
      hi = f.v[1][k];
    else if constexpr (kSigned<Ty>)
      hi = std::bit_cast<V16u>(std::bit_cast<V16i>(lo) >> 31);
    return std::bit_cast<Wide<Ty>>(half == 0 ? unpack_low(lo, hi) : unpack_high(lo, hi));
  }
}

// Executes the statement on chunk k; adds the bits of a mask result to `mask`.
template <class Op, class FA, class FB, class FC>
[[gnu::always_inline]] inline void narrow_chunk(const FA& a, const FB& b, const FC& c, int k, Fetched<Op::D::kRows>* d,
                                                uint64_t* mask, const FpMode& mode) {
  for (int row = 0; row < std::max(Op::D::kRows, 1); ++row) {
    Narrow<typename Op::D> r;
    V16i e{};
    Op::vec(narrow_lanes<typename Op::A>(a, row, k), narrow_lanes<typename Op::B>(b, row, k),
            narrow_lanes<typename Op::C>(c, row, k), r, e, mode);
    if constexpr (Op::D::kRows != 0) d->v[row][k] = std::bit_cast<V16u>(r);
    if constexpr (Op::E::kRows != 0) *mask |= static_cast<uint64_t>(narrow_bits(e)) << k * kChunk;
  }
}
template <class Op, class FA, class FB, class FC>
[[gnu::always_inline]] inline void wide_chunk(const FA& a, const FB& b, const FC& c, int k, Fetched<Op::D::kRows>* d,
                                              uint64_t* mask, const FpMode& mode) {
  V16u part[2], set[2];
  for (int h = 0; h < 2; ++h) {
    Wide<typename Op::D> r;
    V8i e{};
    Op::vec(wide_lanes<typename Op::A>(a, h, k), wide_lanes<typename Op::B>(b, h, k),
            wide_lanes<typename Op::C>(c, h, k), r, e, mode);
    if constexpr (Op::D::kRows != 0) part[h] = std::bit_cast<V16u>(r);
    set[h] = std::bit_cast<V16u>(e);
  }
  if constexpr (Op::D::kRows != 0) {
    d->v[0][k] = even_words(part[0], part[1]);
    d->v[1][k] = odd_words(part[0], part[1]);
  }
  if constexpr (Op::E::kRows != 0) {
    const V16i both = std::bit_cast<V16i>(even_words(set[0], set[1]));
    *mask |= static_cast<uint64_t>(narrow_bits(both)) << k * kChunk;
  }
}

template <int kRows, bool kPlain>
[[gnu::always_inline]] inline void write_lanes(uint32_t* dst, const Fetched<kRows>& d, uint64_t exec) {
#pragma unroll
  for (int at = 0; at < kRows * kChunks; ++at) {
    const V16u& v = d.v[at / kChunks][at % kChunks];
    if constexpr (kPlain)
      store_chunk(dst + at * kChunk, v);
    else
      blend_chunk(dst + at * kChunk, v, static_cast<uint32_t>(exec >> at % kChunks * kChunk) & 0xffffu);
  }
}

// kPlain: Inst::plain, and all lanes are active.
template <class Op, bool kPlain>
[[gnu::always_inline]] inline void run_vector(Wave& w, const Inst& in) {
  using D = typename Op::D;
  using A = typename Op::A;
  using B = typename Op::B;
  using C = typename Op::C;
  static_assert(Op::X::kRows == 0 && !Op::kKeepsHigh && !Op::kReadsDst);
  constexpr bool kWide = (A::kRows == 2 || B::kRows == 2 || C::kRows == 2 || D::kRows == 2) && A::kCls != Cls::pk32;
  static_assert(!kWide || D::kRows != 1, "no narrowing of 64-bit vectors here");
  const Place pa = place_of<A, kPlain>(w, in.src[0]), pb = place_of<B, kPlain>(w, in.src[1]),
              pc = place_of<C, kPlain>(w, in.src[2]);
  const auto a = fetch_lanes<A, kPlain>(pa, in, 0);
  const auto b = fetch_lanes<B, kPlain>(pb, in, 1);
  const auto c = fetch_lanes<C, kPlain>(pc, in, 2);
  const FpMode mode = w.mode;
  Fetched<D::kRows> d;
  uint64_t mask = 0;
#pragma unroll
  for (int k = 0; k < kChunks; ++k) {
    if constexpr (kWide)
      wide_chunk<Op>(a, b, c, k, &d, &mask, mode);
    else
      narrow_chunk<Op>(a, b, c, k, &d, &mask, mode);
  }
  const uint64_t exec = kPlain ? ~0ull : w.exec();
  if constexpr (D::kRows != 0) {
    write_lanes<D::kRows, kPlain>(w.row(kPlain ? in.dst.reg : row_index(w, in.dst)), d, exec);
  }
  if constexpr (Op::E::kRows != 0) {
    mask &= exec;
    if (in.sdst.kind == OperandKind::sgpr) w.set_sgpr64(in.sdst.reg, mask);
    if constexpr (Op::kWritesExec) w.set_exec(mask);
  }
}

template <class Op>
[[gnu::noinline]] void valu_any(Wave& w, const Inst& in) {
  if (!usual_mode<Op>(w.mode)) return general(w, in);
  run_vector<Op, false>(w, in);
}

template <class Op>
void valu_vector(Wave& w, const Inst& in) {
  const bool usual = in.plain && w.exec() == ~0ull && usual_mode<Op>(w.mode);
  if (!usual) return valu_any<Op>(w, in);
  run_vector<Op, true>(w, in);
}

}  // namespace HIPSYNTH_ISA
