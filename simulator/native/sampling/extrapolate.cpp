// Extrapolates the counters of a sampled dispatch to the whole grid.
#include <algorithm>
#include <cmath>

#include "core/counters.h"
#include "sampling/sampler.h"
#include "timing/uncertainty.h"

namespace hipsynth {
namespace {

// Counter that is not 0 if there is memory traffic.
constexpr const char* kAccesses = "SQ_INSTS_VMEM";

// Counters that follow from the grid size alone.
constexpr const char* kOfGrid[] = {"SQ_WAVES", "SQ_ITEMS"};

using Counters = std::map<std::string, double>;

// Counters of the SQ, apart from the LDS's, are estimated from executions; all others from modelled memory accesses.
bool from_executions(const std::string& name) {
  return (name.rfind("SQ_", 0) == 0 && name.rfind("SQ_LDS_", 0) != 0) || name.rfind("EXACT_", 0) == 0;
}

bool from_grid(const std::string& name) {
  return std::any_of(std::begin(kOfGrid), std::end(kOfGrid), [&](const char* of) { return name.rfind(of, 0) == 0; });
}

}  // namespace

Counters counters_of(const Program& program, const Estimate& e, Hierarchy* hierarchy) {
  Counters counters;
  hierarchy->set_counts(e.memory);
  count_instructions(program, e.engine, e.executions, &counters);
  hierarchy->counters(&counters);
  derive_counters(&counters);
  counters[kMemoryBytes] = static_cast<double>(e.memory.hbm_read_bytes + e.memory.hbm_write_bytes);
  return counters;
}

Extrapolation extrapolate(const Sample& sample, const Program& program, Hierarchy* hierarchy) {
  Extrapolation result;
  const auto counters = [&](const Estimate& e) { return counters_of(program, e, hierarchy); };
  std::vector<Counters> strata, own, others;
  Estimate e = estimate(sample);
  for (size_t k = 0; k < sample.strata.size(); ++k) {
    Estimate part = e;
    part.executions = executions_of_stratum(sample, k);
    strata.push_back(counters(part));
    result.groups_simulated += sample.strata[k].end - sample.strata[k].begin + sample.probes[k];
  }
  for (size_t k = 0; k < sample.cells.size() && sample.cells.size() > 1; ++k) {
    Estimate part = e;
    part.memory = estimate_of_cell(sample, k, k).memory;
    own.push_back(counters(part));
    part.memory = estimate_of_cell(sample, k, k ? k - 1 : 1).memory;
    others.push_back(counters(part));
  }
  Estimate small = e;
  small.memory = without_first_misses(sample, e.memory);
  Estimate drifting = e;
  drifting.memory = when_drifting(sample, e.memory);
  // The whole must come last: the hierarchy keeps its counts.
  const Counters if_small = counters(small), if_drifting = counters(drifting), whole = counters(e);
  const auto values = [](const std::vector<Counters>& parts, const std::string& name) {
    std::vector<double> found;
    for (const Counters& part : parts) found.push_back(part.at(name));
    return found;
  };
  const auto differences = [&](const std::string& name) {
    std::vector<double> found = values(own, name);
    for (size_t k = 0; k < found.size(); ++k) found[k] -= others[k].at(name);
    return found;
  };
  const double work = execution_error(sample, values(strata, kAccesses), whole.at(kAccesses));
  const auto error_of = [&](const std::string& name, double total) {
    if (from_grid(name)) return 0.0;
    if (from_executions(name)) return execution_error(sample, values(strata, name), total);
    return std::hypot(total > 0 ? work : 0, memory_error(sample, differences(name), total),
                      std::hypot(total - if_small.at(name), total - if_drifting.at(name)) / std::max(1.0, total));
  };
  for (const auto& [name, total] : whole) result.error[name] = error_of(name, total);
  // Lines dirty at the end: as uncertain as their number varies shortly before the end.
  if (const double flushed = whole.at("TCC_ALL_TC_OP_WB_WRITEBACK"); flushed > 0) {
    const double change = std::abs(flushed - static_cast<double>(sample.dirty_before));
    for (const char* name : {"TCC_ALL_TC_OP_WB_WRITEBACK", "TCC_NORMAL_WRITEBACK", "TCC_NORMAL_EVICT"}) {
      result.error[name] = std::hypot(result.error[name], change / std::max(1.0, whole.at(name)));
    }
  }
  result.counts = e.engine;
  result.executed = std::move(e.executions);
  return result;
}

}  // namespace hipsynth
