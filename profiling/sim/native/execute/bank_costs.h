// What one LDS instruction costs its CU's 32 banks.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/wave.h"

namespace hipsynth {

struct LdsAccess {
  const uint32_t* address;  // of every lane, in bytes
  uint32_t base;            // added to each, modulo 2^32
  uint64_t exec;            // not 0
  uint32_t bytes;           // per lane
  bool atomic;
};

struct BankCost {
  uint32_t cycles = 0, conflicts = 0, repeats = 0;  // repeats: accesses of an atomic to a dword that others access too
};

// The LDS serves 32 banks a cycle: lanes go in groups that fill the banks once (32 lanes of a dword, 16 of eight bytes,
// 8 of sixteen); each further distinct dword in a bank costs one more cycle. Recorded: groups without an active lane
// take their cycle too.
BankCost bank_cost(const LdsAccess& access);

// The same, remembered: the cost stays what it is when all addresses move by whole dwords, as they do from wave to wave
// and from iteration to iteration of a loop.
class BankCosts {
 public:
  // `key` tells static instructions apart; those that share an entry only evict each other's last pattern.
  const BankCost& of(size_t key, const LdsAccess& access);

 private:
  static constexpr size_t kPlaces = 1024;
  struct Known {
    std::array<uint32_t, kLanes> apart{}, active{};  // addresses from the first active lane's on; ~0 where EXEC is set
    uint64_t exec = 0;                               // 0: nothing known
    uint32_t bytes = 0, phase = 0;                   // phase: of the first active lane's address in its dword
    bool atomic = false;
    BankCost cost;
  };
  std::vector<Known> known_ = std::vector<Known>(kPlaces);
};

}  // namespace hipsynth
