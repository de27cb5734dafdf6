// Finds dispatches that must have the counters of an earlier one, so that they need not be counted again.
//
// Two dispatches have the same counters if code, shape, arguments and allocations are equal, if the loads on which
// addresses and control flow depend read the same values, and if they start from equivalent caches. vL1D and L2 start
// empty; lines of the Infinity Cache are equivalent if they are the same in the same order, or if the dispatch before
// was an equal one that found all its lines there: then nothing leaves the cache, and only equal accesses follow.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/footprint.h"
#include "core/launch.h"
#include "core/machine.h"
#include "dispatch/chooser.h"
#include "memory/hierarchy.h"

namespace hipsynth {

// A dispatch that was counted.
struct Counted {
  Dispatch dispatch;    // without what the kernel printed
  uint64_t cycles = 0;  // by which it advanced the clock
  uint64_t work = 0;    // in the units of simulation_work()
  // What it started from.
  Hierarchy::Inherited before;
  Chooser::Memory chooser{};
  uint64_t lines_before = 0;  // fingerprint of the Infinity Cache; 0: not taken
  // What it left.
  Hierarchy::Inherited after;
  bool replaced_lines = false;
  uint64_t lines_after = 0;
  std::shared_ptr<const LargeCache> lines;  // of the Infinity Cache, unless they are as before or unknown
};

// All dispatches with the same code, shape, arguments and allocations.
struct Repeat {
  uint64_t seen = 0;  // dispatches
  std::vector<Counted> counted;
  // Memory that the last counted dispatch read to decide, and all that it accessed.
  Extents decisive, touched;
  bool idempotent = false;  // it wrote no page that it had read
  bool apart = false;       // see FunctionalEngine::apart
  // Fingerprints of these pages afterwards, if known.
  bool decisive_known = false, contents_known = false;
  uint64_t decisive_contents = 0, contents = 0;
  uint32_t decisive_changes = 0, changes = 0;  // comparisons in a row that found other contents
};

class Repeats {
 public:
  // The entry of this launch; valid until the next call.
  Repeat& find(const Launch& launch, const LaunchPlan& plan, uint64_t scratch, uint64_t layout);
  // The counted dispatch that the next one would repeat, or null. `hierarchy`: null for a functional run.
  const Counted* match(Repeat& repeat, const Chooser::Memory& chooser, Hierarchy* hierarchy);
  // The entry if it was counted, and what it read to decide is as it was after that; else null.
  static Repeat* require_proven(Repeat* repeat);
  // Whether memory already holds what the dispatch would compute.
  static bool holds_results(Repeat& repeat);

  // Call before a dispatch that is counted, and after it; `repeat` is null if it cannot be repeated. Returns where
  // `counted` is kept, without its record, or null.
  Counted begin(const Repeat* repeat, const Chooser::Memory& chooser, Hierarchy* hierarchy);
  Counted* end(Repeat* repeat, Counted counted, const Footprint& footprint, Hierarchy* hierarchy);
  // Call instead of these for a dispatch that reuses `counted`.
  void reused(const Repeat& repeat, const Counted& counted, Hierarchy* hierarchy);
  // Takes fingerprints after the memory has its final contents.
  static void take_fingerprints(Repeat* repeat);

 private:
  void forget(Repeat* repeat);
  uint64_t lines_now(const Hierarchy& hierarchy);

  std::unordered_map<std::string, Repeat> repeats_;
  const Repeat* last_ = nullptr;      // entry of the last dispatch
  const Repeat* previous_ = nullptr;  // entry of the last dispatch, if its counters may be those of the next one:
  size_t previous_counted_ = 0;
  uint64_t lines_ = 0;                         // fingerprint of the Infinity Cache; 0: unknown
  std::shared_ptr<const LargeCache> pending_;  // its lines, if reused dispatches have changed them
  size_t copies_ = 0;                          // of its lines
};

}  // namespace hipsynth
