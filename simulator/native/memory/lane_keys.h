// Numbers the distinct keys (segments, addresses) of one wave's access in the order in which they come.
#pragma once

#include <cstdint>

namespace hipsynth {

class LaneKeys {
 public:
  static constexpr uint32_t kMost = 128;  // 64 lanes touch at most two segments each

  // The number of a key; `size` grows if it is new.
  uint32_t number(uint64_t key) {
    auto place = static_cast<uint32_t>(key * kOdd >> kHashShift);
    for (; number_[place] != 0; place = (place + 1) % kPlaces) {
      if (key_[number_[place] - 1] == key) return number_[place] - 1u;
    }
    key_[size_] = key;
    number_[place] = static_cast<uint8_t>(size_ + 1);
    return size_++;
  }
  uint32_t size() const { return size_; }
  uint64_t key(uint32_t number) const { return key_[number]; }

 private:
  static constexpr uint32_t kPlaces = 2 * kMost;
  static constexpr int kHashShift = 56;
  static constexpr uint64_t kOdd = 0x9e3779b97f4a7c15ull;

  uint32_t size_ = 0;
  uint64_t key_[kMost];
  uint8_t number_[kPlaces] = {};  // plus one; 0: free
};

}  // namespace hipsynth
