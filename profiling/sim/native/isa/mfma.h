// Matrix instructions: D[b] = A[b] x B[b] + C[b] for each block b.
//
// Register layout (AMD matrix instruction calculator; CDNA3 ISA section 7): an A element (block, i, k) is in lane
// i + M * (block + blocks * (k / per_lane)), position k % per_lane of the lane's registers; B likewise with j and N.
// Accumulators: 32-bit results come in groups of 4 rows per lane group, 64-bit ones in groups of 1.
// Arithmetic: products are added one k at a time with a fused multiply-add in the accumulator's type.
// The manuals do not specify the hardware's internal order and rounding, so sums that are not exact may differ there.
#pragma once

#include "operands.h"

namespace HIPSYNTH_ISA {

struct MfF32 {
  using V = float;
  static constexpr int kBits = 32;
  static V get(uint64_t v) { return f32(static_cast<uint32_t>(v)); }
};
struct MfXf32 {  // f32 rounded to 10 mantissa bits
  using V = float;
  static constexpr int kBits = 32;
  static V get(uint64_t v) {
    const uint32_t b = static_cast<uint32_t>(v);
    const bool special = (b & 0x7f800000u) == 0x7f800000u;
    return f32(special ? b : (b + 0xfffu + ((b >> 13) & 1u)) & 0xffffe000u);
  }
};
struct MfF16 {
  using V = float;
  static constexpr int kBits = 16;
  static V get(uint64_t v) { return half_to_float(static_cast<uint32_t>(v)); }
};
struct MfBf16 {
  using V = float;
  static constexpr int kBits = 16;
  static V get(uint64_t v) { return bf16_to_float(static_cast<uint32_t>(v)); }
};
struct MfI8 {
  using V = int32_t;
  static constexpr int kBits = 8;
  static V get(uint64_t v) { return static_cast<int8_t>(v); }
};
struct MfFp8 {
  using V = float;
  static constexpr int kBits = 8;
  static V get(uint64_t v) { return fp8_to_f32(static_cast<uint32_t>(v), 3, 8); }
};
struct MfBf8 {
  using V = float;
  static constexpr int kBits = 8;
  static V get(uint64_t v) { return fp8_to_f32(static_cast<uint32_t>(v), 2, 16); }
};
struct MfF64 {
  using V = double;
  static constexpr int kBits = 64;
  static V get(uint64_t v) { return f64(v); }
};

// Element `n` of a lane's packed registers starting at row p.
template <class Ty>
typename Ty::V packed_element(const uint32_t* p, int lane, int n) {
  if constexpr (Ty::kBits == 64) return Ty::get(p[lane] | static_cast<uint64_t>(p[kLanes + lane]) << 32);
  constexpr int kPer = 32 / (Ty::kBits > 32 ? 32 : Ty::kBits);
  const uint32_t word = p[(n / kPer) * kLanes + lane];
  const uint32_t v = word >> ((n % kPer) * (Ty::kBits & 31));
  return Ty::get(Ty::kBits == 32 ? v : v & low_bits(Ty::kBits));
}

// B lane that lane `l` reads under blgp.
inline int blgp_lane(int blgp, int l) {
  switch (blgp) {
    case 1:
      return l & 31;
    case 2:
      return 32 | (l & 31);
    case 3:
      return (l + 16) & 63;
    case 4:
    case 5:
    case 6:
    case 7:
      return (l & 15) | (blgp - 4) << 4;
    default:
      return l;
  }
}

// Accumulator position of element (block, i, j).
struct AccPlace {
  int reg, lane;
};
template <int M, int N, int kGroup>
constexpr AccPlace acc_place(int block, int i, int j) {
  constexpr int kLaneGroups = kLanes / N;
  if constexpr (M * kLaneGroups > kLanes && M < kGroup * kLaneGroups) {
    return {i % M, block * N + j};  // unreachable for the shapes in use
  } else if constexpr (M < kGroup * kLaneGroups) {
    // 4x4 shapes: every lane group holds another block.
    if constexpr (kGroup == 4)
      return {i, block * N + j};
    else
      return {0, 16 * i + 4 * block + j};
  } else {
    constexpr int kSpan = kGroup * kLaneGroups;
    constexpr int kRegsPerBlock = M / kLaneGroups;
    return {block * kRegsPerBlock + (i / kSpan) * kGroup + i % kGroup, ((i % kSpan) / kGroup) * N + j};
  }
}

template <class Acc>
struct AccIo {
  using V = typename Acc::V;
  static V read(const Wave& w, const Operand& o, int reg, int lane) {
    constexpr int kRows = Acc::kBits == 64 ? 2 : 1;
    if (o.kind != OperandKind::vgpr && o.kind != OperandKind::agpr) return Acc::get(read_scalar<kRows>(w, o));
    const uint32_t* p = w.row(row_index(w, o) + static_cast<uint32_t>(reg * kRows));
    if constexpr (kRows == 2)
      return Acc::get(p[lane] | static_cast<uint64_t>(p[kLanes + lane]) << 32);
    else
      return Acc::get(p[lane]);
  }
  static void write(Wave& w, const Operand& o, int reg, int lane, V v) {
    constexpr int kRows = Acc::kBits == 64 ? 2 : 1;
    uint32_t* p = w.row(row_index(w, o) + static_cast<uint32_t>(reg * kRows));
    if constexpr (kRows == 2) {
      F64::store(p, lane, v);
    } else {
      p[lane] = std::bit_cast<uint32_t>(v);
    }
  }
};
struct MfI32 {
  using V = int32_t;
  static constexpr int kBits = 32;
  static V get(uint64_t v) { return static_cast<int32_t>(v); }
};

template <class V>
inline V multiply_add(V a, V b, V c) {
  if constexpr (std::is_same_v<V, int32_t>) {
    return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b) + static_cast<uint32_t>(c));
  } else {
    return std::fma(a, b, c);
  }
}

template <class TA, class TB, class Acc, int M, int N, int K, int kBlocks>
void mfma(Wave& w, const Inst& in) {
  using V = typename Acc::V;
  constexpr int kPerLane = M * K * kBlocks / kLanes;
  constexpr int kGroup = Acc::kBits == 64 ? 1 : 4;
  static_assert(M == N);
  alignas(64) V a[kBlocks][K][M], b[kBlocks][K][N], acc[kBlocks][M][N];
  const uint32_t *pa = w.row(row_index(w, in.src[0])), *pb = w.row(row_index(w, in.src[1]));
  const int share = (1 << in.cbsz) - 1;
  for (int blk = 0; blk < kBlocks; ++blk) {
    const int ablk = (blk & ~share) + (in.cbsz ? in.abid : blk & share);
    for (int k = 0; k < K; ++k) {
      const int la = M * ((ablk % kBlocks) + kBlocks * (k / kPerLane)), lb = N * (blk + kBlocks * (k / kPerLane));
      for (int i = 0; i < M; ++i) {
        const V va = packed_element<TA>(pa, la + i, k % kPerLane);
        const V vb = packed_element<TB>(pb, blgp_lane(Acc::kBits == 64 ? 0 : in.blgp, lb + i), k % kPerLane);
        a[blk][k][i] = Acc::kBits == 64 && (in.neg_lo & 1) ? -va : va;
        b[blk][k][i] = Acc::kBits == 64 && (in.neg_lo & 2) ? -vb : vb;
      }
    }
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) {
        const AccPlace p = acc_place<M, N, kGroup>(blk, i, j);
        const V v = AccIo<Acc>::read(w, in.src[2], p.reg, p.lane);
        acc[blk][i][j] = Acc::kBits == 64 && (in.neg_lo & 4) ? -v : v;
      }
    }
  }
  for (int blk = 0; blk < kBlocks; ++blk) {
    for (int i = 0; i < M; ++i) {
      for (int k = 0; k < K; ++k) {
        const V x = a[blk][k][i];
        for (int j = 0; j < N; ++j) acc[blk][i][j] = multiply_add(x, b[blk][k][j], acc[blk][i][j]);
      }
    }
  }
  for (int blk = 0; blk < kBlocks; ++blk) {
    for (int i = 0; i < M; ++i) {
      for (int j = 0; j < N; ++j) {
        const AccPlace p = acc_place<M, N, kGroup>(blk, i, j);
        AccIo<Acc>::write(w, in.dst, p.reg, p.lane, acc[blk][i][j]);
      }
    }
  }
}

}  // namespace HIPSYNTH_ISA
