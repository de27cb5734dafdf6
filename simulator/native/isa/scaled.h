// v_cvt_scalef32_*: conversions between small and wide floats with a power of two as scale (CDNA4 ISA). The scale's
// exponent is that of the last source as f32: narrowing divides by 2^(e - 127), widening multiplies by it, 255 is NaN.
#pragma once

#include "operands.h"
#include "small_floats.h"

namespace HIPSYNTH_ISA {

enum class WideFloat : uint8_t { f32, f16, bf16 };

constexpr int wide_bits(WideFloat kind) { return kind == WideFloat::f32 ? 32 : 16; }
template <WideFloat kWide>
double load_wide(uint32_t v) {
  if constexpr (kWide == WideFloat::f32) return f32(v);
  return kWide == WideFloat::f16 ? half_to_float(v & 0xffff) : bf16_to_float(v & 0xffff);
}
template <WideFloat kWide>
uint32_t store_wide(double v) {
  const auto x = static_cast<float>(v);
  if constexpr (kWide == WideFloat::f32) return bits(x);
  return kWide == WideFloat::f16 ? half_nearest(x) : float_to_bf16(x);
}

// The power of two of a scale operand; `narrows`: its inverse.
inline double scale_factor(uint32_t operand, bool narrows) {
  const int e = static_cast<int>(operand >> 23 & 0xff);
  if (e == 255) return kNan64;
  return pow2i(narrows ? 127 - e : e - 127);
}

// `rows` consecutive registers of a source, copied, because the destination may overlap them; signs applied to each.
template <int kRows>
struct SourceRows {
  alignas(64) uint32_t v[kRows][kLanes];
};
template <int kRows>
void copy_source(const Wave& w, const Operand& o, SourceRows<kRows>* out) {
  for (int r = 0; r < kRows; ++r) {
    Operand one = o;
    if (o.kind == OperandKind::vgpr || o.kind == OperandKind::agpr) one.reg = static_cast<uint16_t>(o.reg + r);
    const uint32_t* p = source<F32>(w, one, out->v[r]);
    if (p != out->v[r]) std::memcpy(out->v[r], p, sizeof out->v[r]);
  }
}

// Writes `width` bits at bit `shift` of the destination, the others are kept.
inline void merge_field(Wave& w, const Inst& in, const uint32_t* fresh, uint32_t width, uint32_t shift) {
  uint32_t* dst = w.row(row_index(w, in.dst));
  const uint32_t mask = low_bits(width) << shift;
  alignas(64) uint32_t merged[kLanes];
  for (int i = 0; i < kLanes; ++i) merged[i] = (dst[i] & ~mask) | (fresh[i] << shift & mask);
  blend(dst, merged, w.exec());
}
template <int kRows>
void write_rows(Wave& w, const Inst& in, const SourceRows<kRows>& fresh) {
  uint32_t* dst = w.row(row_index(w, in.dst));
  for (int r = 0; r < kRows; ++r) blend(dst + r * kLanes, fresh.v[r], w.exec());
}

// Two values to two small floats in a byte (4-bit formats) or half of the destination, which op_sel names.
template <SmallFloat kSmall, WideFloat kWide, bool kStochastic>
void scaled_pack(Wave& w, const Inst& in) {
  constexpr bool kApart = kWide == WideFloat::f32 && !kStochastic;  // the two values in sources of their own
  constexpr int kFirstRows = kWide == WideFloat::f32 && kStochastic ? 2 : 1;
  SourceRows<kFirstRows> first;
  SourceRows<1> second, scale;
  copy_source(w, in.src[0], &first);
  copy_source(w, in.src[1], &second);
  copy_source(w, in.src[kApart || kStochastic ? 2 : 1], &scale);
  constexpr int kBits = format_of(kSmall).bits();
  alignas(64) uint32_t fresh[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t low = first.v[0][i];
    const uint32_t high = kApart ? second.v[0][i] : kFirstRows == 2 ? first.v[kFirstRows - 1][i] : low >> 16;
    const double factor = scale_factor(scale.v[0][i], true);
    const double a = load_wide<kWide>(low) * factor, b = load_wide<kWide>(high) * factor;
    const FloatFormat& f = format_of(kSmall);
    if constexpr (kStochastic) {
      const uint32_t noise = second.v[0][i];
      fresh[i] = float_to_small_stochastic(a, f, noise, w.mode.fp16_ovfl) |
                 float_to_small_stochastic(b, f, next_random(noise), w.mode.fp16_ovfl) << kBits;
    } else {
      fresh[i] = float_to_small(a, f, w.mode.fp16_ovfl) | float_to_small(b, f, w.mode.fp16_ovfl) << kBits;
    }
  }
  const uint32_t place = in.op_sel >> 2 & 3u;
  merge_field(w, in, fresh, 2 * kBits, kBits == 4 ? 8 * place : 16 * (place >> 1));
}

// One value to a byte of the destination, rounded stochastically.
template <SmallFloat kSmall, WideFloat kWide>
void scaled_narrow_one(Wave& w, const Inst& in) {
  SourceRows<1> value, noise, scale;
  copy_source(w, in.src[0], &value);
  copy_source(w, in.src[1], &noise);
  copy_source(w, in.src[2], &scale);
  alignas(64) uint32_t fresh[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const double v = load_wide<kWide>(value.v[0][i]) * scale_factor(scale.v[0][i], true);
    fresh[i] = float_to_small_stochastic(v, format_of(kSmall), noise.v[0][i], w.mode.fp16_ovfl);
  }
  merge_field(w, in, fresh, 8, 8 * (in.op_sel >> 2 & 3u));
}

// Two small floats of the half (of the byte) of the source that op_sel names.
template <SmallFloat kSmall, WideFloat kWide>
void scaled_unpack(Wave& w, const Inst& in) {
  constexpr int kBits = format_of(kSmall).bits(), kRows = kWide == WideFloat::f32 ? 2 : 1;
  SourceRows<1> packed, scale;
  copy_source(w, in.src[0], &packed);
  copy_source(w, in.src[1], &scale);
  const uint32_t shift = kBits == 4 ? 8 * (in.op_sel & 3u) : 16 * (in.op_sel & 1u);
  SourceRows<kRows> fresh;
  for (int i = 0; i < kLanes; ++i) {
    const double factor = scale_factor(scale.v[0][i], false);
    const uint32_t pair = packed.v[0][i] >> shift;
    const uint32_t low = store_wide<kWide>(small_to_float(pair & low_bits(kBits), format_of(kSmall)) * factor);
    const uint32_t high =
        store_wide<kWide>(small_to_float(pair >> kBits & low_bits(kBits), format_of(kSmall)) * factor);
    fresh.v[0][i] = kRows == 2 ? low : low | high << 16;
    fresh.v[kRows - 1][i] = kRows == 2 ? high : fresh.v[0][i];
  }
  write_rows(w, in, fresh);
}

// The byte of the source that op_sel names; a result of 16 bits goes to the half that op_sel names.
template <SmallFloat kSmall, WideFloat kWide>
void scaled_widen_one(Wave& w, const Inst& in) {
  SourceRows<1> packed, scale;
  copy_source(w, in.src[0], &packed);
  copy_source(w, in.src[1], &scale);
  const uint32_t shift = 8 * (in.op_sel & 3u);
  alignas(64) uint32_t fresh[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const float v = small_to_float(packed.v[0][i] >> shift & 0xff, format_of(kSmall));
    fresh[i] = store_wide<kWide>(v * scale_factor(scale.v[0][i], false));
  }
  constexpr int kBits = wide_bits(kWide);
  merge_field(w, in, fresh, kBits, kBits == 16 && (in.op_sel & 8) ? 16 : 0);
}

// 32 elements of 6 bits in six registers.
using PackedSix = SourceRows<6>;
inline void put_six(PackedSix* out, int lane, int n, uint32_t code) {
  const int bit = 6 * n, word = bit / 32, shift = bit % 32;
  out->v[word][lane] |= code << shift;
  if (shift > 26) out->v[word + 1][lane] |= code >> (32 - shift);
}
template <WideFloat kWide, int kRows>
double wide_element(const SourceRows<kRows>& rows, int lane, int n) {
  if constexpr (kWide == WideFloat::f32) return load_wide<kWide>(rows.v[n][lane]);
  return load_wide<kWide>(rows.v[n / 2][lane] >> (16 * (n % 2)));
}

template <SmallFloat kSmall, WideFloat kWide, bool kStochastic>
void scaled_narrow_32(Wave& w, const Inst& in) {
  SourceRows<wide_bits(kWide)> values;  // 32 elements
  SourceRows<1> noise, scale;
  copy_source(w, in.src[0], &values);
  copy_source(w, in.src[1], &noise);
  copy_source(w, in.src[kStochastic ? 2 : 1], &scale);
  PackedSix fresh{};
  for (int i = 0; i < kLanes; ++i) {
    const double factor = scale_factor(scale.v[0][i], true);
    uint32_t random = noise.v[0][i];
    for (int n = 0; n < 32; ++n) {
      const double v = wide_element<kWide>(values, i, n) * factor;
      put_six(&fresh, i, n,
              kStochastic ? float_to_small_stochastic(v, format_of(kSmall), random, false)
                          : float_to_small(v, format_of(kSmall), false));
      random = next_random(random);
    }
  }
  write_rows(w, in, fresh);
}

// Elements of the two sources in turn.
template <SmallFloat kSmall>
void scaled_interleave(Wave& w, const Inst& in) {
  SourceRows<16> even, odd;
  SourceRows<1> scale;
  copy_source(w, in.src[0], &even);
  copy_source(w, in.src[1], &odd);
  copy_source(w, in.src[2], &scale);
  PackedSix fresh{};
  for (int i = 0; i < kLanes; ++i) {
    const double factor = scale_factor(scale.v[0][i], true);
    for (int n = 0; n < 32; ++n) {
      const double v = f32((n % 2 ? odd : even).v[n / 2][i]);
      put_six(&fresh, i, n, float_to_small(v * factor, format_of(kSmall), false));
    }
  }
  write_rows(w, in, fresh);
}

template <SmallFloat kSmall, WideFloat kWide>
void scaled_widen_32(Wave& w, const Inst& in) {
  PackedSix packed;
  SourceRows<1> scale;
  copy_source(w, in.src[0], &packed);
  copy_source(w, in.src[1], &scale);
  SourceRows<wide_bits(kWide)> fresh{};
  for (int i = 0; i < kLanes; ++i) {
    const double factor = scale_factor(scale.v[0][i], false);
    for (int n = 0; n < 32; ++n) {
      const float v = small_to_float(packed_element(&packed.v[0][i], n, 6), format_of(kSmall));
      const uint32_t wide = store_wide<kWide>(v * factor);
      if constexpr (kWide == WideFloat::f32)
        fresh.v[n][i] = wide;
      else
        fresh.v[n / 2][i] |= wide << (16 * (n % 2));
    }
  }
  write_rows(w, in, fresh);
}

}  // namespace HIPSYNTH_ISA
