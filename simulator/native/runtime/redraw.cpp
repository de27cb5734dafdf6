// Inputs drawn again: each kind of elements is changed in its own way; kinds that nobody knows are recognised by bytes.
#include "redraw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace hipsynth::runtime {

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

namespace {

constexpr size_t kLeastInput =
    32;  // bytes; smaller inputs are sizes and flags rather than data, unless known as floats

// The upper half of a float, to which it is rounded to even.
struct Bfloat {
  uint16_t bits = 0;
  Bfloat() = default;
  explicit Bfloat(double number) {
    const auto word = std::bit_cast<uint32_t>(static_cast<float>(number));
    bits = static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
  }
  explicit operator double() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

template <typename T>
T load(const char* data, size_t i) {
  T value;
  std::memcpy(&value, data + i * sizeof(T), sizeof(T));
  return value;
}

// Whether all elements are floating-point numbers between 2^-range and 2^range, or zero, and some are not zero.
template <typename T>
bool floats(const char* data, size_t bytes, int mantissa, int bias, int range) {
  bool any = false;
  if (bytes % sizeof(T) != 0) return false;
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const T magnitude = static_cast<T>(load<T>(data, i) << 1) >> 1;
    const int exponent = static_cast<int>(magnitude >> mantissa) - bias;
    if (magnitude != 0 && (exponent < -range || exponent > range)) return false;
    any = any || magnitude != 0;
  }
  return any;
}

// How far the exponents of every second half, from the first one given, lie from their mean: their standard deviation.
double spread_of_exponents(const char* data, size_t bytes, size_t first) {
  double count = 0, sum = 0, squares = 0;
  for (size_t i = first; i < bytes / 2; i += 2) {
    const int magnitude = load<uint16_t>(data, i) & 0x7fff, exponent = magnitude >> 10;
    if (magnitude == 0) continue;
    count += 1, sum += exponent, squares += exponent * exponent;
  }
  return count == 0 ? 0 : std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
}

// Single-precision numbers also pass for pairs of halves, if their mantissas are short, so that the lower half is zero,
// or with few patterns, as multiples of 0.1 have. Then upper halves are alike, since they hold the exponent, and lower
// ones are not.
bool halves(const char* data, size_t bytes) {
  if (bytes % 4 != 0 || !floats<uint16_t>(data, bytes, 10, 15, 10)) return false;
  const double lower = spread_of_exponents(data, bytes, 0), upper = spread_of_exponents(data, bytes, 1);
  if (lower > 1 + 2 * upper) return false;
  for (size_t i = 0; i < bytes / 2; i += 2) {
    if (load<uint16_t>(data, i) != 0) return true;
  }
  return false;
}

// Whether all elements are bfloat16 numbers of usual size.
bool bfloats(const char* data, size_t bytes) { return floats<uint16_t>(data, bytes, 7, 127, 60); }

double factor(uint64_t seed, size_t i) { return 0.75 + 0.5 * static_cast<double>(mix(seed ^ mix(i)) >> 11) * 0x1p-53; }

bool sorted(const char* data, size_t bytes) {
  for (size_t i = 1; i < bytes / 4; ++i) {
    if (load<uint32_t>(data, i) < load<uint32_t>(data, i - 1)) return false;
  }
  return true;
}

// The size of the elements that are permuted: words if all are small numbers, else pieces that hold whole elements.
size_t piece(const char* data, size_t bytes) {
  bool words = bytes % 4 == 0, doubles = bytes % 8 == 0;
  for (size_t i = 0; words && i < bytes / 4; ++i) words = load<uint32_t>(data, i) < 1u << 24;
  for (size_t i = 0; doubles && i < bytes / 8; ++i) doubles = load<uint64_t>(data, i) < 1ull << 40;
  return words ? 4 : doubles ? 8 : 16;
}

void permute(char* data, size_t bytes, uint64_t seed) {
  const size_t size = piece(data, bytes), count = bytes / size;
  for (size_t i = count; i > 1; --i) {
    const size_t other = mix(seed + i) % i;
    std::swap_ranges(data + (i - 1) * size, data + i * size, data + other * size);
  }
}

// A number between 0 and 1 that depends on the seed, a purpose and an index alone.
double chance(uint64_t seed, uint64_t purpose, size_t i) {
  return static_cast<double>(mix(seed ^ mix(i) ^ purpose << 56) >> 11) * 0x1p-53;
}

// One number of a family, from the number that was there.
double member(Family family, double x, uint64_t seed, size_t i, size_t count, double tiny) {
  const double scaled = x * factor(seed, i);
  switch (family) {
    case Family::scaled:
      return scaled;
    case Family::signs:
      return chance(seed, 1, i) < 0.5 ? -scaled : scaled;
    case Family::wide:
      return std::ldexp(scaled, static_cast<int>(chance(seed, 2, i) * 13) - 6);
    case Family::zeros:
      return chance(seed, 3, i) < 0.25 ? 0.0 : scaled;
    case Family::outliers:
      return chance(seed, 4, i) < 0.01 ? 4096 * scaled : scaled;
    case Family::large:
      return 256 * scaled;
    case Family::small:
      return chance(seed, 5, i) < 0.06 ? std::copysign(tiny, x) : std::ldexp(scaled, -20);
    case Family::infinite:
      return chance(seed, 6, i) < 0.004 || i == mix(seed) % count ? std::copysign(HUGE_VAL, x) : scaled;
    case Family::repeated:
    case Family::sorted:
    case Family::large_integers:
    case Family::negative_integers:
    case Family::repeated_places:
      return scaled;  // then copied or put in order, or not used
    case Family::zeros_and_infinities:
      if (chance(seed, 6, i) < 0.004 || i == mix(seed) % count) return std::copysign(HUGE_VAL, x);
      return chance(seed, 3, i) < 0.1 ? 0.0 : chance(seed, 3, i) < 0.2 ? -0.0 : scaled;
  }
  return scaled;
}

// To four bits, so that sums of equal numbers, and of their squares, are exact in whatever order: what is left of a
// variance would be rounding alone.
double round_to_few_bits(double x) {
  int exponent = 0;
  const double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::round(16 * mantissa) / 16, exponent);
}

template <typename T>
void draw(char* data, size_t bytes, uint64_t seed, Family family, double largest, double tiny) {
  const size_t count = bytes / sizeof(T);
  std::vector<double> all(count);
  for (size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(load<T>(data, i));
    const double drawn = member(family, x, seed, i, count, tiny);
    all[i] = std::isinf(drawn) ? drawn : std::clamp(drawn, -largest, largest);
  }
  if (family == Family::sorted) std::sort(all.begin(), all.end());
  if (family == Family::repeated) std::fill(all.begin(), all.end(), round_to_few_bits(all[mix(seed) % count]));
  for (size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(all[i]);
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

// Whether words are all different and small: then they may be places, of which two must not become equal.
bool places(const char* data, size_t bytes) {
  std::vector<uint32_t> words(bytes / 4);
  std::memcpy(words.data(), data, words.size() * 4);
  std::sort(words.begin(), words.end());
  const bool distinct = std::adjacent_find(words.begin(), words.end()) == words.end();
  return distinct && words.back() < 2 * words.size();
}

// Every element becomes one that was there, so that sums, counts and extremes change and no index leaves its range.
void resample(char* data, size_t bytes, uint64_t seed, Family family) {
  const size_t size = piece(data, bytes), count = bytes / size;
  const std::vector<char> before(data, data + count * size);
  for (size_t i = 0; i < count; ++i) {
    const size_t from = family == Family::repeated ? mix(seed) % count : mix(seed ^ mix(i)) % count;
    std::memcpy(data + i * size, before.data() + from * size, size);
  }
  if (family != Family::sorted || size != 4) return;
  std::vector<uint32_t> words(count);
  std::memcpy(words.data(), data, count * size);
  std::sort(words.begin(), words.end());
  std::memcpy(data, words.data(), count * size);
}

// What the elements are; integers where they are none of usual size.
Elements elements_of(const char* data, size_t bytes, Elements known, bool may_be_halves) {
  const bool unknown = known == Elements::unknown;
  if (known == Elements::halves ? floats<uint16_t>(data, bytes, 10, 15, 15)
                                : unknown && may_be_halves && halves(data, bytes))
    return Elements::halves;
  if (known == Elements::bfloats && bfloats(data, bytes)) return Elements::bfloats;
  if ((unknown || known == Elements::floats) && floats<uint32_t>(data, bytes, 23, 127, 60)) return Elements::floats;
  if ((unknown || known == Elements::doubles) && floats<uint64_t>(data, bytes, 52, 1023, 60)) return Elements::doubles;
  return Elements::integers;
}

// Zeros stay, with their signs, which are no matter of rounding.
template <typename T>
void shake(char* data, size_t bytes, uint64_t seed, double step) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const double x = static_cast<double>(load<T>(data, i));
    if (x == 0) continue;
    const T value = static_cast<T>(x + x * step * (chance(seed, 7, i) < 0.5 ? -1 : 1));
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

bool are_words(Elements elements) { return elements == Elements::words || elements == Elements::unsigned_words; }

// Equal words, such as lengths of rows or flags, become smaller ones. Zero is left to flags: work of no length may be
// undefined.
void lower_constants(std::vector<uint32_t>& words, uint64_t seed) {
  const uint32_t most = words.front(), least = most == 1 ? 0 : 1;
  if (most == 0 || most >= 1u << 24) return;  // places of something, or patterns
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = least + static_cast<uint32_t>(chance(seed, 9, i) * (most - least + 1));
}

// Non-decreasing words, such as starts of rows or edges, move between their neighbours. The first and the last one
// stay; those that differ from both neighbours still do.
void move_between(std::vector<uint32_t>& words, uint64_t seed) {
  if (words.back() >= 1u << 31) return;
  const bool distinct = std::adjacent_find(words.begin(), words.end()) == words.end();
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const uint32_t least = words[i - 1] + distinct, most = words[i + 1] - distinct;
    words[i] = least + static_cast<uint32_t>(chance(seed, 10, i) * (most - least + 1));
  }
}

// Half of the families change them, so that the others change further inputs where the original fails on these.
void redraw_sorted(char* data, size_t bytes, uint64_t seed, Family family, const InputKind& known) {
  const bool varied =
      family == Family::wide || family == Family::zeros || family == Family::outliers || family == Family::small;
  if (!varied || !are_words(known.elements)) return;
  std::vector<uint32_t> words(bytes / 4);
  std::memcpy(words.data(), data, words.size() * 4);
  if (words.front() != words.back()) {
    if (!places(data, bytes)) move_between(words, seed);
  } else if (known.constant) {
    lower_constants(words, seed);
  }
  std::memcpy(data, words.data(), words.size() * 4);
}

bool changes_integers_only(Family family) {
  return family >= Family::large_integers && family <= Family::repeated_places;
}

// Places of which two may be equal; those in order stay so.
void repeat_places(char* data, size_t bytes, uint64_t seed, const InputKind& known) {
  if (!known.constant || !are_words(known.elements) || !places(data, bytes)) return;
  resample(data, bytes, seed, sorted(data, bytes) ? Family::sorted : Family::scaled);
}

// Data becomes large or negative, so that products and sums no longer fit a narrower type. Up to 28 bits leave room for
// differences; -1 and the least number may stand for nothing. What may be places stays.
void enlarge(char* data, size_t bytes, uint64_t seed, Family family, const InputKind& known) {
  const bool negative = family == Family::negative_integers;
  if (!known.constant || places(data, bytes)) return;
  if (negative ? known.elements != Elements::words : !are_words(known.elements)) return;
  for (size_t i = 0; i < bytes / 4; ++i) {
    auto word = load<uint32_t>(data, i);
    const auto large =
        static_cast<uint32_t>(std::ldexp(1 + chance(seed, 12, i), 4 + static_cast<int>(chance(seed, 13, i) * 24)));
    if (chance(seed, 14, i) < 0.5) word = large;
    if (negative && chance(seed, 15, i) < 0.75 && word < 1u << 30) word = ~(word + 1);
    std::memcpy(data + i * 4, &word, sizeof word);
  }
}

void redraw_integers(char* data, size_t bytes, uint64_t seed, Family family, const InputKind& known) {
  if (family == Family::repeated_places) return repeat_places(data, bytes, seed, known);
  if (changes_integers_only(family)) return sorted(data, bytes) ? void() : enlarge(data, bytes, seed, family, known);
  if (sorted(data, bytes)) return redraw_sorted(data, bytes, seed, family, known);
  if (family == Family::scaled || places(data, bytes)) return permute(data, bytes, seed);
  resample(data, bytes, seed, family);
}

bool are_floating(Elements elements) { return elements != Elements::unknown && elements < Elements::integers; }

// Numbers in the place of zeros: a bias or an offset that is not used yet.
template <typename T>
void plant(char* data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    const T value = static_cast<T>(0.25 * chance(seed, 8, i) - 0.125);
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
}

void plant_in_zeros(char* data, size_t bytes, uint64_t seed, const InputKind& known) {
  if (!known.constant || std::any_of(data, data + bytes, [](char byte) { return byte != 0; })) return;
  if (known.elements == Elements::halves) plant<_Float16>(data, bytes, seed);
  if (known.elements == Elements::bfloats) plant<Bfloat>(data, bytes, seed);
  if (known.elements == Elements::floats) plant<float>(data, bytes, seed);
  if (known.elements == Elements::doubles) plant<double>(data, bytes, seed);
}

}  // namespace

void redraw(char* data, size_t bytes, const Redraw& how, uint64_t seed, const InputKind& known) {
  const bool few = bytes < kLeastInput;
  if (few && !(known.by_contents && are_floating(known.elements))) return;
  const uint64_t drawn = mix(how.seed ^ seed);
  const bool numbers = how.seed != 0 && !changes_integers_only(how.family);
  if (numbers) plant_in_zeros(data, bytes, drawn, known);
  const Elements kind = elements_of(data, bytes, known.elements, how.halves);
  if (few && kind != known.elements) return;
  if (how.seed != 0 && kind == Elements::integers && how.integers)
    redraw_integers(data, bytes, drawn, how.family, known);
  if (numbers) {
    const Family family = few ? Family::scaled : how.family;  // an outlier among few coefficients leaves nothing else
    if (kind == Elements::halves) draw<_Float16>(data, bytes, drawn, family, 60000, 0x1p-20);
    if (kind == Elements::bfloats) draw<Bfloat>(data, bytes, drawn, family, 1e30, 0x1p-130);
    if (kind == Elements::floats) draw<float>(data, bytes, drawn, family, 1e30, 0x1p-140);
    if (kind == Elements::doubles) draw<double>(data, bytes, drawn, family, 1e300, 0x1p-1040);
  }
  if (how.nudge == 0) return;
  const uint64_t own = mix(how.nudge ^ mix(seed));
  if (kind == Elements::halves) shake<_Float16>(data, bytes, own, 0x1p-10);
  if (kind == Elements::bfloats) shake<Bfloat>(data, bytes, own, 0x1p-7);
  if (kind == Elements::floats) shake<float>(data, bytes, own, 0x1p-23);
  if (kind == Elements::doubles) shake<double>(data, bytes, own, 0x1p-52);
}

}  // namespace hipsynth::runtime
