// Which work-groups of a sampled grid run, and the order in which the XCDs reach them.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling.h"

namespace hipsynth {

// A pseudo-random number for each `v`, the same every time.
inline uint64_t pseudo_random(uint64_t v) {
  v = (v ^ v >> 31) * 0x9e3779b97f4a7c15ull;
  return v ^ v >> 29;
}

// At first all work-groups run. With strata, those of every stratum's sampling unit [begin, end) run, and in the gaps
// beside it a few single ones: functional probes.
class GroupSchedule {
 public:
  GroupSchedule(uint64_t total, uint32_t xcds) : total_(total), strata_{{0, 0, total, total}}, next_(xcds) {}

  // Replaces the strata. `probe_spacing`: work-groups of a gap per functional probe.
  void set_strata(std::vector<Stratum> strata, uint64_t probe_spacing);
  const std::vector<Stratum>& strata() const { return strata_; }
  size_t size() const { return strata_.size(); }
  const Stratum& operator[](size_t k) const { return strata_[k]; }
  // The index of the stratum that stands for a work-group; size() for numbers past the end.
  uint32_t stratum_of(uint64_t number) const;

  // The first work-group from `number` on that runs and belongs to the same XCD; at least `total`: none, or not yet.
  // XCDs begin a sampling unit together: otherwise they would drift apart at its edges, each with its own probes.
  uint64_t next(uint64_t number);
  // As next() where no work-group may begin for now.
  uint64_t hold(uint64_t number) { return next_[number % next_.size()] = total_; }

  // Whether nothing ran between the unit of stratum k and the unit before it, so that the caches are warm already.
  bool continues(size_t k) const { return strata_[k].begin == strata_[k - 1].end; }

 private:
  uint64_t find_next(uint64_t number) const;
  uint64_t next_probe(uint64_t number, uint64_t from, uint64_t to) const;

  uint64_t total_;
  std::vector<Stratum> strata_;
  std::vector<uint64_t> next_;  // per XCD
  uint64_t probe_spacing_ = 1;
};

}  // namespace hipsynth
