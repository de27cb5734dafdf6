// One vector memory instruction of a wave, and the coalesced form of a load.
#pragma once

#include <array>
#include <cstdint>

#include "memory/coalescer.h"

namespace hipsynth {

enum class Access : uint8_t { load, store, atomic };

struct WaveAccess {
  Access kind = Access::load;
  uint32_t bytes = 4;  // per lane
  uint64_t exec = 0;
  const uint64_t* address = nullptr;  // [64]
  bool contiguous = false;            // lane i at address[0] + i * bytes, all lanes active
  bool returns = true;                // atomics
  bool streaming = false;             // nontemporal stores: the data is not expected to be read again
};

// The coalesced form of a vector load. It is independent of the address, for a given start within the first vL1D line.
struct LoadShape {
  uint32_t bytes = 0;  // per lane
  uint32_t look_ups = 0, cycles = 0;
  uint32_t n = 0;                          // consecutive look-ups of vL1D lines
  std::array<int64_t, kMaxSegments> line;  // [n], relative to the line of the first active lane's address
};

}  // namespace hipsynth
