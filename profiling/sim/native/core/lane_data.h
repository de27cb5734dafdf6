// Moving one lane's bytes between memory and vector registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/inst.h"

namespace hipsynth {

inline uint32_t load32(const void* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// Loads narrower than a dword: extension, or one half of the register.
inline uint32_t narrow_value(const MemDesc& m, const void* p, uint32_t old) {
  uint32_t v = 0;
  std::memcpy(&v, p, m.elem_bytes);
  if (m.sign_extend) {
    const int unused = 32 - 8 * m.elem_bytes;
    v = static_cast<uint32_t>(static_cast<int32_t>(v << unused) >> unused);
  }
  if (m.d16 == 1) return (old & 0xffff0000u) | (v & 0xffffu);
  if (m.d16 == 2) return (old & 0xffffu) | v << 16;
  return v;
}

// `row` is the first destination row; row k of the tuple lies k * kLanes further.
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

inline uint64_t lane_value(const uint32_t* row, uint32_t lane, uint32_t bytes) {
  return bytes == 8 ? row[lane] | static_cast<uint64_t>(row[kLanes + lane]) << 32 : row[lane];
}

inline void set_lane_value(uint32_t* row, uint32_t lane, uint32_t bytes, uint64_t v) {
  row[lane] = static_cast<uint32_t>(v);
  if (bytes == 8) row[kLanes + lane] = static_cast<uint32_t>(v >> 32);
}

}  // namespace hipsynth
