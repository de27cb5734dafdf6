#include "memory/channels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace hipsynth {
namespace {

// What comes to one channel beyond the average by chance waits in its queue while the others catch up.
constexpr double kChance = 3;  // standard deviations

}  // namespace

Channels::Channels(uint32_t channels, uint32_t l2s, uint32_t lines)
    : channels_(channels), lines_(lines), width_(channels * l2s) {
  if (std::has_single_bit(channels)) hash_ = SetHash(Hash::polynomial, std::countr_zero(channels));
  clear();
}

void Channels::clear() {
  span_bits_ = kFirstBits;
  spans_ = 1;
  now_ = 0;
  requests_.assign(width_, 0);
}

// The span of a time beyond the last one: adds spans, or joins neighbours until few suffice.
uint64_t Channels::span_from(uint64_t cycle) {
  while (cycle >> span_bits_ >= kMostSpans) {
    for (uint64_t span = 0; span < spans_; ++span) {
      const auto from = requests_.begin() + static_cast<std::ptrdiff_t>(span * width_);
      const auto to = requests_.begin() + static_cast<std::ptrdiff_t>(span / 2 * width_);
      if (span % 2 == 0 && span > 0)
        std::copy_n(from, width_, to);
      else if (span % 2)
        std::transform(from, from + width_, to, to, std::plus<>());
    }
    spans_ = (spans_ + 1) / 2;
    requests_.resize(spans_ * width_);
    ++span_bits_;
  }
  const uint64_t span = cycle >> span_bits_;
  spans_ = std::max(spans_, span + 1);
  requests_.resize(spans_ * width_);
  return span;
}

Channels::Load Channels::load() const {
  const uint32_t each = channels_.value();
  std::vector<double> sums(width_);
  Load load;
  for (uint32_t first = 0; first < width_; first += each) {
    double busiest = 0;
    for (uint64_t span = 0; span < spans_; ++span) {
      const uint32_t* row = &requests_[span * width_ + first];
      const double mean = std::accumulate(row, row + each, 0.0) / each;
      busiest += std::max(mean, *std::max_element(row, row + each) - kChance * std::sqrt(mean));
      for (uint32_t i = 0; i < each; ++i) sums[first + i] += row[i];
    }
    load.busiest = std::max({load.busiest, busiest, *std::max_element(&sums[first], &sums[first] + each)});
  }
  load.average = std::accumulate(sums.begin(), sums.end(), 0.0) / width_;
  return load;
}

}  // namespace hipsynth
