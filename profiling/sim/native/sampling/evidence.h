// What a sampled dispatch has seen at its sites: the instructions that wait or go to memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/program.h"
#include "sampling/sampling.h"

namespace hipsynth {

struct SiteEvidence {
  std::vector<Step> steps;                       // the backward slice with its sites marked; empty before sampling
  std::vector<uint32_t> sites;                   // [site]: instruction
  std::vector<uint32_t> looks;                   // [site]: tallied executions
  std::vector<std::vector<SiteTally>> measured;  // [stratum][site]: with warm caches
  std::vector<SiteTally> spare;                  // [site]: with caches not yet warm
  std::vector<std::vector<SiteTally>> cells;     // [cell][site]: of `measured`, what one window saw
  std::vector<uint32_t> cell_strata;             // [cell]: the stratum of that window
  std::vector<SiteTally> closed;                 // [site]: of `measured`, what all cells have

  void mark(const std::vector<Step>& slice);
  void resize(size_t strata) { measured.resize(strata, std::vector<SiteTally>(sites.size())); }
  // Makes what was measured since the last call a cell.
  void close_cell(uint32_t stratum);
  // Whether vector memory atomics are among the sites: with them work-groups can share out work.
  bool has_atomics() const;
  // Whether there are enough windows and the last two agree: misses are as frequent as before, and are not those that
  // come only once because the L2 had room.
  bool windows_agree() const;
};

}  // namespace hipsynth
