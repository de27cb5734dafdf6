// Instruction counters (SQ_*, TA_*) of a dispatch, derived from how often each static instruction ran.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/state.h"

namespace hipsynth {

struct IssueCounts {
  std::array<uint64_t, 8> valu_by_rate{};  // by Rate
  uint64_t mfma_cycles = 0, salu = 0, smem = 0, vmem = 0, lds = 0, flow = 0, total = 0;
};

// How often one static instruction ran, and with how many active lanes in total.
struct Executed {
  uint64_t times = 0, lanes = 0;
};

// Bytes that an active lane requests from memory or the LDS, before coalescing and caches; 0 if it moves no data.
uint32_t moved_bytes(const OpInfo& op);

// Sums of issued instructions that the timing model needs.
IssueCounts issue_counts(const Program& program, const std::vector<Executed>& executions);

// Adds the instruction counters to `out`.
void count_instructions(const Program& program, const EngineCounts& counts, const std::vector<Executed>& executions,
                        std::map<std::string, double>* out);

// Adds the counters that are sums of other counters, where all of those are known.
void derive_counters(std::map<std::string, double>* out);

}  // namespace hipsynth
