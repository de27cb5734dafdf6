// Matrix instructions: D[b] = A[b] x B[b] + C[b] for each block b.
//
// Register layout (AMD matrix instruction calculator; CDNA3 ISA section 7): an A element (block, i, k) is in lane
// i + M * (block + blocks * (k / per_lane)), position k % per_lane of the lane's registers; B likewise with j and N.
// Accumulators: 32-bit results come in groups of 4 rows per lane group, 64-bit ones in groups of 1.
// Arithmetic: products are added one k at a time with a fused multiply-add in the accumulator's type. The manuals do
// not specify the hardware's internal order and rounding, so inexact sums may differ there.
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
  static constexpr float kLeastNormal = 0x1p-14f;
  static V get(uint64_t v) { return half_to_float(static_cast<uint32_t>(v)); }
};
struct MfBf16 {
  using V = float;
  static constexpr int kBits = 16;
  static constexpr float kLeastNormal = 0x1p-126f;
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
  static V get(uint64_t v) { return fp8_to_float(static_cast<uint32_t>(v), false); }
};
struct MfOcpFp8 : MfFp8 {
  static V get(uint64_t v) { return fp8_to_float(static_cast<uint32_t>(v), true); }
};
struct MfBf8 {
  using V = float;
  static constexpr int kBits = 8;
  static V get(uint64_t v) { return bf8_to_float(static_cast<uint32_t>(v), false); }
};
struct MfOcpBf8 : MfBf8 {
  static V get(uint64_t v) { return bf8_to_float(static_cast<uint32_t>(v), true); }
};
// Floats of 8 bits as the OCP defines them.
template <class Ty>
struct OcpType {
  using T = Ty;
};
template <>
struct OcpType<MfFp8> {
  using T = MfOcpFp8;
};
template <>
struct OcpType<MfBf8> {
  using T = MfOcpBf8;
};
struct MfF64 {
  using V = double;
  static constexpr int kBits = 64;
  static V get(uint64_t v) { return f64(v); }
};

// Element `n` of every lane's packed registers, which start at row p.
template <class Ty>
void unpack_elements(const uint32_t* p, int n, typename Ty::V* out) {
  constexpr int kPer = std::max(32 / Ty::kBits, 1);
  const uint32_t* row = p + (n / kPer) * kLanes;
  const int shift = n % kPer * Ty::kBits;
  for (int lane = 0; lane < kLanes; ++lane) {
    if constexpr (Ty::kBits == 64)
      out[lane] = Ty::get(U64::load(row, lane));
    else
      out[lane] = Ty::get(row[lane] >> shift & low_bits(Ty::kBits));
  }
}

// The lane from which lane `l` reads B under blgp.
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
    // 4x4 shapes: every lane group holds a different block.
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

struct MfI32 {
  using V = int32_t;
  static constexpr int kBits = 32;
  static V get(uint64_t v) { return static_cast<int32_t>(v); }
};

// One row of a block's accumulator: N adjacent lanes of a register (or of a register pair).
template <class V, int N>
using AccRow = V __attribute__((ext_vector_type(N), aligned(sizeof(V))));

template <class Acc, int N>
AccRow<typename Acc::V, N> read_acc(const Wave& w, const Operand& o, AccPlace at) {
  constexpr int kRows = Acc::kBits / 32;
  AccRow<typename Acc::V, N> v;
  if (o.kind != OperandKind::vgpr && o.kind != OperandKind::agpr) {
    v = Acc::get(read_scalar<kRows>(w, o));
    return v;
  }
  const uint32_t* p = w.row(row_index(w, o) + static_cast<uint32_t>(at.reg * kRows)) + at.lane;
  if constexpr (kRows == 1) {
    std::memcpy(&v, p, sizeof v);
  } else {
    for (int j = 0; j < N; ++j) v[j] = F64::load(p, j);
  }
  return v;
}
template <class Acc, int N>
void write_acc(Wave& w, const Operand& o, AccPlace at, const AccRow<typename Acc::V, N>& v) {
  constexpr int kRows = Acc::kBits / 32;
  uint32_t* p = w.row(row_index(w, o) + static_cast<uint32_t>(at.reg * kRows)) + at.lane;
  if constexpr (kRows == 1) {
    std::memcpy(p, &v, sizeof v);
  } else {
    for (int j = 0; j < N; ++j) F64::store(p, j, v[j]);
  }
}

template <class V, int N>
inline AccRow<V, N> multiply_add(V a, AccRow<V, N> b, AccRow<V, N> c) {
  AccRow<V, N> x;
  x = a;
  if constexpr (std::is_same_v<V, int32_t>) {
    using U = AccRow<uint32_t, N>;
    return std::bit_cast<AccRow<V, N>>(std::bit_cast<U>(x) * std::bit_cast<U>(b) + std::bit_cast<U>(c));
  } else {
    return __builtin_elementwise_fma(x, b, c);
  }
}

// One operand's elements in the accumulator's type: [position in the lane's registers][lane].
template <class V, int kPerLane>
struct Elements {
  alignas(64) V v[kPerLane][kLanes];
};
template <class Ty, int kPerLane>
void unpack_operand(const uint32_t* p, bool ocp, bool negate, int blgp, Elements<typename Ty::V, kPerLane>* out) {
  using V = typename Ty::V;
  for (int n = 0; n < kPerLane; ++n) {
    V* row = out->v[n];
    if (ocp)
      unpack_elements<typename OcpType<Ty>::T>(p, n, row);
    else
      unpack_elements<Ty>(p, n, row);
    if (negate) {
      for (int lane = 0; lane < kLanes; ++lane) row[lane] = -row[lane];
    }
    if (blgp == 0) continue;
    V plain[kLanes];
    std::memcpy(plain, row, sizeof plain);
    for (int lane = 0; lane < kLanes; ++lane) row[lane] = plain[blgp_lane(blgp, lane)];
  }
}

// FpMode::flush_products: flushes 16-bit inputs, and the f32 accumulator before and after.
template <class V>
void flush_below(V* v, int n, V least) {
  for (int i = 0; i < n; ++i) v[i] = std::fabs(v[i]) < least ? std::copysign(V(0), v[i]) : v[i];
}
template <class Ty>
inline constexpr bool kFlushes = std::is_same_v<Ty, MfF16> || std::is_same_v<Ty, MfBf16>;
template <class Ty, int kPerLane>
void flush_inputs(Elements<typename Ty::V, kPerLane>* e) {
  if constexpr (kFlushes<Ty>) flush_below(e->v[0], kPerLane * kLanes, Ty::kLeastNormal);
}
template <int N>
void flush_rows(AccRow<float, N>* rows, int n) {
  flush_below(reinterpret_cast<float*>(rows), n * N, 0x1p-126f);
}

template <class TA, class TB, class Acc, int M, int N, int K, int kBlocks>
void mfma(Wave& w, const Inst& in) {
  using V = typename Acc::V;
  using Row = AccRow<V, N>;
  constexpr int kPerLane = M * K * kBlocks / kLanes;
  constexpr int kGroup = Acc::kBits == 64 ? 1 : 4;
  constexpr int kTogether = 4;  // accumulator rows computed together: independent chains for the host's multipliers
  static_assert(M == N);
  constexpr bool kDouble = Acc::kBits == 64;  // these have sign modifiers where the others have lane broadcasts
  Elements<V, kPerLane> a, b;
  unpack_operand<TA>(w.row(row_index(w, in.src[0])), w.mode.ocp_fp8, kDouble && (in.neg_lo & 1), 0, &a);
  unpack_operand<TB>(w.row(row_index(w, in.src[1])), w.mode.ocp_fp8, kDouble && (in.neg_lo & 2), kDouble ? 0 : in.blgp,
                     &b);
  Row acc[kBlocks][M];  // all of C is read before D is written, because they may overlap
  for (int blk = 0; blk < kBlocks; ++blk) {
    for (int i = 0; i < M; ++i) {
      acc[blk][i] = read_acc<Acc, N>(w, in.src[2], acc_place<M, N, kGroup>(blk, i, 0));
      if (kDouble && (in.neg_lo & 4)) acc[blk][i] = -acc[blk][i];
    }
  }
  const bool flush = kFlushes<TA> && w.mode.flush_products;
  if constexpr (kFlushes<TA>) {
    if (flush) {
      flush_inputs<TA>(&a);
      flush_inputs<TB>(&b);
      for (int blk = 0; blk < kBlocks; ++blk) flush_rows<N>(acc[blk], M);
    }
  }
  const int cbsz = kDouble ? 0 : in.cbsz;  // which f64 instructions ignore (CDNA3 ISA, section 7.1.5)
  const int share = (1 << cbsz) - 1;
  for (int blk = 0; blk < kBlocks; ++blk) {
    const int ablk = ((blk & ~share) + (cbsz ? in.abid : blk & share)) % kBlocks;
    for (int i = 0; i < M; i += kTogether) {
      Row sum[kTogether];
      for (int t = 0; t < kTogether; ++t) sum[t] = acc[blk][i + t];
      for (int k = 0; k < K; ++k) {
        const V* x = a.v[k % kPerLane] + M * (ablk + kBlocks * (k / kPerLane)) + i;
        Row y;
        std::memcpy(&y, b.v[k % kPerLane] + N * (blk + kBlocks * (k / kPerLane)), sizeof y);
#pragma unroll
        for (int t = 0; t < kTogether; ++t) sum[t] = multiply_add<V, N>(x[t], y, sum[t]);
      }
      if constexpr (kFlushes<TA>) {
        if (flush) flush_rows<N>(sum, kTogether);
      }
      for (int t = 0; t < kTogether; ++t) {
        write_acc<Acc, N>(w, in.dst, acc_place<M, N, kGroup>(blk, i + t, 0), sum[t]);
      }
    }
  }
}

// D += A x B with A sparse: its lane layout is that of a dense A with half the K, and its element k' belongs to k = 4 *
// (k' / 2) + index, with 2-bit indices in src2. A lane's indices take 8 bits (16-bit types) or 16 bits (8-bit types) of
// its index register; if cbsz is 0, abid selects which of them, else the lowest are used.
template <class TA, class TB, class Acc, int M, int N, int K>
void smfmac(Wave& w, const Inst& in) {
  using V = typename Acc::V;
  constexpr int kPerLaneA = M * (K / 2) / kLanes, kPerLaneB = N * K / kLanes;
  Elements<V, kPerLaneA> a;
  Elements<V, kPerLaneB> b;
  unpack_operand<TA>(w.row(row_index(w, in.src[0])), w.mode.ocp_fp8, false, 0, &a);
  unpack_operand<TB>(w.row(row_index(w, in.src[1])), w.mode.ocp_fp8, false, 0, &b);
  alignas(64) uint32_t buffer[kLanes];
  const uint32_t* indices = source<U32>(w, in.src[2], buffer);
  constexpr uint32_t kIndexBits = 2 * kPerLaneA;
  const uint32_t shift = in.cbsz == 0 ? in.abid % (32 / kIndexBits) * kIndexBits : 0;
  AccRow<V, N> sum[M];
  for (int i = 0; i < M; ++i) {
    sum[i] = read_acc<Acc, N>(w, in.dst, acc_place<M, N, 4>(0, i, 0));
    for (int k = 0; k < K / 2; ++k) {
      const int lane = i + M * (k / kPerLaneA), n = k % kPerLaneA;
      const int at = 4 * (k / 2) + static_cast<int>(indices[lane] >> (shift + 2 * static_cast<uint32_t>(n)) & 3);
      AccRow<V, N> y;
      std::memcpy(&y, b.v[at % kPerLaneB] + N * (at / kPerLaneB), sizeof y);
      sum[i] = multiply_add<V, N>(a.v[n][lane], y, sum[i]);
    }
  }
  for (int i = 0; i < M; ++i) write_acc<Acc, N>(w, in.dst, acc_place<M, N, 4>(0, i, 0), sum[i]);
}

}  // namespace HIPSYNTH_ISA
