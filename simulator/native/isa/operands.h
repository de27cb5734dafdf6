// Fetches operands into rows and writes results back under EXEC.
#pragma once

#include <immintrin.h>

#include <array>

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

// Expands a lane mask to 0 or 1 per lane.
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
inline constexpr int kChunk = 16;  // lanes per vector: one AVX-512 register, two AVX2 ones
inline constexpr int kChunks = kLanes / kChunk;

using V16u = uint32_t __attribute__((ext_vector_type(16), aligned(4)));
using V16i = int32_t __attribute__((ext_vector_type(16), aligned(4)));

inline V16u load_chunk(const uint32_t* p) {
  V16u v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store_chunk(uint32_t* p, V16u v) { std::memcpy(p, &v, sizeof v); }

// -1 for each set bit of `bits`, else 0.
inline V16i widen_bits(uint32_t bits) {
#ifdef __AVX512DQ__
  return std::bit_cast<V16i>(_mm512_movm_epi32(static_cast<__mmask16>(bits)));
#else
  constexpr V16u kBit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return (V16u(bits) & kBit) == kBit;
#endif
}
// A mask of the lanes whose value is not 0.
inline uint32_t narrow_bits(V16i v) {
#ifdef __AVX512DQ__
  return _mm512_test_epi32_mask(std::bit_cast<__m512i>(v), std::bit_cast<__m512i>(v));
#else
  const auto halves = std::bit_cast<std::array<__m256, 2> >(v != 0);
  return static_cast<uint32_t>(_mm256_movemask_ps(halves[0])) | static_cast<uint32_t>(_mm256_movemask_ps(halves[1]))
                                                                    << 8;
#endif
}
// Keeps a value in a vector register. Without it the compiler merges loads, blends and stores into masked loads and
// stores, which prevent store forwarding on the host; that costs more than processing a whole row.
inline void pin(V16u& v) {
#ifdef __AVX512DQ__
  asm("" : "+v"(v));
#else
  auto halves = std::bit_cast<std::array<__m256i, 2> >(v);
  asm("" : "+x"(halves[0]), "+x"(halves[1]));
  v = std::bit_cast<V16u>(halves);
#endif
}
inline void blend_chunk(uint32_t* p, V16u v, uint32_t bits) {
  V16u old = load_chunk(p);
  pin(old);
  pin(v);
  V16u mixed = widen_bits(bits) ? v : old;
  pin(mixed);
  store_chunk(p, mixed);
}
// d[i] = v[i] for lanes of `mask`.
inline void blend(uint32_t* d, const uint32_t* v, uint64_t mask) {
#pragma unroll
  for (int k = 0; k < kLanes; k += kChunk) {
    blend_chunk(d + k, load_chunk(v + k), static_cast<uint32_t>(mask >> k) & 0xffffu);
  }
}

// Applies abs, then neg, to the sign bits of a materialised operand (neg_lo/neg_hi of packed halves are handled by the
// general path).
inline void apply_sign(uint32_t* rows, Cls cls, bool neg, bool abs) {
  const uint32_t bit = cls == Cls::f16 || cls == Cls::i16 || cls == Cls::u16 ? 0x8000u : 0x80000000u;
  uint32_t* p = cls == Cls::f64 || cls == Cls::bits64 ? rows + kLanes : rows;
  const uint32_t keep = abs ? ~bit : ~0u, flip = neg ? bit : 0u;
  for (int i = 0; i < kLanes; ++i) p[i] = (p[i] & keep) ^ flip;
}

// Broadcasts a scalar or copies a row, applying neg and abs. `out` has room for 2 rows.
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
