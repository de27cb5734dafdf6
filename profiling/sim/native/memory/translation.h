// Address translation as far as it costs time: pages that a CU used lately are known to it, more of them to its XCD,
// and what neither knows is walked for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/machine.h"
#include "memory/cache.h"

namespace hipsynth {

class Translation {
 public:
  explicit Translation(const SpecTable& spec);
  // True when the page of an address must be walked for.
  bool walks(uint32_t cu, uint32_t xcd, uint64_t address) {
    const uint64_t page = address / page_bytes_;
    if (page == last_[cu]) return false;
    last_[cu] = page;
    return !cu_pages_[cu].access(page).hit && !xcd_pages_[xcd].access(page).hit;
  }

 private:
  uint64_t page_bytes_;
  std::vector<uint64_t> last_;    // per CU: page of the last access
  std::vector<Cache> cu_pages_;   // per CU
  std::vector<Cache> xcd_pages_;  // per XCD
};

inline Translation::Translation(const SpecTable& spec)
    : page_bytes_(static_cast<uint64_t>(spec.at("translation.page_bytes"))) {
  constexpr uint32_t kXcdWays = 8;
  const auto cus = static_cast<size_t>(spec.at("topology.cus")), xcds = static_cast<size_t>(spec.at("topology.xcds"));
  const auto per_cu = static_cast<uint32_t>(spec.at("translation.cu_pages"));
  const auto per_xcd = static_cast<uint64_t>(spec.at("translation.xcd_pages"));
  const auto page = static_cast<uint32_t>(page_bytes_);
  last_.assign(cus, ~0ull);
  cu_pages_.assign(cus, Cache({page_bytes_ * per_cu, page, per_cu, 0, false}));
  xcd_pages_.assign(xcds, Cache({page_bytes_ * per_xcd, page, kXcdWays, 0, true}));
}

}  // namespace hipsynth
