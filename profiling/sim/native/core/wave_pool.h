// Where the waves of all dispatches live.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state.h"
#include "memory/pages.h"

namespace hipsynth {

// Wave objects and their registers, kept from dispatch to dispatch: fresh pages cost more than small kernels do.
class WavePool {
 public:
  void prepare(uint32_t rows);  // all waves are free again; registers hold at least `rows` rows
  Resident* take();             // its wave.vgpr is set, everything else is as its last use left it

  void give(Resident* r) { free_.push_back(r); }

 private:
  struct Slab {
    PageArray<Resident> waves;
    PageArray<uint32_t> registers;
  };
  void add_slab();
  void free_slab(Slab* slab);

  std::vector<Slab> slabs_;
  std::vector<Resident*> free_;
  uint32_t rows_ = 0;
};

}  // namespace hipsynth
