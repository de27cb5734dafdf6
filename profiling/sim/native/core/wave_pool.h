// Where the waves of all dispatches live.
#pragma once

#include <cstdint>
#include <vector>

#include "core/state.h"
#include "memory/pages.h"

namespace hipsynth {

// Memory for waves and their registers, kept from dispatch to dispatch: fresh pages cost more than small kernels do. A
// wave's registers follow its state, so that both mostly lie in one page of the host.
class WavePool {
 public:
  void prepare(uint32_t rows);  // all waves are free again; each has `rows` rows of registers
  Resident* take();             // its contents are as its last use left them
  void give(Resident* r) { free_.push_back(r); }
  static uint32_t* registers(Resident* r) {
    return reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(r) + kStateBytes);
  }

 private:
  static constexpr size_t kHostLine = 64, kStateBytes = (sizeof(Resident) + kHostLine - 1) / kHostLine * kHostLine;

  void free_slab(PageArray<char>* slab);

  std::vector<PageArray<char>> slabs_;
  std::vector<Resident*> free_;
  size_t wave_bytes_ = 0;  // from one wave to the next
};

}  // namespace hipsynth
