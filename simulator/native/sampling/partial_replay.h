// A replay (sampling/trace.h) of a part of a grid that would take too long in full. The device is full of work-groups
// from beginning to end, which run one after the other without gaps, so caches hold what they would hold; once the
// first ones have ended, events are counted by site, and scaled to the whole grid.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory/hierarchy.h"
#include "sampling/sampler.h"
#include "sampling/sampling.h"
#include "sampling/trace.h"

namespace hipsynth {

class PartialReplay {
 public:
  // `replayed`: as many work-groups' accesses are replayed, more than fit on the device; `total`: of the grid.
  PartialReplay(const Traces& traces, const Machine& machine, uint64_t replayed, uint64_t total);

  // Call before and after each event of a wave. Events that are not counted only advance the replay.
  void before(const Event& event, const MemoryCounts& memory, const EngineCounts& engine);
  void after(const Event& event, const MemoryCounts& memory, const EngineCounts& engine);
  bool is_over() const { return accesses_ >= last_access_; }

  // The whole grid's events and their errors, from the counts at the end of the dispatch. `executed`: per instruction,
  // of the whole grid. Sets the hierarchy's counts to the estimate.
  Extrapolation estimate(const EngineCounts& end, std::vector<Executed> executed, const Program& program,
                         Hierarchy* hierarchy) const;

 private:
  enum Phase : uint8_t { first, second, warm, kPhases };  // halves of what is counted, and what comes before

  size_t site_of(const Event& event) const;
  bool counts(size_t site) const { return phase_ != warm || !is_load_[site] || seen_[site] <= kFirstLooks; }
  SiteTally rates_of(size_t site, const std::vector<Phase>& phases) const;
  Estimate estimate_by(const Sample& sample, const std::vector<Phase>& phases, const EngineCounts& end) const;

  static constexpr uint64_t kFirstLooks = 1 << 14;

  const Traces& traces_;
  const Machine machine_;
  const uint64_t replayed_, total_;  // work-groups
  std::vector<bool> is_load_;        // [site]: those of the traces, then scalar loads, waits, barriers, jumps, ends
  std::vector<uint64_t> in_group_, seen_;        // [site]: executions of one work-group, and so far
  std::vector<std::vector<SiteTally>> tallies_;  // [phase][site]
  uint64_t wave_instructions_ = 0;               // of one work-group
  uint64_t accesses_ = 0, counted_from_ = 0, middle_ = 0, last_access_ = 0;
  Phase phase_ = warm;
  Events before_;
};

}  // namespace hipsynth
