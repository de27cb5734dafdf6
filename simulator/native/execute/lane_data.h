// Moves one lane's bytes between memory and vector registers.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/inst.h"

namespace hipsynth {

inline uint32_t load32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// Result of a load narrower than a dword: extended, or inserted into one half of the register.
inline uint32_t narrow_value(const MemDesc& m, const void* p, uint32_t old) {
  uint32_t v = *static_cast<const uint8_t*>(p);
  if (m.elem_bytes == 2) v |= static_cast<uint32_t>(static_cast<const uint8_t*>(p)[1]) << 8;
  if (m.sign_extend) {
    const int unused = 32 - 8 * m.elem_bytes;
    v = static_cast<uint32_t>(static_cast<int32_t>(v << unused) >> unused);
  }
  if (m.d16 == 1) return (old & 0xffff0000u) | (v & 0xffffu);
  if (m.d16 == 2) return (old & 0xffffu) | v << 16;
  return v;
}

// `row` is the first destination row; row k of the tuple is k * kLanes dwords further.
inline void load_lane(const MemDesc& m, uint32_t lane_bytes, uint32_t* row, uint32_t lane, const uint8_t* p) {
  if (lane_bytes < 4) {
    row[lane] = narrow_value(m, p, row[lane]);
    return;
  }
  for (uint32_t k = 0; k < lane_bytes / 4; ++k) row[k * kLanes + lane] = load32(p + 4 * k);
}

inline void store_lane(const MemDesc& m, uint32_t lane_bytes, const uint32_t* row, uint32_t lane, uint8_t* p) {
  if (lane_bytes < 4) {
    const uint32_t v = m.d16 == 2 ? row[lane] >> 16 : row[lane];
    std::memcpy(p, &v, lane_bytes);
    return;
  }
  for (uint32_t k = 0; k < lane_bytes / 4; ++k) std::memcpy(p + 4 * k, &row[k * kLanes + lane], 4);
}

// Calls f(lane) for every active lane; has a fast path for the usual case that all are active.
template <typename F>
inline void for_lanes(uint64_t exec, F&& f) {
  if (exec == ~0ull) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) f(lane);
    return;
  }
  for (uint64_t rest = exec; rest; rest &= rest - 1) f(static_cast<uint32_t>(std::countr_zero(rest)));
}

// Calls f with the lane's width as a compile-time constant, which gives straight-line code.
template <typename F>
inline void with_width(uint32_t lane_bytes, F&& f) {
  switch (lane_bytes) {
    case 1:
      return f(std::integral_constant<uint32_t, 1>{});
    case 2:
      return f(std::integral_constant<uint32_t, 2>{});
    case 4:
      return f(std::integral_constant<uint32_t, 4>{});
    case 8:
      return f(std::integral_constant<uint32_t, 8>{});
    case 12:
      return f(std::integral_constant<uint32_t, 12>{});
    default:
      return f(std::integral_constant<uint32_t, 16>{});
  }
}

inline uint64_t lane_value(const uint32_t* row, uint32_t lane, uint32_t bytes) {
  return bytes == 8 ? row[lane] | static_cast<uint64_t>(row[kLanes + lane]) << 32 : row[lane];
}

inline void set_lane_value(uint32_t* row, uint32_t lane, uint32_t bytes, uint64_t v) {
  row[lane] = static_cast<uint32_t>(v);
  if (bytes == 8) row[kLanes + lane] = static_cast<uint32_t>(v >> 32);
}

// Eight lanes of one register.
using Words = uint32_t __attribute__((ext_vector_type(8), aligned(4)));
inline Words words_at(const void* p) {
  Words v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void put_words(void* p, const Words& v) { std::memcpy(p, &v, sizeof v); }

// Transfers elements of 1, 2 or 4 consecutive dwords in memory from or to one register row per dword.
template <int kDwords>
inline void load_block(uint32_t* row, const uint8_t* p) {
  if constexpr (kDwords == 1) {
    std::memcpy(row, p, kLanes * sizeof *row);
  } else if constexpr (kDwords == 2) {
    for (int i = 0; i < kLanes; i += 8, p += 64) {
      const Words a = words_at(p), b = words_at(p + 32);
      put_words(row + i, __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14));
      put_words(row + kLanes + i, __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15));
    }
  } else {
    for (int i = 0; i < kLanes; i += 8, p += 128) {
      const Words a = words_at(p), b = words_at(p + 32), c = words_at(p + 64), d = words_at(p + 96);
      const Words ab01 = __builtin_shufflevector(a, b, 0, 4, 8, 12, 1, 5, 9, 13);
      const Words cd01 = __builtin_shufflevector(c, d, 0, 4, 8, 12, 1, 5, 9, 13);
      const Words ab23 = __builtin_shufflevector(a, b, 2, 6, 10, 14, 3, 7, 11, 15);
      const Words cd23 = __builtin_shufflevector(c, d, 2, 6, 10, 14, 3, 7, 11, 15);
      put_words(row + i, __builtin_shufflevector(ab01, cd01, 0, 1, 2, 3, 8, 9, 10, 11));
      put_words(row + kLanes + i, __builtin_shufflevector(ab01, cd01, 4, 5, 6, 7, 12, 13, 14, 15));
      put_words(row + 2 * kLanes + i, __builtin_shufflevector(ab23, cd23, 0, 1, 2, 3, 8, 9, 10, 11));
      put_words(row + 3 * kLanes + i, __builtin_shufflevector(ab23, cd23, 4, 5, 6, 7, 12, 13, 14, 15));
    }
  }
}

template <int kDwords>
inline void store_block(const uint32_t* row, uint8_t* p) {
  if constexpr (kDwords == 1) {
    std::memcpy(p, row, kLanes * sizeof *row);
  } else if constexpr (kDwords == 2) {
    for (int i = 0; i < kLanes; i += 8, p += 64) {
      const Words a = words_at(row + i), b = words_at(row + kLanes + i);
      put_words(p, __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
      put_words(p + 32, __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
    }
  } else {
    for (int i = 0; i < kLanes; i += 8, p += 128) {
      const Words a = words_at(row + i), b = words_at(row + kLanes + i);
      const Words c = words_at(row + 2 * kLanes + i), d = words_at(row + 3 * kLanes + i);
      const Words ab0 = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
      const Words ab4 = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      const Words cd0 = __builtin_shufflevector(c, d, 0, 8, 1, 9, 2, 10, 3, 11);
      const Words cd4 = __builtin_shufflevector(c, d, 4, 12, 5, 13, 6, 14, 7, 15);
      put_words(p, __builtin_shufflevector(ab0, cd0, 0, 1, 8, 9, 2, 3, 10, 11));
      put_words(p + 32, __builtin_shufflevector(ab0, cd0, 4, 5, 12, 13, 6, 7, 14, 15));
      put_words(p + 64, __builtin_shufflevector(ab4, cd4, 0, 1, 8, 9, 2, 3, 10, 11));
      put_words(p + 96, __builtin_shufflevector(ab4, cd4, 4, 5, 12, 13, 6, 7, 14, 15));
    }
  }
}

// Loads all 64 lanes at once; false if the width is not supported.
inline bool load_block(uint32_t lane_bytes, uint32_t* row, const uint8_t* p) {
  if (lane_bytes == 4) load_block<1>(row, p);
  if (lane_bytes == 8) load_block<2>(row, p);
  if (lane_bytes == 16) load_block<4>(row, p);
  return lane_bytes == 4 || lane_bytes == 8 || lane_bytes == 16;
}
inline bool store_block(uint32_t lane_bytes, const uint32_t* row, uint8_t* p) {
  if (lane_bytes == 4) store_block<1>(row, p);
  if (lane_bytes == 8) store_block<2>(row, p);
  if (lane_bytes == 16) store_block<4>(row, p);
  return lane_bytes == 4 || lane_bytes == 8 || lane_bytes == 16;
}

}  // namespace hipsynth
