// Bank conflicts: the cost of one LDS instruction on the banks of a CU.
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

// The LDS delivers 128 bytes per cycle. Lanes are processed in groups of as many bytes (32 lanes of a dword, 16 of
// eight bytes, 8 of sixteen); each further distinct dword of a group in one of the 32 or 64 banks costs one more cycle.
// Recorded: groups without an active lane take their cycle too.
BankCost bank_cost(const LdsAccess& access, uint32_t banks, uint32_t bytes_per_cycle);

// The same with a cache: the cost does not change if all addresses move by whole dwords, as they usually do from wave
// to wave and from iteration to iteration of a loop.
class BankCosts {
 public:
  BankCosts(uint32_t banks, uint32_t bytes_per_cycle) : banks_(banks), bytes_per_cycle_(bytes_per_cycle) {}
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
  uint32_t banks_, bytes_per_cycle_;
  std::vector<Known> known_ = std::vector<Known>(kPlaces);
};

}  // namespace hipsynth
