// Predicts which vector registers a wave uses first in its next time slice, for prefetching.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program.h"

namespace hipsynth {

class RegisterLookahead {
 public:
  static constexpr size_t kRows = 12;
  struct Rows {
    std::array<uint16_t, kRows> row{};
    uint16_t n = 0;
    bool known = false;
  };

  // Sets the `n` steps that run now. Cheap if they are those of the last call.
  void set_steps(const Step* steps, size_t n, uint32_t accum_offset);
  // The register rows that instructions from `pc` on use first, up to the next wait for vector memory. Backward
  // branches are assumed taken.
  const Rows& rows_used_from(uint32_t pc) {
    Rows& rows = rows_[pc];
    if (!rows.known) rows = find_rows(pc);
    return rows;
  }

  // Whether a wave that starts at `pc` reaches its first wait without using a vector register.
  bool starts_without_vgprs(uint32_t pc) const;

 private:
  Rows find_rows(uint32_t pc) const;
  void add_rows(const Step& s, Rows* rows) const;

  const Step* steps_ = nullptr;
  uint32_t accum_offset_ = 0;
  std::vector<Rows> rows_;  // [step]
};

}  // namespace hipsynth
