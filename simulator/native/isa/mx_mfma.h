// Matrix instructions whose operands' formats are modifiers (v_mfma_*_f8f6f4), also with scales.
//
// A lane holds 32 elements of one row of A (column of B): lane i + M * g those of group g. Elements of 6 and 4 bits are
// 32 consecutive k; of 8 bits, 16 consecutive k of the lower half of K, then 16 of the upper half (the layout of AMD's
// "Matrix Core Programming on CDNA3 and CDNA4"). The scale of row i and block b of 32 k is a byte of lane i + M * b.
#pragma once

#include "mfma.h"
#include "small_floats.h"

namespace HIPSYNTH_ISA {

// Elements in k order, scaled: [k][row].
template <int M, int K>
struct MxElements {
  alignas(64) double v[K][M];
};

template <int M, int K>
void unpack_mx(const uint32_t* p, uint32_t kind, MxElements<M, K>* out) {
  const FloatFormat& f = kOcpFormats[kind];
  const int width = f.bits();
  double values[256];
  for (uint32_t code = 0; code < 1u << width; ++code) values[code] = small_to_float(code, f);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int row = lane % M, group = lane / M;
    for (int n = 0; n < 32; ++n) {
      const int k = width == 8 ? n / 16 * (K / 2) + group * 16 + n % 16 : group * 32 + n;
      out->v[k][row] = values[packed_element(p + lane, n, width)];
    }
  }
}

// Multiplies each block of 32 elements of a row by its power of two; byte `byte` of the operand's lanes holds them.
template <int M, int K>
void apply_scales(const Wave& w, const Operand& o, uint32_t byte, MxElements<M, K>* out) {
  alignas(64) uint32_t buffer[kLanes];
  const uint32_t* scales = source<U32>(w, o, buffer);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int row = lane % M, block = lane / M;
    const int e = static_cast<int>(scales[lane] >> (8 * byte) & 0xff);
    const double factor = e == 255 ? kNan64 : pow2i(e - 127);
    for (int k = 32 * block; k < 32 * (block + 1); ++k) out->v[k][row] *= factor;
  }
}

template <int M, int K, bool kScaled>
void mx_mfma(Wave& w, const Inst& in) {
  using Row = AccRow<float, M>;
  MxElements<M, K> a, b;
  unpack_mx<M, K>(w.row(row_index(w, in.src[0])), in.cbsz, &a);
  unpack_mx<M, K>(w.row(row_index(w, in.src[1])), in.blgp, &b);
  if constexpr (kScaled) {
    apply_scales<M, K>(w, in.src[3], (in.op_sel & 1u) | (in.op_sel_hi & 1u) << 1, &a);
    apply_scales<M, K>(w, in.src[4], (in.op_sel >> 1 & 1u) | (in.op_sel_hi >> 1 & 1u) << 1, &b);
  }
  Row sum[M];
  for (int i = 0; i < M; ++i) sum[i] = read_acc<MfF32, M>(w, in.src[2], acc_place<M, M, 4>(0, i, 0));
  for (int i = 0; i < M; ++i) {
    for (int k = 0; k < K; ++k) {
      for (int j = 0; j < M; ++j)
        sum[i][j] = static_cast<float>(a.v[k][i] * b.v[k][j] + static_cast<double>(sum[i][j]));
    }
  }
  for (int i = 0; i < M; ++i) write_acc<MfF32, M>(w, in.dst, acc_place<M, M, 4>(0, i, 0), sum[i]);
}

}  // namespace HIPSYNTH_ISA
