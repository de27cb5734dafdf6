// Stratified sampling of large grids: chooses the work-groups to run and extrapolates their counts. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/counters.h"
#include "core/state.h"

namespace hipsynth {

// Adjacent work-groups in dispatch order: [begin, end) run and represent [from, to).
struct Stratum {
  uint64_t from = 0, begin = 0, end = 0, to = 0;
  double run() const { return static_cast<double>(end - begin); }
  double gap() const { return static_cast<double>(to - from) - run(); }
};

struct StrataRequest {
  uint64_t done = 0, total = 0;   // work-groups: already executed, all
  uint64_t length = 0, last = 0;  // of a sampling unit; of the last one
  uint32_t count = 0;             // sampling units between the first and the last one
  uint32_t align = 1;             // units begin at multiples of this
};

// The first stratum is the part already executed, the last one ends with the grid; the others are equally long, each
// with its sampling unit in the middle, so that a linear trend along the grid is reproduced exactly. Uses fewer units
// if they would not fit, and none (one stratum, everything runs) if sampling would save little.
std::vector<Stratum> choose_strata(const StrataRequest& request);

// MemoryCounts and EngineCounts as one row of numbers. Both consist only of 64-bit counts.
struct Events {
  static constexpr size_t kMemory = sizeof(MemoryCounts) / sizeof(uint64_t);
  static constexpr size_t kEngine = sizeof(EngineCounts) / sizeof(uint64_t);
  std::array<uint64_t, kMemory + kEngine> n{};
  Events() = default;
  Events(const MemoryCounts& memory, const EngineCounts& engine);
  void add_difference(const Events& after, const Events& before);
  MemoryCounts memory() const;
};

// Events of an instruction that waits or accesses memory (a site), over its modelled executions.
struct SiteTally {
  uint64_t times = 0;
  Events events;
};

// The measurements of a sampled dispatch.
struct Sample {
  std::vector<Stratum> strata;
  std::vector<std::vector<Executed>> executed;   // [stratum][instruction]: in the sampling unit
  std::vector<std::vector<Executed>> probed;     // [stratum][instruction]: in the functional probes around it
  std::vector<uint64_t> probes;                  // [stratum]: number of probes
  std::vector<uint32_t> sites;                   // [site]: instruction
  std::vector<bool> loads;                       // [site]: whether it loads from memory
  std::vector<uint64_t> ran;                     // [site]: executions, without those of probes
  std::vector<uint32_t> barriers;                // instructions
  uint64_t placed = 0;                           // work-groups that began, whether or not they ended
  std::vector<std::vector<uint64_t>> counted;    // [stratum][site]: executions whose events are included in `exact`
  std::vector<std::vector<SiteTally>> measured;  // [stratum][site]: with warm caches
  std::vector<SiteTally> spare;                  // [site]: while caches were not warm yet
  std::vector<std::vector<SiteTally>> cells;     // [cell][site]: `measured` split by measurement window
  std::vector<uint32_t> cell_strata;             // [cell]: stratum of the window
  Events exact;                                  // counted in full: first and last sampling unit
  Events simulated;                              // all modelled events, warm or cold, and the end of the dispatch
  MemoryCounts left_dirty;                       // write counts that writing back the remaining dirty lines would add
  uint64_t dirty_before = 0;                     // lines that were dirty some time before the end; 0: not measured
  // After the first sampling unit: the longest chain of atomics on one line, and all atomics.
  uint64_t chain_at_start = 0, atomics_at_start = 0;
  bool long_groups = false;     // memory was modelled only in windows
  size_t channels = 1;          // of all L2s
  double channel_excess = 0;    // excess of the busiest channel's requests over the average, relative to the average
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

// Estimate for cell `part` with the event rates of cell `like`.
Estimate estimate_of_cell(const Sample& sample, size_t part, size_t like);
// The estimate `whole` without further cold misses: misses that filled free L2 lines do not recur. This is how a
// working set that fits the L2 behaves.
MemoryCounts without_first_misses(const Sample& sample, MemoryCounts whole);
// The estimate `whole` if long work-groups drift apart between windows and share fewer of their loaded lines.
MemoryCounts when_drifting(const Sample& sample, const MemoryCounts& whole);
// Executions of stratum k alone, scaled to the work-groups that it represents.
std::vector<Executed> executions_of_stratum(const Sample& sample, size_t k);

// Replaces counts that do not follow from the rates of sites: write-backs, which conserve what became dirty, and
// maxima.
void conserve_writes(const Sample& sample, MemoryCounts* counts);
void scale_maxima(const Sample& sample, MemoryCounts* counts);

// Expected relative errors (two standard deviations) of a counter's total.
// For counters derived from executions: from the differences between adjacent strata; `values[k]` is the estimate for
// all of strata[k].
double execution_error(const Sample& sample, const std::vector<double>& values, double total);
// For counters derived from memory accesses: from `differences`, the change of each cell's share if it is estimated
// with the rates of the previous cell.
double memory_error(const Sample& sample, const std::vector<double>& differences, double total);

}  // namespace hipsynth
