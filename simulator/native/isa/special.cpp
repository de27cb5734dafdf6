#include "special.h"

#include "mode.h"

namespace HIPSYNTH_ISA {
namespace {

void write_scalar(Wave& w, const Operand& dst, uint32_t v) {
  if (dst.kind == OperandKind::sgpr) w.sgpr[dst.reg] = v;
}

// One source of v_fma_mix: op_sel_hi selects f16, op_sel its half; neg_lo negates, neg_hi takes the absolute value.
const uint32_t* mix_source(const Wave& w, const Inst& in, int k, uint32_t* out) {
  Operand o = in.src[k];
  o.neg = o.abs = false;
  const uint32_t* p = source<U32>(w, o, out);
  const bool half = (in.op_sel_hi >> k) & 1, high = (in.op_sel >> k) & 1;
  const bool neg = in.src[k].neg || ((in.neg_lo >> k) & 1), abs = in.src[k].abs || ((in.neg_hi >> k) & 1);
  for (int i = 0; i < kLanes; ++i) {
    out[i] = half ? (high ? p[i] >> 16 : p[i]) & 0xffffu : p[i];
  }
  const Cls cls = half ? Cls::f16 : Cls::f32;
  if (!keeps(w.mode, cls, kInput)) flush_denormals(cls, out);
  for (int i = 0; i < kLanes; ++i) {
    const float v = half ? half_to_float(out[i]) : f32(out[i]);
    const float magnitude = abs ? std::fabs(v) : v;
    out[i] = bits(neg ? -magnitude : magnitude);
  }
  return out;
}

float clamped(float v, const Wave& w) {
  if (v != v) return w.mode.dx10_clamp ? 0.0f : v;
  return v <= 0.0f ? 0.0f : v > 1.0f ? 1.0f : v;
}

// kHalf: -1 f32 result, 0 low half, 1 high half. The f16 forms round the exact sum first to f32, then to f16.
template <int kHalf>
void mix(Wave& w, const Inst& in) {
  constexpr Cls kResult = kHalf < 0 ? Cls::f32 : Cls::f16;
  alignas(64) uint32_t s[3][kLanes], r[kLanes];
  for (int k = 0; k < 3; ++k) mix_source(w, in, k, s[k]);
  {
    const Rounding rounding(w.mode.round_f32);
    for (int i = 0; i < kLanes; ++i) r[i] = bits(std::fma(f32(s[0][i]), f32(s[1][i]), f32(s[2][i])));
  }
  if constexpr (kResult == Cls::f16) {
    const Rounding rounding(w.mode.round_f16_f64);
    for (int i = 0; i < kLanes; ++i) r[i] = float_to_half(f32(r[i]));
    if (w.mode.fp16_ovfl) limit_overflow(Cls::f16, r, {{Cls::f32, s[0]}, {Cls::f32, s[1]}, {Cls::f32, s[2]}}, false);
  }
  uint32_t* dst = w.row(row_index(w, in.dst));
  for (int i = 0; i < kLanes; ++i) {
    if (in.clamp) r[i] = kHalf < 0 ? bits(clamped(f32(r[i]), w)) : float_to_half(clamped(half_to_float(r[i]), w));
  }
  if (!keeps(w.mode, kResult, kOutput)) flush_denormals(kResult, r);
  for (int i = 0; i < kLanes; ++i) {
    if constexpr (kHalf == 0) r[i] |= dst[i] & 0xffff0000u;
    if constexpr (kHalf == 1) r[i] = (dst[i] & 0xffffu) | r[i] << 16;
  }
  blend(dst, r, w.exec());
}

void stochastic_fp8(Wave& w, const Inst& in, const FloatFormat& format) {
  alignas(64) uint32_t ba[kLanes], bb[kLanes], r[kLanes];
  const uint32_t* a = source<F32>(w, in.src[0], ba);
  const uint32_t* b = source<U32>(w, in.src[1], bb);
  uint32_t* dst = w.row(row_index(w, in.dst));
  const uint32_t shift = ((in.op_sel >> 2) & 3u) * 8u;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t v = float_to_small_stochastic(f32(a[i]), format, b[i], w.mode.fp16_ovfl);
    r[i] = (dst[i] & ~(0xffu << shift)) | v << shift;
  }
  blend(dst, r, w.exec());
}

// Adds as many upper random bits as the result drops from the f32 mantissa, then truncates, to the half that op_sel
// names. An infinity or NaN is only shortened.
template <class Convert>
void stochastic_half(Wave& w, const Inst& in, uint32_t dropped, Convert convert) {
  alignas(64) uint32_t ba[kLanes], bb[kLanes], r[kLanes];
  const uint32_t* a = source<F32>(w, in.src[0], ba);
  const uint32_t* b = source<U32>(w, in.src[1], bb);
  uint32_t* dst = w.row(row_index(w, in.dst));
  const uint32_t shift = in.op_sel & 8 ? 16 : 0;
  for (int i = 0; i < kLanes; ++i) {
    const bool special = exponent(f32(a[i])) == 255;
    const uint32_t v = convert(special ? a[i] : a[i] + (b[i] >> (32 - dropped)));
    r[i] = (dst[i] & ~(0xffffu << shift)) | v << shift;
  }
  blend(dst, r, w.exec());
}

// v_permlane*_swap: the odd groups of `kGroup` lanes of the destination and the even ones of the source change places.
// An inactive lane gets nothing; what is read from one is its value (fi), 0 (bound_ctrl), or nothing.
template <int kGroup>
void swap_groups(Wave& w, const Inst& in) {
  uint32_t *odd = w.row(row_index(w, in.dst)), *even = w.row(row_index(w, in.src[0]));
  const uint64_t exec = w.exec();
  const auto pass = [&](int from, int to, uint32_t value, uint32_t* into) {
    if (!(exec >> to & 1)) return;
    const bool readable = in.fi || (exec >> from & 1);
    if (readable || in.dpp.bound_ctrl) into[to] = readable ? value : 0;
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane & kGroup) continue;
    const uint32_t up = even[lane], down = odd[lane + kGroup];
    pass(lane, lane + kGroup, up, odd);
    pass(lane + kGroup, lane, down, even);
  }
}

// Any function of three bits: bit 4 a + 2 b + c of the table is its value.
uint32_t apply_truth_table(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
  const auto choose = [&](uint32_t when0, uint32_t when1) { return (~c & when0) | (c & when1); };
  const auto bit = [&](int k) { return 0u - (table >> k & 1u); };
  const uint32_t a0 = (~b & choose(bit(0), bit(1))) | (b & choose(bit(2), bit(3)));
  const uint32_t a1 = (~b & choose(bit(4), bit(5))) | (b & choose(bit(6), bit(7)));
  return (~a & a0) | (a & a1);
}

struct HwField {
  uint32_t id, offset, width;
};
HwField hw_field(int64_t imm) {
  const uint32_t v = static_cast<uint32_t>(imm);
  return {v & 63, (v >> 6) & 31, ((v >> 11) & 31) + 1};
}
constexpr uint32_t kHwMode = 1, kHwXccId = 20;

uint32_t pack_mode(const Wave& w) { return w.mode.bits() | (w.gpr_index_mode ? 1u << 27 : 0u); }

}  // namespace

void readlane(Wave& w, const Inst& in) {
  const uint32_t lane = static_cast<uint32_t>(read_scalar<1>(w, in.src[1])) & 63;
  write_scalar(w, in.dst, w.row(row_index(w, in.src[0]))[lane]);
}
void readfirstlane(Wave& w, const Inst& in) {
  if (in.src[0].kind != OperandKind::vgpr && in.src[0].kind != OperandKind::agpr) {
    write_scalar(w, in.dst, static_cast<uint32_t>(read_scalar<1>(w, in.src[0])));
    return;
  }
  const uint64_t exec = w.exec();
  write_scalar(w, in.dst, w.row(row_index(w, in.src[0]))[exec ? std::countr_zero(exec) : 0]);
}
void writelane(Wave& w, const Inst& in) {
  const uint32_t lane = static_cast<uint32_t>(read_scalar<1>(w, in.src[1])) & 63;
  w.row(row_index(w, in.dst))[lane] = static_cast<uint32_t>(read_scalar<1>(w, in.src[0]));
}
void swap_rows(Wave& w, const Inst& in) {
  alignas(64) uint32_t a[kLanes], b[kLanes];
  uint32_t *pa = w.row(row_index(w, in.dst)), *pb = w.row(row_index(w, in.src[0]));
  std::memcpy(a, pa, sizeof a);
  std::memcpy(b, pb, sizeof b);
  blend(pa, b, w.exec());
  blend(pb, a, w.exec());
}

void fma_mix(Wave& w, const Inst& in) { mix<-1>(w, in); }
void fma_mixlo(Wave& w, const Inst& in) { mix<0>(w, in); }
void fma_mixhi(Wave& w, const Inst& in) { mix<1>(w, in); }
void cvt_sr_fp8(Wave& w, const Inst& in) { stochastic_fp8(w, in, fp8_format(w.mode.ocp_fp8)); }
void cvt_sr_bf8(Wave& w, const Inst& in) { stochastic_fp8(w, in, bf8_format(w.mode.ocp_fp8)); }

void cvt_sr_f16(Wave& w, const Inst& in) {
  stochastic_half(w, in, 13, [](uint32_t v) { return half_toward_zero(f32(v)); });
}
void cvt_sr_bf16(Wave& w, const Inst& in) {
  stochastic_half(w, in, 16, [](uint32_t v) { return f32(v) != f32(v) ? float_to_bf16(f32(v)) : v >> 16; });
}
void permlane16_swap(Wave& w, const Inst& in) { swap_groups<16>(w, in); }
void permlane32_swap(Wave& w, const Inst& in) { swap_groups<32>(w, in); }
void bitop3_b32(Wave& w, const Inst& in) {
  alignas(64) uint32_t ba[kLanes], bb[kLanes], bc[kLanes], r[kLanes];
  const uint32_t *a = source<U32>(w, in.src[0], ba), *b = source<U32>(w, in.src[1], bb);
  const uint32_t* c = source<U32>(w, in.src[2], bc);
  for (int i = 0; i < kLanes; ++i) r[i] = apply_truth_table(in.bitop3, a[i], b[i], c[i]);
  blend(w.row(row_index(w, in.dst)), r, w.exec());
}
void bitop3_b16(Wave& w, const Inst& in) {
  alignas(64) uint32_t ba[kLanes], bb[kLanes], bc[kLanes], r[kLanes];
  const uint32_t *a = source<U32>(w, in.src[0], ba), *b = source<U32>(w, in.src[1], bb);
  const uint32_t* c = source<U32>(w, in.src[2], bc);
  const auto half = [&](int k, uint32_t v) { return (in.op_sel >> k & 1 ? v >> 16 : v) & 0xffffu; };
  uint32_t* dst = w.row(row_index(w, in.dst));
  const uint32_t shift = in.op_sel & 8 ? 16 : 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t v = apply_truth_table(in.bitop3, half(0, a[i]), half(1, b[i]), half(2, c[i])) & 0xffffu;
    r[i] = (dst[i] & ~(0xffffu << shift)) | v << shift;
  }
  blend(dst, r, w.exec());
}

void s_getreg(Wave& w, const Inst& in) {
  const HwField f = hw_field(in.imm);
  const uint32_t v = f.id == kHwMode ? pack_mode(w) : f.id == kHwXccId ? w.xcc_id : 0u;
  write_scalar(w, in.dst, (v >> f.offset) & low_bits(f.width));
}
void s_setreg(Wave& w, const Inst& in) {
  const HwField f = hw_field(in.imm);
  if (f.id != kHwMode) return;
  const uint32_t mask = low_bits(f.width) << f.offset;
  const uint32_t v = static_cast<uint32_t>(read_scalar<1>(w, in.src[0])) << f.offset;
  w.mode.set_bits((pack_mode(w) & ~mask) | (v & mask));
}
void s_set_gpr_idx_on(Wave& w, const Inst& in) {
  const uint32_t enable = static_cast<uint32_t>(in.imm) & 15;
  const uint32_t index = static_cast<uint32_t>(read_scalar<1>(w, in.src[0])) & 0xff;
  w.sgpr[hipsynth::kM0] = (w.sgpr[hipsynth::kM0] & ~0xf0ffu) | index | enable << 12;
  w.gpr_index_mode = enable;
}
void s_set_gpr_idx_off(Wave& w, const Inst&) { w.gpr_index_mode = 0; }
void s_set_gpr_idx_idx(Wave& w, const Inst& in) {
  const uint32_t index = static_cast<uint32_t>(read_scalar<1>(w, in.src[0])) & 0xff;
  w.sgpr[hipsynth::kM0] = (w.sgpr[hipsynth::kM0] & ~0xffu) | index;
}
void s_set_gpr_idx_mode(Wave& w, const Inst& in) {
  const uint32_t enable = static_cast<uint32_t>(in.imm) & 15;
  w.sgpr[hipsynth::kM0] = (w.sgpr[hipsynth::kM0] & ~0xf000u) | enable << 12;
  if (w.gpr_index_mode) w.gpr_index_mode = enable;
}
// Relative SGPR moves: M0 offsets the source or the destination. Outside the general registers a source reads SGPR 0
// and a destination is not written.
void s_movrels(Wave& w, const Inst& in) {
  const uint64_t first = uint64_t{in.src[0].reg} + w.sgpr[hipsynth::kM0];
  const uint32_t from = first + in.dst.dwords <= hipsynth::kFlatScratchLo ? static_cast<uint32_t>(first) : 0;
  std::memcpy(&w.sgpr[in.dst.reg], &w.sgpr[from], in.dst.dwords * sizeof(uint32_t));
}
void s_movreld(Wave& w, const Inst& in) {
  const uint64_t to = uint64_t{in.dst.reg} + w.sgpr[hipsynth::kM0];
  const uint64_t v = in.dst.dwords == 2 ? read_scalar<2>(w, in.src[0]) : read_scalar<1>(w, in.src[0]);
  if (to + in.dst.dwords <= hipsynth::kFlatScratchLo) std::memcpy(&w.sgpr[to], &v, in.dst.dwords * sizeof(uint32_t));
}

// Four masked sums of absolute differences of the reference and each of four overlapping windows.
void mqsad_u32(Wave& w, const Inst& in) {
  alignas(64) uint32_t ba[2 * kLanes], bb[kLanes], r[4 * kLanes];
  const uint32_t* a = source<U64>(w, in.src[0], ba);
  const uint32_t* b = source<U32>(w, in.src[1], bb);
  const bool rows = in.src[2].kind == OperandKind::vgpr || in.src[2].kind == OperandKind::agpr;
  const uint32_t* c = rows ? w.row(row_index(w, in.src[2])) : nullptr;
  const uint64_t constant = rows ? 0 : read_scalar<1>(w, in.src[2]);
  for (int i = 0; i < kLanes; ++i) {
    for (int k = 0; k < 4; ++k) {
      const uint32_t window = static_cast<uint32_t>(U64::load(a, i) >> (8 * k));
      const uint32_t start = c ? c[k * kLanes + i] : k == 0 ? static_cast<uint32_t>(constant) : 0u;
      r[k * kLanes + i] = sad_u8(window, b[i], start, true);
    }
  }
  uint32_t* dst = w.row(row_index(w, in.dst));
  for (int k = 0; k < 4; ++k) blend(dst + k * kLanes, r + k * kLanes, w.exec());
}
void nothing(Wave&, const Inst&) {}

}  // namespace HIPSYNTH_ISA
