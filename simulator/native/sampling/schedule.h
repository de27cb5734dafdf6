// Chooses which work-groups of a sampled grid run, and the order in which the XCDs reach them.
#pragma once

#include <cstdint>
#include <vector>

#include "sampling/sampling.h"

namespace hipsynth {

// A deterministic pseudo-random number for each `v`.
inline uint64_t pseudo_random(uint64_t v) {
  v = (v ^ v >> 31) * 0x9e3779b97f4a7c15ull;
  return v ^ v >> 29;
}

// Initially all work-groups run. With strata, each stratum's sampling unit [begin, end) runs, and a few single
// work-groups in the gaps around it as functional probes.
class GroupSchedule {
 public:
  GroupSchedule(uint64_t total, uint32_t xcds) : total_(total), strata_{{0, 0, total, total}}, next_(xcds) {}

  // Replaces the strata. `probe_spacing`: work-groups of a gap per functional probe.
  void set_strata(std::vector<Stratum> strata, uint64_t probe_spacing);
  const std::vector<Stratum>& strata() const { return strata_; }
  size_t size() const { return strata_.size(); }
  const Stratum& operator[](size_t k) const { return strata_[k]; }
  // Index of the stratum that represents a work-group; size() for numbers past the end.
  uint32_t stratum_of(uint64_t number) const;

  // The next work-group from `number` on that runs and belongs to the same XCD; a result of at least `total` means
  // none, or none yet. XCDs start a sampling unit together: otherwise they would drift apart at its edges, each with
  // its own probes.
  uint64_t next(uint64_t number);
  // Like next(), while no work-group may start.
  uint64_t hold(uint64_t number) { return next_[number % next_.size()] = total_; }

  // Whether nothing ran between the units of strata k - 1 and k, so that the caches are still warm.
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
