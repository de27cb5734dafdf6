// Bank conflicts: the cost of one LDS instruction on the 32 banks of a CU.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/wave.h"

namespace hipsynth {

struct LdsAccess {
  const uint32_t* address;  // byte address of every lane
  uint32_t base;            // added to each, modulo 2^32
  uint64_t exec;            // not 0
  uint32_t bytes;           // per lane
  bool atomic;
};

struct BankCost {
  uint32_t cycles = 0, conflicts = 0, repeats = 0;  // repeats: atomic accesses to a dword shared with other lanes
};

// The LDS serves 32 banks per cycle. Lanes are processed in groups that fill the banks once (32 lanes of a dword, 16 of
// eight bytes, 8 of sixteen); each further distinct dword in a bank costs one more cycle. Recorded: groups without an
// active lane take their cycle too.
BankCost bank_cost(const LdsAccess& access);

// The same with a cache: the cost does not change if all addresses move by whole dwords, as they usually do from wave
// to wave and from iteration to iteration of a loop.
class BankCosts {
 public:
  // `key` identifies the static instruction; instructions that share an entry only evict each other's last pattern.
  const BankCost& of(size_t key, const LdsAccess& access);

 private:
  static constexpr size_t kPlaces = 1024;
  struct Known {
    std::array<uint32_t, kLanes> apart{}, active{};  // addresses relative to the first active lane; ~0 where EXEC is 0
    uint64_t exec = 0;                               // 0: entry is empty
    uint32_t bytes = 0, phase = 0;                   // phase: first active lane's address modulo 4
    bool atomic = false;
    BankCost cost;
  };
  std::vector<Known> known_ = std::vector<Known>(kPlaces);
};

}  // namespace hipsynth
