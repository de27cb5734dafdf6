// The general path of the vector ALU: SDWA, DPP, op_sel, packed selects, clamp, omod, non-default MODE.
// Every source is materialised with its modifiers in a scratch register file, the opcode's plain handler runs on that
// file with all lanes active, and the result is modified and merged into the real destination.
#include <immintrin.h>

#include <algorithm>
#include <vector>

#include "special.h"
#include "valu.h"

namespace HIPSYNTH_ISA {
namespace {

constexpr int kScratchRows = 12;  // four sources and the destination, two rows each, plus slack
constexpr int kDstRow = 8;

bool half_class(Cls c) { return c == Cls::f16 || c == Cls::i16 || c == Cls::u16; }

struct Scratch {
  alignas(64) uint32_t rows[kScratchRows * kLanes];
  uint32_t* row(int r) { return rows + r * kLanes; }
};

// The lane that DPP lane i reads, or -1.
int dpp_lane(uint16_t ctrl, int i) {
  const int row = i & ~15, col = i & 15, n = ctrl & 15;
  if (ctrl <= 0xff) return (i & ~3) | ((ctrl >> (2 * (i & 3))) & 3);
  if (ctrl >= 0x101 && ctrl <= 0x10f) return col + n <= 15 ? i + n : -1;
  if (ctrl >= 0x111 && ctrl <= 0x11f) return col >= n ? i - n : -1;
  if (ctrl >= 0x121 && ctrl <= 0x12f) return row | ((col - n) & 15);
  if (ctrl >= 0x150 && ctrl <= 0x15f) return row | n;
  switch (ctrl) {
    case 0x130:
      return i + 1 < kLanes ? i + 1 : -1;
    case 0x134:
      return (i + 1) & 63;
    case 0x138:
      return i - 1;
    case 0x13c:
      return (i - 1) & 63;
    case 0x140:
      return row | (15 - col);
    case 0x141:
      return (i & ~7) | (7 - (i & 7));
    case 0x142:
      return row >= 16 ? row - 1 : -1;
    case 0x143:
      return row >= 32 ? 31 : -1;
    default:
      return i;
  }
}

// dpp_lane() of all lanes for one control value.
struct DppMap {
  uint8_t from[kLanes];
  uint64_t valid = 0;
};
const DppMap& dpp_map(uint16_t ctrl) {
  constexpr int kControls = 512;
  static const std::vector<DppMap> maps = [] {
    std::vector<DppMap> all(kControls);
    for (int c = 0; c < kControls; ++c) {
      for (int i = 0; i < kLanes; ++i) {
        const int lane = dpp_lane(static_cast<uint16_t>(c), i);
        all[static_cast<size_t>(c)].from[i] = static_cast<uint8_t>(std::max(lane, 0));
        if (lane >= 0) all[static_cast<size_t>(c)].valid |= 1ull << i;
      }
    }
    return all;
  }();
  return maps[ctrl % kControls];
}

// Lanes enabled by row_mask and bank_mask: a row is 16 lanes, a bank four of them.
uint64_t masked_lanes(const hipsynth::Dpp& dpp) {
  uint64_t row = 0, all = 0;
  for (int bank = 0; bank < 4; ++bank) row |= ((dpp.bank_mask >> bank) & 1) ? 15ull << 4 * bank : 0;
  for (int r = 0; r < 4; ++r) all |= ((dpp.row_mask >> r) & 1) ? row << 16 * r : 0;
  return all;
}

// Permutes `rows` rows in place; returns the lanes that may be written.
uint64_t apply_dpp(const Inst& in, uint32_t* p, int rows, uint64_t exec) {
  const DppMap& map = dpp_map(in.dpp.ctrl);
  uint64_t valid = map.valid;
  if (exec != ~0ull) {
    for (int i = 0; i < kLanes; ++i) valid &= ~((~exec >> map.from[i] & 1) << i);
  }
  for (int r = 0; r < rows; ++r) {
    alignas(64) uint32_t moved[kLanes];
    uint32_t* row = p + r * kLanes;
    for (int i = 0; i < kLanes; ++i) moved[i] = row[map.from[i]];
    std::memset(row, 0, sizeof moved);
    blend(row, moved, valid);
  }
  return exec & masked_lanes(in.dpp) & (in.dpp.bound_ctrl ? ~0ull : valid);
}

void apply_sdwa_source(const Operand& o, uint32_t* p) {
  const uint32_t width = o.sdwa_sel < 4 ? 8 : o.sdwa_sel < 6 ? 16 : 32;
  const uint32_t shift = o.sdwa_sel < 4 ? o.sdwa_sel * 8u : o.sdwa_sel == 5 ? 16 : 0;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t v = (p[i] >> shift) & low_bits(width);
    p[i] = o.sext ? static_cast<uint32_t>(sext(v, width)) : v;
  }
}

// Packed operands: op_sel selects the half for the low result, op_sel_hi the half for the high one.
void apply_packed(const Inst& in, int k, Cls cls, bool floating, uint32_t* p) {
  const bool lo_high = (in.op_sel >> k) & 1, hi_high = (in.op_sel_hi >> k) & 1;
  const uint32_t flip_lo = floating && ((in.neg_lo >> k) & 1) ? 1u : 0u;
  const uint32_t flip_hi = floating && ((in.neg_hi >> k) & 1) ? 1u : 0u;
  for (int i = 0; i < kLanes; ++i) {
    if (cls != Cls::pk32) {
      const uint32_t lo = (lo_high ? p[i] >> 16 : p[i]) & 0xffffu, hi = (hi_high ? p[i] >> 16 : p[i]) & 0xffffu;
      p[i] = (lo ^ flip_lo << 15) | (hi ^ flip_hi << 15) << 16;
    } else {
      const uint32_t a = p[i], b = p[kLanes + i];
      p[i] = (lo_high ? b : a) ^ flip_lo << 31;
      p[kLanes + i] = (hi_high ? b : a) ^ flip_hi << 31;
    }
  }
}

// Fetches source k into scratch rows 2k, 2k+1 with all modifiers. Returns the lanes that DPP leaves enabled.
uint64_t fetch(const Wave& w, const Inst& in, const Shape& s, int k, Cls cls, Scratch& f, uint64_t exec) {
  uint32_t* p = f.row(2 * k);
  Operand plain = in.src[k];
  plain.neg = plain.abs = false;
  const uint32_t* v =
      s.rows[k] == 2 ? materialise<Cls::bits64, 2>(w, plain, p) : materialise<Cls::bits32, 1>(w, plain, p);
  if (v != p) std::memcpy(p, v, sizeof(uint32_t) * kLanes * s.rows[k]);
  uint64_t enabled = exec;
  if (in.dpp.present && k == 0) enabled = apply_dpp(in, p, s.rows[k], exec);
  if (in.sdwa && k < 2) apply_sdwa_source(in.src[k], p);
  if (cls == Cls::pk16 || cls == Cls::pkb16 || cls == Cls::pk32) {
    apply_packed(in, k, cls, s.floating, p);
  } else if (cls == Cls::f32 && ((in.neg_lo >> k) & 1)) {
    apply_sign(p, cls, true, false);
  } else if (half_class(cls) && ((in.op_sel >> k) & 1)) {
    for (int i = 0; i < kLanes; ++i) p[i] >>= 16;
  }
  if (in.src[k].neg | in.src[k].abs) apply_sign(p, cls, in.src[k].neg, in.src[k].abs);
  if (s.floating && !keeps(w.mode, cls, kInput)) flush_denormals(cls, p);
  return enabled;
}

// Output scaling is ignored if denormal results or IEEE mode are enabled (CDNA3 ISA, section 6.2.3).
bool scales(const Inst& in, const FpMode& m, Cls cls) { return in.omod != 0 && !m.ieee && !keeps(m, cls, kOutput); }

// Output modifiers of a float result, held by value so that the compiler knows that register stores do not change them.
struct OutputModifier {
  double factor;  // of omod
  bool scale, clamp, dx10_clamp;
  template <class T>
  T operator()(T v) const {
    v = scale ? v * T(factor) + T(0) : v;  // a negative zero becomes positive
    const T inside = v <= T(0) ? T(0) : v > T(1) ? T(1) : v;
    return !clamp ? v : v != v && dx10_clamp ? T(0) : inside;
  }
};

// Applies omod and clamp to float results.
template <class Ty>
void shape_lanes(OutputModifier f, uint32_t* p) {
  HIPSYNTH_LANE_LOOP
  for (int i = 0; i < kLanes; ++i) {
    auto v = Ty::load(p, i);
    if constexpr (Ty::kCls == Cls::pk16 || Ty::kCls == Cls::pk32)
      v = {f(v.lo), f(v.hi)};
    else
      v = f(v);
    const uint32_t high = Ty::kCls == Cls::f16 ? p[i] & 0xffff0000u : 0u;
    Ty::store(p, i, v);
    p[i] |= high;
  }
}
void shape_float(const Inst& in, const FpMode& m, Cls cls, uint32_t* p) {
  const OutputModifier f{in.omod == 1 ? 2.0 : in.omod == 2 ? 4.0 : 0.5, scales(in, m, cls), in.clamp, m.dx10_clamp};
  switch (cls) {
    case Cls::f32:
      return shape_lanes<F32>(f, p);
    case Cls::f64:
      return shape_lanes<F64>(f, p);
    case Cls::f16:
      return shape_lanes<F16>(f, p);
    case Cls::pk16:
      return shape_lanes<PkF16>(f, p);
    case Cls::pk32:
      return shape_lanes<PkF32>(f, p);
    default:
      return;
  }
}

// Inserts an SDWA result into the selected part of the old destination.
void apply_sdwa_dst(const Inst& in, uint32_t* p, const uint32_t* old) {
  const uint32_t sel = in.sdwa_dst_sel;
  if (sel >= 6) return;
  const uint32_t width = sel < 4 ? 8 : 16, shift = sel < 4 ? sel * 8 : sel == 5 ? 16 : 0;
  const uint32_t field = low_bits(width) << shift;
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t v = (p[i] & low_bits(width)) << shift;
    uint32_t rest = 0;
    if (in.sdwa_dst_unused == 2) rest = old[i] & ~field;
    if (in.sdwa_dst_unused == 1 && ((p[i] >> (width - 1)) & 1)) rest = ~low_bits(width + shift);
    p[i] = v | rest;
  }
}

// Rounding field of MODE for an instruction. Doubles and halves share one, also in conversions from double to float
// (LLVM sets that field for llvm.fptrunc.round.f32.f64). Approximate functions always round to nearest.
unsigned rounding_of(const FpMode& m, const Inst& in, const Shape& s) {
  if (in.op->rate == hipsynth::Rate::trans) return 0;
  const bool bits = s.d == Cls::bits32 || s.d == Cls::mask;
  const Cls result = s.a == Cls::f64 ? Cls::f64 : bits ? s.a : s.d;
  return result == Cls::f32 || result == Cls::pk32 ? m.round_f32 : m.round_f16_f64;
}

void run_plain(Wave& w, Inst& in, const Shape& s, Scratch& f) {
  uint32_t* const vgpr = w.vgpr;
  const uint32_t rows = w.rows;
  const uint64_t exec = w.exec();
  const FpMode mode = w.mode;
  w.vgpr = f.rows;
  w.rows = kScratchRows;
  w.set_exec(~0ull);
  w.mode.round_f32 = w.mode.round_f16_f64 = 0;
  w.mode.denorm_f32 = w.mode.denorm_f16_f64 = 3;
  if (s.halves) w.mode.fp16_ovfl = false;  // write_back() handles it
  const auto fn = in.clamp && in.op->saturating ? in.op->saturating : in.op->handler;
  {
    const Rounding rounding(s.floating ? rounding_of(mode, in, s) : 0);
    fn(w, in);
  }
  w.vgpr = vgpr;
  w.rows = rows;
  w.mode = mode;
  if (!s.writes_exec) w.set_exec(exec);
}

void write_back(Wave& w, const Inst& in, const Shape& s, Scratch& f, uint64_t enabled) {
  uint32_t* p = f.row(kDstRow);
  uint32_t* dst = w.row(row_index(w, in.dst));
  if (s.halves && w.mode.fp16_ovfl) {
    const bool divides = in.op->rate == hipsynth::Rate::trans;
    limit_overflow(s.d, p,
                   {{s.a, f.row(0)}, {s.rows[1] ? s.b : Cls::mask, f.row(2)}, {s.rows[2] ? s.c : Cls::mask, f.row(4)}},
                   divides);
  }
  if (s.floating && scales(in, w.mode, s.d)) flush_denormals(s.d, p);  // before scaling, and again after it
  if (s.floating && (in.omod || in.clamp)) shape_float(in, w.mode, s.d, p);
  if (s.floating && !keeps(w.mode, s.d, kOutput)) flush_denormals(s.d, p);
  if (half_class(s.d) && (in.op_sel & 8)) {
    for (int i = 0; i < kLanes; ++i) p[i] = (dst[i] & 0xffffu) | p[i] << 16;
  }
  if (in.sdwa) apply_sdwa_dst(in, p, dst);
  for (int r = 0; r < s.rows_d; ++r) blend(dst + r * kLanes, p + r * kLanes, enabled);
}

}  // namespace

void general(Wave& w, const Inst& in) {
  const Shape& s = *static_cast<const Shape*>(in.op->shape);
  const Cls classes[4] = {s.a, s.b, s.c, s.x};
  Scratch f;
  Inst plain = in;
  plain.op_sel = plain.neg_lo = plain.neg_hi = 0;  // already applied by fetch()
  plain.op_sel_hi = 7;
  uint64_t enabled = w.exec();
  for (int k = 0; k < 4; ++k) {
    if (s.rows[k] == 0) continue;
    if (classes[k] == Cls::mask) {
      plain.src[k].value = read_scalar<2>(w, in.src[k]);
      plain.src[k].kind = OperandKind::constant;
      continue;
    }
    enabled &= fetch(w, in, s, k, classes[k], f, w.exec());
    plain.src[k] = Operand{};
    plain.src[k].kind = OperandKind::vgpr;
    plain.src[k].reg = static_cast<uint16_t>(2 * k);
  }
  if (s.rows_d != 0) {
    std::memcpy(f.row(kDstRow), w.row(row_index(w, in.dst)), sizeof(uint32_t) * kLanes * s.rows_d);
    if (half_class(s.d) && (in.op_sel & 8)) {
      for (int i = 0; i < kLanes; ++i) f.row(kDstRow)[i] >>= 16;
    }
    plain.dst = Operand{};
    plain.dst.kind = OperandKind::vgpr;
    plain.dst.reg = kDstRow;
  }
  run_plain(w, plain, s, f);
  if (s.has_mask && in.sdst.kind == OperandKind::sgpr) {
    w.set_sgpr64(in.sdst.reg, w.sgpr64(in.sdst.reg) & enabled);
    if (s.writes_exec) w.set_exec(w.exec() & enabled);
  }
  if (s.rows_d != 0) write_back(w, in, s, f, enabled);
}

}  // namespace HIPSYNTH_ISA
