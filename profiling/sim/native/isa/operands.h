// Fetching operands into rows and writing results back under EXEC.
#pragma once

#include <immintrin.h>

#include "core/inst.h"
#include "isa/alu.h"
#include "lanes.h"

#define HIPSYNTH_LANE_LOOP _Pragma("clang loop vectorize(assume_safety)")

namespace HIPSYNTH_ISA {

using hipsynth::FpMode;
using hipsynth::Inst;
using hipsynth::Operand;
using hipsynth::OperandKind;
using hipsynth::Special;
using hipsynth::Wave;

inline uint32_t row_index(const Wave& w, const Operand& o) {
  return o.kind == OperandKind::agpr ? w.accum_offset + o.reg : o.reg;
}

// Scalar value of a non-vector operand, `rows` dwords wide.
inline uint64_t read_special(const Wave& w, uint16_t which) {
  switch (static_cast<Special>(which)) {
    case Special::vccz:
      return w.vcc() == 0;
    case Special::execz:
      return w.exec() == 0;
    case Special::scc:
      return w.scc;
    case Special::shared_base:
      return hipsynth::kSharedBase;
    case Special::shared_limit:
      return hipsynth::kSharedBase | 0xffffffffull;
    case Special::private_base:
      return hipsynth::kPrivateBase;
    case Special::private_limit:
      return hipsynth::kPrivateBase | 0xffffffffull;
    default:
      return 0;
  }
}
template <int kRows>
inline uint64_t read_scalar(const Wave& w, const Operand& o) {
  if (o.kind == OperandKind::sgpr) return kRows == 2 ? w.sgpr64(o.reg) : w.sgpr[o.reg];
  if (o.kind == OperandKind::constant) return o.value;
  if (o.kind == OperandKind::special) return read_special(w, o.reg);
  return 0;
}

inline void splat(uint32_t* out, uint32_t v) {
  for (int i = 0; i < kLanes; ++i) out[i] = v;
}

// Widens one bit per lane to 0 or 1.
inline void expand_mask(uint32_t* out, uint64_t m) {
  const uint32_t lo = static_cast<uint32_t>(m), hi = static_cast<uint32_t>(m >> 32);
  for (int i = 0; i < 32; ++i) out[i] = (lo >> i) & 1u;
  for (int i = 0; i < 32; ++i) out[32 + i] = (hi >> i) & 1u;
}
inline uint64_t pack_mask(const uint32_t* e) {
  uint64_t m = 0;
#ifdef __AVX512F__
  const __m512i one = _mm512_set1_epi32(1);
  for (int k = 0; k < 4; ++k) {
    m |= static_cast<uint64_t>(_mm512_test_epi32_mask(_mm512_load_si512(e + 16 * k), one)) << (16 * k);
  }
#else
  for (int k = 0; k < 8; ++k) {
    const __m256i v = _mm256_slli_epi32(_mm256_load_si256(reinterpret_cast<const __m256i*>(e + 8 * k)), 31);
    m |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(v)))) << (8 * k);
  }
#endif
  return m;
}
// d[i] = v[i] for lanes of `mask`. The empty asm keeps the compiler from merging blend and store into a masked store,
// which is several times slower. 256-bit vectors at both levels: 512-bit blends measured no faster.
inline void blend(uint32_t* d, const uint32_t* v, uint64_t mask) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (int k = 0; k < 8; ++k) {
    const __m256i m = _mm256_set1_epi32(static_cast<int>(mask >> (8 * k)) & 0xff);
    const __m256i on = _mm256_cmpeq_epi32(_mm256_and_si256(m, bit), bit);
    auto* p = reinterpret_cast<__m256i*>(d + 8 * k);
    const __m256i fresh = _mm256_load_si256(reinterpret_cast<const __m256i*>(v + 8 * k));
    __m256i mixed = _mm256_blendv_epi8(_mm256_loadu_si256(p), fresh, on);
    asm("" : "+x"(mixed));
    _mm256_storeu_si256(p, mixed);
  }
}

// abs, then neg, on the sign bits of a materialised operand (at most one packed half per bit of neg_lo/neg_hi is
// handled by the general path).
inline void apply_sign(uint32_t* rows, Cls cls, bool neg, bool abs) {
  const uint32_t bit = cls == Cls::f16 || cls == Cls::i16 || cls == Cls::u16 ? 0x8000u : 0x80000000u;
  uint32_t* p = cls == Cls::f64 || cls == Cls::bits64 ? rows + kLanes : rows;
  const uint32_t keep = abs ? ~bit : ~0u, flip = neg ? bit : 0u;
  for (int i = 0; i < kLanes; ++i) p[i] = (p[i] & keep) ^ flip;
}

// Splats a scalar or copies a row, applying neg and abs. `out` has room for 2 rows.
template <Cls kCls, int kRows>
[[gnu::noinline]] const uint32_t* materialise(const Wave& w, const Operand& o, uint32_t* out) {
  if constexpr (kCls == Cls::mask) {
    expand_mask(out, read_scalar<2>(w, o));
    return out;
  }
  if (o.kind == OperandKind::vgpr || o.kind == OperandKind::agpr) {
    const uint32_t* row = w.row(row_index(w, o));
    if (!(o.neg | o.abs)) return row;
    std::memcpy(out, row, sizeof(uint32_t) * kLanes * kRows);
  } else {
    const uint64_t v = read_scalar<kRows>(w, o);
    splat(out, static_cast<uint32_t>(v));
    if constexpr (kRows == 2) splat(out + kLanes, static_cast<uint32_t>(v >> 32));
  }
  if (o.neg | o.abs) apply_sign(out, kCls, o.neg, o.abs);
  return out;
}
template <class Ty>
inline const uint32_t* source(const Wave& w, const Operand& o, uint32_t* buffer) {
  if constexpr (Ty::kRows == 0) return nullptr;
  if constexpr (Ty::kCls != Cls::mask) {
    if (o.kind == OperandKind::vgpr && !(o.neg | o.abs)) [[likely]]
      return w.row(o.reg);
  }
  return materialise<Ty::kCls, (Ty::kRows > 1 ? 2 : 1)>(w, o, buffer);
}

}  // namespace HIPSYNTH_ISA
