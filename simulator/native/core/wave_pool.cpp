#include "core/wave_pool.h"

#include <algorithm>

namespace hipsynth {
namespace {

constexpr size_t kFirstSlab = 64;  // waves

}  // namespace

// Waves are an odd number of host cache lines apart, so that the first lines of all waves do not compete for a few sets
// of the host's caches.
void WavePool::prepare(uint32_t rows) {
  wave_bytes_ = kStateBytes + size_t{rows} * kLanes * sizeof(uint32_t);
  if (wave_bytes_ / kHostLine % 2 == 0) wave_bytes_ += kHostLine;
  free_.clear();
  for (auto it = slabs_.rbegin(); it != slabs_.rend(); ++it) free_slab(&*it);
}

void WavePool::free_slab(PageArray<char>* slab) {
  for (size_t n = slab->size() / wave_bytes_; n > 0; --n) {
    free_.push_back(reinterpret_cast<Resident*>(slab->data() + (n - 1) * wave_bytes_));
  }
}

// Each new slab is as large as all earlier ones together.
Resident* WavePool::take() {
  if (free_.empty()) {
    size_t bytes = 0;
    for (const PageArray<char>& slab : slabs_) bytes += slab.size();
    slabs_.emplace_back(std::max(bytes, kFirstSlab * wave_bytes_));
    free_slab(&slabs_.back());
  }
  Resident* r = free_.back();
  free_.pop_back();
  return r;
}

}  // namespace hipsynth
