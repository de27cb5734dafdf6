// Storage for the waves of all dispatches.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state.h"
#include "memory/pages.h"

namespace hipsynth {

// Memory for waves and their registers, reused between dispatches because page faults cost more than small kernels do.
// A wave's registers are stored right after its state, so that both are mostly in one host page.
class WavePool {
 public:
  void prepare(uint32_t rows);  // frees all waves; each gets `rows` register rows
  Resident* take();             // contents are those of its previous use
  void give(Resident* r) { free_.push_back(r); }
  static uint32_t* registers(Resident* r) {
    return reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(r) + kStateBytes);
  }

 private:
  static constexpr size_t kHostLine = 64, kStateBytes = (sizeof(Resident) + kHostLine - 1) / kHostLine * kHostLine;

  void free_slab(PageArray<char>* slab);

  std::vector<PageArray<char>> slabs_;
  std::vector<Resident*> free_;
  size_t wave_bytes_ = 0;  // distance between consecutive waves
};

}  // namespace hipsynth
