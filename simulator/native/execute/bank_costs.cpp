#include "execute/bank_costs.h"

#include <algorithm>
#include <bit>

namespace hipsynth {
namespace {

constexpr uint32_t kMostBanks = 64, kMostLanes = 32;  // lanes: of a group
constexpr uint32_t kBankBytes = 4;

// Cycles of one group of lanes, and how many of its accesses repeat a dword.
struct GroupCost {
  uint32_t cycles = 1, repeats = 0;
};
GroupCost conflicting_group(const uint32_t* offset, uint64_t group, uint32_t dwords, bool atomic, uint32_t banks) {
  uint32_t words[kMostBanks][kMostLanes];
  uint8_t used[kMostBanks] = {};
  GroupCost cost;
  for (uint64_t rest = group; rest; rest &= rest - 1) {
    const uint32_t word0 = offset[std::countr_zero(rest)] / kBankBytes;
    for (uint32_t word = word0; word < word0 + dwords; ++word) {
      const uint32_t bank = word % banks;
      bool known = false;
      for (uint32_t i = 0; i < used[bank] && !known; ++i) known = words[bank][i] == word;
      if (known) ++cost.repeats;
      if ((known && !atomic) || used[bank] == kMostLanes) continue;
      words[bank][used[bank]++] = word;
      cost.cycles = std::max<uint32_t>(cost.cycles, used[bank]);
    }
  }
  return cost;
}

// True if no bank has to deliver two dwords. This is the usual case, and needs to remember only one dword per bank.
bool free_of_conflicts(const uint32_t* offset, uint64_t group, uint32_t dwords, uint32_t banks) {
  uint32_t word_of[kMostBanks];
  uint64_t seen = 0;
  for (uint64_t rest = group; rest; rest &= rest - 1) {
    const uint32_t word0 = offset[std::countr_zero(rest)] / kBankBytes;
    for (uint32_t word = word0; word < word0 + dwords; ++word) {
      const uint32_t bank = word % banks;
      if ((seen >> bank & 1) && word_of[bank] != word) return false;
      seen |= 1ull << bank;
      word_of[bank] = word;
    }
  }
  return true;
}

}  // namespace

BankCost bank_cost(const LdsAccess& a, uint32_t banks, uint32_t bytes_per_cycle) {
  uint32_t offset[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane) offset[lane] = a.address[lane] + a.base;
  const uint32_t dwords = std::max(1u, a.bytes / kBankBytes);
  const uint32_t lanes = bytes_per_cycle / kBankBytes / std::bit_ceil(dwords);
  BankCost sum;
  for (uint32_t first = 0; first < kLanes; first += lanes) {
    const uint64_t group = a.exec >> first & (lanes == 32 ? 0xffffffffull : (1ull << lanes) - 1);
    GroupCost cost;
    if (a.atomic || !free_of_conflicts(offset + first, group, dwords, banks)) {
      cost = conflicting_group(offset + first, group, dwords, a.atomic, banks);
    }
    sum.cycles += cost.cycles;
    sum.conflicts += cost.cycles - 1;
    if (a.atomic) sum.repeats += cost.repeats;
  }
  return sum;
}

const BankCost& BankCosts::of(size_t key, const LdsAccess& a) {
  Known& known = known_[key % kPlaces];
  const uint32_t start = a.address[std::countr_zero(a.exec)], phase = (start + a.base) % kBankBytes;
  if (known.exec == a.exec && known.bytes == a.bytes && known.phase == phase && known.atomic == a.atomic) {
    uint32_t differing = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      differing |= (a.address[lane] - start ^ known.apart[lane]) & known.active[lane];
    }
    if (differing == 0) return known.cost;
  }
  known = {.exec = a.exec,
           .bytes = a.bytes,
           .phase = phase,
           .atomic = a.atomic,
           .cost = bank_cost(a, banks_, bytes_per_cycle_)};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    known.apart[lane] = a.address[lane] - start;
    known.active[lane] = (a.exec >> lane & 1) ? ~0u : 0;
  }
  return known.cost;
}

}  // namespace hipsynth
