// Within a budget, a label of every kernel comes before many launches of one: part of the budget is kept for kernels
// that were not counted yet.
#pragma once

#include <map>
#include <vector>

#include "core/machine.h"
#include "dispatch/budget.h"

namespace hipsynth {

// Share of the budget that later launches of counted kernels leave while another kernel of the module was not counted.
inline constexpr double kKeptForLabels = 0.2;

// Keys begin with the module's serial number and the kernel's entry.
using ShapeHistories = std::map<std::vector<uint64_t>, ShapeHistory>;

// Whether a kernel was counted in one of its shapes, or cannot be: counting it exceeded its share.
inline bool is_settled(const ShapeHistories& histories, const Module& module, const KernelInfo& kernel) {
  const std::vector<uint64_t> first{module.serial(), kernel.entry};
  for (auto at = histories.lower_bound(first); at != histories.end(); ++at) {
    if (at->first[0] != first[0] || at->first[1] != first[1]) return false;
    if (at->second.counted > 0 || at->second.too_long) return true;
  }
  return false;
}

// What a launch of a settled kernel may cost: it leaves some of the budget while another kernel of its module is not
// settled. Modules have kernels that are never launched, so that is a part of what programs may have.
// `known_ns`: what the launch costs, 0 if that is not known.
inline double spendable_ns(const Budget& budget, const ShapeHistories& histories, const Module& module, double budget_s,
                           double known_ns) {
  const double left = budget.left_ns(), kept = kKeptForLabels * budget_s * 1e9;
  if (known_ns > 0 && left - known_ns >= kept) return left;
  for (const KernelInfo* kernel : module.kernels()) {
    if (!is_settled(histories, module, *kernel)) return left - kept;
  }
  return left;
}

}  // namespace hipsynth
