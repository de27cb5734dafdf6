// Inputs of kernels drawn again: other numbers of the same kind, in families that programs treat differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hipsynth::runtime {

// What floating-point numbers become, from those that a program made; its integers are resampled, but permuted for
// `scaled` and if they may be places, put in order for `sorted`, and all equal for `repeated`. simulator/observation.py
// has the same table.
enum class Family : uint32_t {
  scaled = 0,    // each by 0.75 to 1.25, as in all families; signs and zeros stay
  signs = 1,     // half of the signs are other ones
  wide = 2,      // by a power of two between 2^-6 and 2^6
  zeros = 3,     // a quarter are zero
  repeated = 4,  // all are one of them
  sorted = 5,    // in ascending order
  outliers = 6,  // one in a hundred is 4096 times as large
  large = 7,     // all are 256 times as large
  small = 8,     // all are 2^-20 times as large; some are denormal
  infinite = 9,  // a few are infinite
  // Of these, floating-point numbers stay as they are, and so do integers but those of 32 bits that kernels only read.
  large_integers = 10,     // half are up to 2^28
  negative_integers = 11,  // most signed ones are negative, some down to -2^28
  repeated_places = 12,    // those that are all different and small, so that two may be equal
  // Of floating-point numbers again: some are zero, of either sign, and a few are infinite.
  zeros_and_infinities = 13,
};
constexpr uint32_t kFamilies = 14;

// The elements of an input. simulator/observation.py has the same names.
// `words` and `unsigned_words` are integers of 32 bits; inputs alone have these kinds.
enum class Elements : uint8_t { unknown, floats, doubles, halves, bfloats, integers, words, unsigned_words };
constexpr unsigned kElements = 8;

// What is known of an input: by its contents, or by the allocation that it lies in, which need not be the same one in
// two programs. `constant`: it was uploaded, and kernels only read it, so that it is no state that something begins
// with.
struct InputKind {
  Elements elements = Elements::unknown;
  bool by_contents = false;
  bool constant = false;
};

struct Redraw {
  uint64_t seed = 0;               // 0: inputs stay as they are
  bool integers = false;           // also those that are not floating-point numbers, except non-decreasing sequences,
  Family family = Family::scaled;  // which may be offsets
  uint64_t nudge = 0;              // not 0: a seed by which the last bit of each number moves up or down
  bool halves = true;              // inputs of unknown elements may be halves
  bool on() const { return seed != 0 || nudge != 0; }
};

uint64_t mix(uint64_t x);  // splitmix64

// Changes an input without changing its kind. `seed`: of this input, among the inputs of a run. Unknown elements are
// recognised by their bytes.
void redraw(char* data, size_t bytes, const Redraw& how, uint64_t seed, const InputKind& known);

}  // namespace hipsynth::runtime
