#include "timing/uncertainty.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "counter_names.h"
#include "timing/model.h"

namespace hipsynth {
namespace {

struct Rule {
  const char* counter;  // the work below is as uncertain as this counter
  std::vector<double Work::*> work;
};

// What happens in no window, such as which lines are modified at the end: half of the sampled durations of generated
// programs were within this of full runs where windows showed less.
constexpr double kLeast = 0.002;

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {name_of(Counter::SQ_INSTS),
       {&Work::valu_full, &Work::valu_packed, &Work::valu_trans, &Work::valu_f64, &Work::valu_int64_mul,
        &Work::mfma_cycles, &Work::salu, &Work::smem, &Work::vmem, &Work::lds, &Work::flow, &Work::jumps,
        &Work::barriers, &Work::scalar_hit_waits}},
      {name_of(Counter::SQ_LDS_IDX_ACTIVE), {&Work::lds_cycles, &Work::lds_waits}},
      {name_of(Counter::TCP_TOTAL_CACHE_ACCESSES), {&Work::l1_cycles_busiest_cu, &Work::l1_waits}},
      {name_of(Counter::TCC_REQ),
       {&Work::l2_requests_busiest_channel, &Work::l2_turns_busiest_channel, &Work::l2_waits, &Work::scalar_l2_waits,
        &Work::atomics_busiest_line, &Work::store_waits, &Work::store_tails}},
      {name_of(Counter::FETCH_SIZE), {&Work::fabric_read_bytes, &Work::infinity_waits, &Work::scalar_infinity_waits}},
      {name_of(Counter::WRITE_SIZE), {&Work::fabric_write_bytes}},
      {kMemoryBytes, {&Work::hbm_read_bytes, &Work::hbm_write_bytes, &Work::hbm_waits, &Work::scalar_hbm_waits}},
      {name_of(Counter::TCC_ALL_TC_OP_WB_WRITEBACK), {&Work::flushed_bytes, &Work::left_bytes}},
  };
  return all;
}

}  // namespace

double duration_error(const Spec& spec, const Work& work, const std::map<std::string, double>& errors) {
  if (errors.empty()) return 0;
  const double duration = estimate(spec, work).duration_ns;
  double sum = 0;
  for (const Rule& rule : rules()) {
    const auto error = errors.find(rule.counter);
    if (error == errors.end() || error->second == 0) continue;
    Work more = work;
    for (double Work::* member : rule.work) more.*member *= 1 + error->second;
    sum += std::abs(estimate(spec, more).duration_ns / duration - 1);
  }
  return std::max(sum, kLeast);
}

}  // namespace hipsynth
