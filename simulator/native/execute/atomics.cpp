#include "execute/atomics.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace hipsynth {
namespace {

template <class T>
T load(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// A read-modify-write of one element of type T; `op(old, data, compare)` gives the new value.
template <class T, class Op>
uint64_t modify(void* p, uint64_t data, uint64_t compare, Op op) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T old = load<T>(p);
  const T fresh = op(old, std::bit_cast<T>(static_cast<Bits>(data)), std::bit_cast<T>(static_cast<Bits>(compare)));
  std::memcpy(p, &fresh, sizeof fresh);
  return std::bit_cast<Bits>(old);
}

template <class T>
T add(T a, T b, T) {
  return a + b;
}
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }
float add_flushed(float a, float b, float) { return flushed(flushed(a) + flushed(b)); }
template <class T>
T sub(T a, T b, T) {
  return a - b;
}
template <class T>
T rsub(T a, T b, T) {
  return b - a;
}
template <class T>
T inc(T a, T b, T) {
  return a >= b ? 0 : a + 1;
}
template <class T>
T dec(T a, T b, T) {
  return a == 0 || a > b ? b : a - 1;
}
template <class T>
T least(T a, T b, T) {
  return std::min(a, b);
}
template <class T>
T most(T a, T b, T) {
  return std::max(a, b);
}
template <class T>
T conj(T a, T b, T) {
  return a & b;
}
template <class T>
T disj(T a, T b, T) {
  return a | b;
}
template <class T>
T exclusive(T a, T b, T) {
  return a ^ b;
}
template <class T>
T masked_or(T a, T mask, T bits) {
  return (a & ~mask) | bits;
}
template <class T>
T swap(T, T b, T) {
  return b;
}
template <class T>
T compare_swap(T a, T b, T c) {
  return a == c ? b : a;
}
// A number wins over a quiet NaN, a signalling one is stored quieted, and -0 < +0 (CDNA3 ISA, section 9.2.3).
template <class T>
T choose_number(T a, T b, bool first) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr Bits kQuiet = Bits{1} << (sizeof(T) == 4 ? 22 : 51);
  for (const T x : {a, b}) {
    const Bits code = std::bit_cast<Bits>(x);
    if (std::isnan(x) && !(code & kQuiet)) return std::bit_cast<T>(code | kQuiet);
  }
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  return first ? a : b;
}
template <class T>
T fmin_op(T a, T b, T) {
  return choose_number(a, b, a < b || (a == b && std::signbit(a)));
}
template <class T>
T fmax_op(T a, T b, T) {
  return choose_number(a, b, a > b || (a == b && !std::signbit(a)));
}
template <class T>
T wrap_op(T a, T b, T c) {
  return a >= b ? a - b : a + c;
}

// For each dword, stores the low 31 bits of its data if the top bit of the data is set.
uint64_t exchange_if(uint64_t a, uint64_t b, uint64_t) {
  for (const uint64_t half : {0xffffffffull, 0xffffffff00000000ull}) {
    if (b & half & 0x8000000080000000ull) a = (a & ~half) | (b & half & 0x7fffffff7fffffffull);
  }
  return a;
}

uint32_t add_f16_pair(uint32_t a, uint32_t b, uint32_t) {
  const auto half = [](uint32_t v) { return static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(v))); };
  const auto bits = [](float v) { return static_cast<uint32_t>(std::bit_cast<uint16_t>(static_cast<_Float16>(v))); };
  return bits(half(a) + half(b)) | bits(half(a >> 16) + half(b >> 16)) << 16;
}

uint32_t add_bf16_pair(uint32_t a, uint32_t b, uint32_t) {
  const auto bits = [](uint32_t x, uint32_t y) {  // x and y hold the value in their upper half
    const float sum = std::bit_cast<float>(x & 0xffff0000u) + std::bit_cast<float>(y & 0xffff0000u);
    const uint32_t v = std::bit_cast<uint32_t>(sum);
    if (std::isnan(sum)) return (v >> 16) | 0x40u;
    return (v + 0x7fff + (v >> 16 & 1)) >> 16;  // round to nearest even
  };
  return bits(a << 16, b << 16) | bits(a, b) << 16;
}

template <class T, T (*op)(T, T, T)>
uint64_t apply(void* p, uint64_t data, uint64_t compare) {
  return modify<T>(p, data, compare, op);
}

std::atomic<uint64_t> dispatches = 0;  // since the start

// A sum in memory as it was left there, and what rounding it lost.
template <class T, class Wide>
struct ExactSum {
  T left{};
  Wide lost = 0;
};

template <class T, bool flushes = false>
T add_exactly(void* p, T old, T more) {
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  thread_local std::unordered_map<const void*, ExactSum<T, Wide>> sums;
  thread_local uint64_t dispatch = 0;
  if (const uint64_t now = dispatches.load(std::memory_order_relaxed); dispatch != now) {
    sums.clear();
    dispatch = now;
  }
  auto& sum = sums[p];
  if (sum.left != old) sum.lost = 0;  // something else was stored there
  const Wide exact = static_cast<Wide>(old) + sum.lost + static_cast<Wide>(more);
  sum.left = static_cast<T>(exact);
  if constexpr (flushes) sum.left = flushed(sum.left);
  sum.lost = std::isfinite(sum.left) ? exact - static_cast<Wide>(sum.left) : 0;
  return sum.left;
}

template <class T, bool flushes = false>
uint64_t apply_exactly(void* p, uint64_t data, uint64_t) {
  return modify<T>(p, data, 0, [p](T old, T more, T) {
    if constexpr (flushes) return add_exactly<T, true>(p, flushed(old), flushed(more));
    return add_exactly<T>(p, old, more);
  });
}

using Row = std::pair<MemOp, AtomicFn>;

constexpr Row kRows[] = {
    {MemOp::add_u32, apply<uint32_t, add>},
    {MemOp::add_u64, apply<uint64_t, add>},
    {MemOp::sub_u32, apply<uint32_t, sub>},
    {MemOp::sub_u64, apply<uint64_t, sub>},
    {MemOp::rsub_u32, apply<uint32_t, rsub>},
    {MemOp::rsub_u64, apply<uint64_t, rsub>},
    {MemOp::inc_u32, apply<uint32_t, inc>},
    {MemOp::inc_u64, apply<uint64_t, inc>},
    {MemOp::dec_u32, apply<uint32_t, dec>},
    {MemOp::dec_u64, apply<uint64_t, dec>},
    {MemOp::min_i32, apply<int32_t, least>},
    {MemOp::min_i64, apply<int64_t, least>},
    {MemOp::max_i32, apply<int32_t, most>},
    {MemOp::max_i64, apply<int64_t, most>},
    {MemOp::min_u32, apply<uint32_t, least>},
    {MemOp::min_u64, apply<uint64_t, least>},
    {MemOp::max_u32, apply<uint32_t, most>},
    {MemOp::max_u64, apply<uint64_t, most>},
    {MemOp::and_b32, apply<uint32_t, conj>},
    {MemOp::and_b64, apply<uint64_t, conj>},
    {MemOp::or_b32, apply<uint32_t, disj>},
    {MemOp::or_b64, apply<uint64_t, disj>},
    {MemOp::xor_b32, apply<uint32_t, exclusive>},
    {MemOp::xor_b64, apply<uint64_t, exclusive>},
    {MemOp::mskor_b32, apply<uint32_t, masked_or>},
    {MemOp::mskor_b64, apply<uint64_t, masked_or>},
    {MemOp::swap_b32, apply<uint32_t, swap>},
    {MemOp::swap_b64, apply<uint64_t, swap>},
    {MemOp::cmpswap_b32, apply<uint32_t, compare_swap>},
    {MemOp::cmpswap_b64, apply<uint64_t, compare_swap>},
    {MemOp::cmpswap_f32, apply<float, compare_swap>},
    {MemOp::cmpswap_f64, apply<double, compare_swap>},
    {MemOp::wrap_b32, apply<uint32_t, wrap_op>},
    {MemOp::condxchg_b64, apply<uint64_t, exchange_if>},
    {MemOp::add_f32, apply<float, add>},
    {MemOp::add_f64, apply<double, add>},
    {MemOp::min_f32, apply<float, fmin_op>},
    {MemOp::min_f64, apply<double, fmin_op>},
    {MemOp::max_f32, apply<float, fmax_op>},
    {MemOp::max_f64, apply<double, fmax_op>},
    {MemOp::pk_add_f16, apply<uint32_t, add_f16_pair>},
    {MemOp::pk_add_bf16, apply<uint32_t, add_bf16_pair>},
};

}  // namespace

AtomicFn find_atomic(MemOp op, bool flushes, bool exact_sums) {
  if (exact_sums && op == MemOp::add_f32) return flushes ? apply_exactly<float, true> : apply_exactly<float>;
  if (exact_sums && op == MemOp::add_f64) return apply_exactly<double>;
  if (flushes && op == MemOp::add_f32) return apply<float, add_flushed>;
  for (const auto& [name, fn] : kRows) {
    if (name == op) return fn;
  }
  return nullptr;
}

void begin_exact_sums() { ++dispatches; }

AtomicFn find_flushing(AtomicFn fn) {
  if (fn == AtomicFn{apply<float, add>}) return apply<float, add_flushed>;
  if (fn == AtomicFn{apply_exactly<float>}) return apply_exactly<float, true>;
  return fn;
}

bool commutes(MemOp op) {
  switch (op) {
    case MemOp::add_u32:
    case MemOp::add_u64:
    case MemOp::sub_u32:
    case MemOp::sub_u64:
    case MemOp::min_i32:
    case MemOp::min_i64:
    case MemOp::max_i32:
    case MemOp::max_i64:
    case MemOp::min_u32:
    case MemOp::min_u64:
    case MemOp::max_u32:
    case MemOp::max_u64:
    case MemOp::and_b32:
    case MemOp::and_b64:
    case MemOp::or_b32:
    case MemOp::or_b64:
    case MemOp::xor_b32:
    case MemOp::xor_b64:
      return true;
    default:
      return false;
  }
}

}  // namespace hipsynth
