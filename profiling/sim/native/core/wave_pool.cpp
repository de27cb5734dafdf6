#include "core/wave_pool.h"

namespace hipsynth {
namespace {

constexpr size_t kFirstSlab = 64;  // waves
// Words between the registers of two waves: whole host cache lines, an odd number of them, so that the first registers
// of all waves do not share a few sets of the host's caches.
size_t stride(uint32_t rows) { return (size_t{rows} * kLanes) + 16; }

}  // namespace

void WavePool::prepare(uint32_t rows) {
  if (rows > rows_) {
    slabs_.clear();
    rows_ = rows;
  }
  free_.clear();
  for (auto it = slabs_.rbegin(); it != slabs_.rend(); ++it) free_slab(&*it);
}

void WavePool::free_slab(Slab* slab) {
  for (size_t i = slab->waves.size(); i > 0; --i) {
    slab->waves[i - 1].wave.vgpr = &slab->registers[(i - 1) * stride(rows_)];
    free_.push_back(&slab->waves[i - 1]);
  }
}

// Every slab is as large as all before it.
void WavePool::add_slab() {
  size_t waves = kFirstSlab;
  if (!slabs_.empty()) waves = kFirstSlab << (slabs_.size() - 1);
  slabs_.push_back({PageArray<Resident>(waves), PageArray<uint32_t>(waves * stride(rows_))});
  free_slab(&slabs_.back());
}

Resident* WavePool::take() {
  if (free_.empty()) add_slab();
  Resident* r = free_.back();
  free_.pop_back();
  return r;
}

}  // namespace hipsynth
