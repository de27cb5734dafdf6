// Choice of a set or channel by all bits of an address. The vendor's hashes are not public.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace hipsynth {

enum class Hash : uint8_t {
  none,
  fold,        // each bit of the set is the sum of every seventh address bit: some power-of-two strides crowd few sets
  polynomial,  // remainder by a primitive polynomial over GF(2): no such stride does (Rau, ISCA 1991)
};

class SetHash {
 public:
  SetHash() = default;
  // For 2^bits sets. Throws std::invalid_argument for more than 2^20.
  SetHash(Hash hash, int bits) {
    // Lower coefficients of primitive polynomials.
    constexpr std::array<uint32_t, 21> kLower = {0,   0x1,  0x3,  0x3,  0x3, 0x5,  0x3, 0x3,  0x1d, 0x11, 0x9,
                                                 0x5, 0x53, 0x1b, 0x2b, 0x3, 0x2d, 0x9, 0x27, 0x27, 0x9};
    if (hash == Hash::none) return;
    folds_ = hash == Hash::fold;
    if (bits < 0 || bits >= static_cast<int>(kLower.size()))
      throw std::invalid_argument("no hash for 2^" + std::to_string(bits) + " sets");
    const uint64_t mask = (uint64_t{1} << bits) - 1, lower = kLower[static_cast<size_t>(bits)] & mask;
    uint64_t power = lower;  // what the lowest upper bit adds
    for (int bit = 0; bit < kUpperBits; ++bit) {
      set_effect(bit, hash == Hash::fold ? folded(bit + bits, mask) : power);
      const bool carry = bits > 0 && (power >> (bits - 1) & 1);
      power = (power << 1 & mask) ^ (carry ? lower : 0);
    }
  }

  // What the bits of a line number above those of the set add to them; `upper` is less than 2^40.
  uint32_t of(uint64_t upper) const {
    uint32_t sum = 0;
    for (size_t i = 0; i < of_byte_.size() && upper; ++i, upper >>= 8) sum ^= of_byte_[i][upper & 0xff];
    return sum;
  }

  // What the bits of the set itself become before that, and back.
  uint64_t spread(uint64_t low) const { return folds_ ? low ^ low >> 7 ^ low >> 14 ^ low >> 21 : low; }
  // With s for the shift by 7, spread is (1 + s)^3, and (1 + s)^4 is 1 + s^4: the identity for less than 2^28 sets.
  uint64_t gather(uint64_t low) const { return folds_ ? low ^ low >> 7 : low; }

 private:
  static constexpr int kUpperBits = 40, kFold = 7, kFolds = 3;

  // The bits of the set that a bit of the line number adds to, folded down by multiples of kFold.
  static uint64_t folded(int bit, uint64_t mask) {
    uint64_t sum = 0;
    for (int fold = 1; fold <= kFolds; ++fold) {
      if (bit >= fold * kFold) sum ^= uint64_t{1} << (bit - fold * kFold);
    }
    return sum & mask;
  }
  void set_effect(int bit, uint64_t effect) {
    std::array<uint32_t, 256>& table = of_byte_[static_cast<size_t>(bit) / 8];
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (byte >> bit % 8 & 1) table[byte] ^= static_cast<uint32_t>(effect);
    }
  }

  bool folds_ = false;
  std::array<std::array<uint32_t, 256>, kUpperBits / 8> of_byte_{};
};

}  // namespace hipsynth
