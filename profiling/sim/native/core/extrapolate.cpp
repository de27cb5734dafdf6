// From a sampled dispatch to the counters of the whole one.
#include <algorithm>

#include "core/counters.h"
#include "core/sampler.h"

namespace hipsynth {
namespace {

// What durations are made of: a duration is as uncertain as the least certain of these.
constexpr const char* kTimeGoesWith[] = {"SQ_INSTS", "TCP_TOTAL_CACHE_ACCESSES", "TCC_REQ", "FETCH_SIZE"};

using Counters = std::map<std::string, double>;

Counters counters_of(Context c, const Estimate& e) {
  Counters counters;
  c.counts = e.engine;
  c.hierarchy->set_counts(e.memory);
  count_instructions(c, e.executions, &counters);
  c.hierarchy->counters(&counters);
  return counters;
}

// Counters of the SQ follow from the work-groups that ran, apart from the LDS's; all others from memory accesses looked
// at.
bool from_executions(const std::string& name) {
  return (name.rfind("SQ_", 0) == 0 && name.rfind("SQ_LDS_", 0) != 0) || name.rfind("EXACT_", 0) == 0;
}

}  // namespace

std::vector<Executed> extrapolate(const Sample& sample, Context* c, Dispatch* d) {
  std::vector<Counters> strata;
  for (size_t k = 0; k < sample.strata.size(); ++k) {
    strata.push_back(counters_of(*c, estimate_of_stratum(sample, k)));
    d->groups_simulated += sample.strata[k].end - sample.strata[k].begin + sample.probes[k];
  }
  const std::vector<double> not_run = groups_not_run(sample), not_seen = groups_not_seen(sample);
  Estimate e = estimate(sample);
  for (const auto& [name, total] : counters_of(*c, e)) {
    std::vector<double> values;
    for (const Counters& stratum : strata) values.push_back(stratum.at(name));
    d->error[name] = sampling_error(sample.strata, values, from_executions(name) ? not_run : not_seen, total);
  }
  for (const char* name : kTimeGoesWith) d->error["Duration"] = std::max(d->error["Duration"], d->error[name]);
  d->sampled = true;
  c->counts = e.engine;
  return std::move(e.executions);
}

}  // namespace hipsynth
