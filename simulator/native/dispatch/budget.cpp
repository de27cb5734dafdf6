#include "dispatch/budget.h"

#include <algorithm>

namespace hipsynth {
namespace {

// Shares of the budget. A first launch may take half of what is left, so that a few endless kernels leave room for the
// others. The rest is for running launches without counting them, on which the program's own results depend.
constexpr double kRepeats = 0.25;        // counting launches of a shape that has been counted
constexpr double kKeptForRunning = 0.1;  // no launch is counted when only this is left
constexpr double kFirst = 0.5;           // of what is left: one first launch
// A grid whose exact run takes more than this share of what is left is sampled. Replaying a trace may take up to 16
// times that, and an exact run after a rejected sample 10 times.
constexpr double kExact = 1.0 / 20, kExactForResults = 1.0 / 5;
constexpr uint32_t kFewestUnits = 2;

}  // namespace

double price_of(const IssueCounts& issue) {
  if (issue.total == 0) return kPrices.any;
  double sum = kPrices.scalar * static_cast<double>(issue.salu + issue.flow) +
               kPrices.memory * static_cast<double>(issue.smem + issue.vmem) +
               kPrices.lds * static_cast<double>(issue.lds) +
               kPrices.matrix_cycle * static_cast<double>(issue.mfma_cycles);
  for (size_t rate = 0; rate < issue.valu_by_rate.size(); ++rate) {
    const double each = static_cast<Rate>(rate) == Rate::full ? kPrices.vector : kPrices.slow_vector;
    sum += each * static_cast<double>(issue.valu_by_rate[rate]);
  }
  return sum / static_cast<double>(issue.total);
}

Counting Budget::counting(const ShapeHistory& shape) const {
  if (shape.too_long || left_ns_ <= kKeptForRunning * total_ns_) return Counting::none;
  if (shape.counted == 0) return Counting::first;
  const bool affordable = repeats_ns_ + shape.counting_ns <= kRepeats * total_ns_;
  return shape.exact && affordable ? Counting::again : Counting::none;
}

Fineness Budget::fineness(const DeviceOptions& asked, bool counted_alone) const {
  const double share = left_ns_ / total_ns_;
  const uint32_t divisor = share > 0.5 ? 1 : share > 0.25 ? 2 : 4;
  const auto affordable = static_cast<uint64_t>(kExact * left_ns_ / kPrices.any);
  Fineness f{asked.sampling_units, std::min(asked.sample_above, affordable), affordable < asked.sample_above};
  if (!counted_alone)
    f.sample_above = std::max(f.sample_above, static_cast<uint64_t>(kExactForResults * left_ns_ / kPrices.any));
  if (f.units == 0 || divisor == 1) return f;
  f.units = std::max(kFewestUnits, f.units / divisor);
  f.coarse = true;
  return f;
}

double Budget::counting_limit_ns() const { return kFirst * left_ns_; }

}  // namespace hipsynth
