// Measurements of a sampled dispatch at its sites: instructions that wait or access memory or the LDS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program.h"
#include "sampling/sampling.h"

namespace hipsynth {

struct SiteEvidence {
  std::vector<Step> steps;      // the backward slice with its sites marked; empty before sampling starts
  std::vector<uint32_t> sites;  // [site]: instruction
  std::vector<uint32_t> looks;  // [site]: modelled executions
  std::vector<std::vector<SiteTally>> measured;  // [stratum][site]: with warm caches
  std::vector<SiteTally> spare;                  // [site]: while caches were not warm yet
  std::vector<std::vector<SiteTally>> cells;     // [cell][site]: share of `measured` from one measurement window
  std::vector<uint32_t> cell_strata;             // [cell]: stratum of that window
  std::vector<SiteTally> closed;                 // [site]: sum over all cells

  void mark(const std::vector<Step>& slice);
  void resize(size_t strata) { measured.resize(strata, std::vector<SiteTally>(sites.size())); }
  // Makes a cell of the measurements since the last call.
  void close_cell(uint32_t stratum);
  // Whether vector memory atomics are among the sites: with them work-groups can distribute work dynamically.
  bool has_atomics() const;
  // Whether there are enough windows and the last two agree: the miss rate is stable, and the misses are not merely
  // cold misses into free L2 lines.
  bool windows_agree() const;
};

}  // namespace hipsynth
