#include "sampling/schedule.h"

#include <algorithm>
#include <utility>

namespace hipsynth {

void GroupSchedule::set_strata(std::vector<Stratum> strata, uint64_t probe_spacing) {
  strata_ = std::move(strata);
  probe_spacing_ = probe_spacing;
}

uint32_t GroupSchedule::stratum_of(uint64_t number) const {
  const auto after = [](uint64_t at, const Stratum& s) { return at < s.to; };
  return static_cast<uint32_t>(std::upper_bound(strata_.begin(), strata_.end(), number, after) - strata_.begin());
}

uint64_t GroupSchedule::next(uint64_t number) {
  uint64_t& at = next_[number % next_.size()] = find_next(number);
  if (at >= total_) return at;
  const uint32_t k = stratum_of(at);
  const uint64_t begin = strata_[k].begin;
  const bool edge = k > 0 && at >= begin && !continues(k);
  const bool others_late = edge && *std::min_element(next_.begin(), next_.end()) < begin;
  return others_late ? total_ : at;
}

uint64_t GroupSchedule::find_next(uint64_t number) const {
  for (size_t k = stratum_of(number); k < strata_.size(); ++k) {
    const Stratum& s = strata_[k];
    if (number < s.begin) {
      const uint64_t probe = next_probe(number, s.from, s.begin);
      return probe < s.begin ? probe : s.begin + number % next_.size();
    }
    if (number < s.end) return number;
    if (const uint64_t probe = next_probe(number, s.end, s.to); probe < s.to) return probe;
  }
  return total_;
}

// Gaps are divided into equal cells. Every XCD has one probe at a random position in each cell, so that the probes do
// not always hit the same phase of a periodic grid.
uint64_t GroupSchedule::next_probe(uint64_t number, uint64_t from, uint64_t to) const {
  const uint64_t xcds = next_.size(), xcd = number % xcds;
  const uint64_t cell = probe_spacing_ * xcds, start = (from + xcds - 1) / xcds * xcds;
  for (uint64_t at = number > start ? start + (number - start) / cell * cell : start; at < to; at += cell) {
    const uint64_t probe = at + pseudo_random(at + xcd) % probe_spacing_ * xcds + xcd;
    if (probe >= number) return probe;
  }
  return to;
}

}  // namespace hipsynth
