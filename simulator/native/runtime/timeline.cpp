#include "timeline.h"

#include <algorithm>

namespace hipsynth::runtime {
namespace {

constexpr double kRounding = 1e-9;  // tolerance for sums of shares

}  // namespace

// The earliest time from which `share` is free for `ns`. Candidates are only the end times of other operations.
double Timeline::start_of(const std::vector<Use>& uses, double ready, double share, double ns) const {
  std::vector<double> candidates = {ready};
  for (const Use& u : uses) {
    if (u.end > ready) candidates.push_back(u.end);
  }
  std::sort(candidates.begin(), candidates.end());
  const auto taken = [&](double t) {
    double sum = 0;
    for (const Use& u : uses) sum += u.start <= t && t < u.end ? u.share : 0;
    return sum;
  };
  for (const double t : candidates) {
    double most = taken(t);
    for (const Use& u : uses) {
      if (u.start > t && u.start < t + ns) most = std::max(most, taken(u.start));
    }
    if (most + share <= 1 + kRounding) return t;
  }
  return candidates.back();
}

double Timeline::run(Engine engine, double ready, double share, double ns) {
  ready = std::max(ready, host_);
  if (engine != Engine::none) {
    const auto i = static_cast<size_t>(engine);
    std::vector<Use>& uses = uses_[i];
    std::erase_if(uses, [&](const Use& u) { return u.end <= host_; });
    if (uses.size() >= kMostUses) {  // drop the oldest uses; their gaps are not filled any more
      const auto oldest = std::min_element(uses.begin(), uses.end(), [](auto& a, auto& b) { return a.end < b.end; });
      floor_[i] = std::max(floor_[i], oldest->end);
      uses.erase(oldest);
    }
    ready = start_of(uses, std::max(ready, floor_[i]), std::min(share, 1.0), ns);
    uses.push_back({ready, ready + ns, std::min(share, 1.0)});
  }
  last_ = std::max(last_, ready + ns);
  return ready + ns;
}

void Timeline::wait(double until) {
  host_ = std::max(host_, until);
  last_ = std::max(last_, host_);
}

}  // namespace hipsynth::runtime
