// Stratified sampling of large grids: which work-groups run, and estimates of the whole from their counts. Pure
// functions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/counters.h"
#include "core/state.h"

namespace hipsynth {

// Neighbours in dispatch order: work-groups [begin, end) run and stand for [from, to).
struct Stratum {
  uint64_t from = 0, begin = 0, end = 0, to = 0;
  double run() const { return static_cast<double>(end - begin); }
  double gap() const { return static_cast<double>(to - from) - run(); }
};

struct StrataRequest {
  uint64_t done = 0, total = 0;   // work-groups that ran already, and all
  uint64_t length = 0, last = 0;  // of a sampling unit, and of the last one
  uint32_t count = 0;             // sampling units between the first and the last one
  uint32_t align = 1;             // units begin at multiples of this
};

// The first stratum is what is done, the last one runs to the end of the grid; the others are equally long, each with
// its sampling unit in the middle, so that a linear trend along the grid is met exactly. Fewer units where they would
// not fit; none at all (one stratum, everything runs) when little would be saved.
std::vector<Stratum> choose_strata(const StrataRequest& request);

// MemoryCounts and EngineCounts as one row of numbers. Both hold nothing but 64-bit counts.
struct Events {
  static constexpr size_t kMemory = sizeof(MemoryCounts) / sizeof(uint64_t);
  static constexpr size_t kEngine = sizeof(EngineCounts) / sizeof(uint64_t);
  std::array<uint64_t, kMemory + kEngine> n{};
  Events() = default;
  Events(const MemoryCounts& memory, const EngineCounts& engine);
  void add_difference(const Events& after, const Events& before);
  MemoryCounts memory() const;
};

// What an instruction that waits or goes to memory (a site) did in those of its executions that were modelled.
struct SiteTally {
  uint64_t times = 0;
  Events events;
};

// The measurements of a sampled dispatch.
struct Sample {
  std::vector<Stratum> strata;
  std::vector<std::vector<Executed>> executed;   // [stratum][instruction]: by the sampling unit
  std::vector<std::vector<Executed>> probed;     // [stratum][instruction]: by the functional probes around it
  std::vector<uint64_t> probes;                  // [stratum]: how many
  std::vector<uint32_t> sites;                   // [site]: instruction
  std::vector<bool> loads;                       // [site]: whether it loads from memory
  std::vector<uint64_t> ran;                     // [site]: executions, those of probes apart
  std::vector<uint32_t> barriers;                // instructions
  uint64_t placed = 0;                           // work-groups that began: also those that did not end
  std::vector<std::vector<uint64_t>> counted;    // [stratum][site]: executions whose events are all in `exact`
  std::vector<std::vector<SiteTally>> measured;  // [stratum][site]: with warm caches
  std::vector<SiteTally> spare;                  // [site]: with caches not yet warm
  std::vector<std::vector<SiteTally>> cells;     // [cell][site]: what one window saw; `measured` in another order
  std::vector<uint32_t> cell_strata;             // [cell]: where that was
  Events exact;                                  // counted in full: first and last sampling unit
  Events simulated;             // everything that was looked at, however warm, and the end of the dispatch
  MemoryCounts left_dirty;      // write counts that the dirty lines left behind would have made
  uint64_t dirty_before = 0;    // lines that were dirty some time before the end; 0: not looked at
  uint64_t chain_at_start = 0;  // longest chain of atomics on one line, after the first sampling unit
  bool long_groups = false;     // whose memory was modelled in windows only
  size_t channels = 1;          // of all L2s
  double channel_excess = 0;    // requests of the busiest one above the average, as a share of that
  uint64_t l2_lines = 0;        // of all L2s
  uint64_t infinity_bytes = 0;  // of the memory-side cache
  uint64_t line_bytes = 0;      // of the L2s and of the memory-side cache
  uint32_t cus = 1;
};

struct Estimate {
  std::vector<Executed> executions;  // per instruction
  MemoryCounts memory;
  EngineCounts engine;
};

Estimate estimate(const Sample& sample);

// What cell `part` stands for, if memory accesses were as those that cell `like` saw.
Estimate estimate_of_cell(const Sample& sample, size_t part, size_t like);
// The same whole if no more lines come in for the first time: of the misses that were seen, those that found the L2
// with room left are not met again. What a working set that fits the L2 does.
MemoryCounts without_first_misses(const Sample& sample, MemoryCounts whole);
// The same whole if long work-groups fall out of step between the windows, and share less of what they load.
MemoryCounts when_drifting(const Sample& sample, const MemoryCounts& whole);
// What stratum k alone executes, scaled to the work-groups it stands for.
std::vector<Executed> executions_of_stratum(const Sample& sample, size_t k);

// Expected errors (two standard deviations) of a counter's total, relative to it.
// For counters that follow from executions: from the differences between neighbouring strata; `values[k]` is the
// estimate for the whole of strata[k].
double execution_error(const Sample& sample, const std::vector<double>& values, double total);
// For counters that follow from memory accesses: from `differences`, by how much each cell's part changes when it is
// estimated with the rates of the cell before.
double memory_error(const Sample& sample, const std::vector<double>& differences, double total);

}  // namespace hipsynth
