// Which vector registers a wave uses first in its next time slice: what to prefetch.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program.h"

namespace hipsynth {

class Foresight {
 public:
  static constexpr size_t kRows = 12;
  struct Rows {
    std::array<uint16_t, kRows> row{};
    uint16_t n = 0;
    bool known = false;
  };

  // `steps`: what runs now; `n` of them. Cheap when they are those of the last call.
  void look_at(const Step* steps, size_t n, uint32_t accum_offset);
  // The rows that instructions from `pc` on name first, up to the next wait for vector memory; a backward branch is
  // taken.
  const Rows& from(uint32_t pc) {
    Rows& rows = rows_[pc];
    if (!rows.known) rows = find(pc);
    return rows;
  }

  // Whether a wave that begins at `pc` reaches its first wait without naming a vector register.
  bool begins_scalar(uint32_t pc) const;

 private:
  Rows find(uint32_t pc) const;
  void add(const Step& s, Rows* rows) const;

  const Step* steps_ = nullptr;
  uint32_t accum_offset_ = 0;
  std::vector<Rows> rows_;  // [step]
};

}  // namespace hipsynth
