// Chooses the strategy for each dispatch, and whether to execute it a second time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/machine.h"
#include "dispatch/recording.h"
#include "dispatch/strategy.h"

namespace hipsynth {

class Chooser {
 public:
  explicit Chooser(const DeviceOptions& options) : options_(options) {}
  // What is remembered of earlier dispatches of a kernel and affects the choice.
  enum class Memory : uint8_t { nothing, sampled_well, sampled_badly, refined_well, refined_badly };
  Memory memory_of(const Launch& launch) const;
  // `hierarchy`: null for a functional run. Throws SimError.
  Execution execute(const PreparedLaunch& p, Hierarchy* hierarchy);

 private:
  using Key = std::pair<uint64_t, uint32_t>;  // module serial number, kernel entry
  // Result of the last large dispatch of a kernel.
  using Outcome = Memory;

  bool refines() const { return options_.largest_error > 0; }
  SamplingOptions coarse() const { return {options_.sampling_units, options_.sample_above}; }
  SamplingOptions fine() const;
  bool is_unsure(const PreparedLaunch& p, const Execution& e) const;
  Execution sample_known(const PreparedLaunch& p, Hierarchy& hierarchy, Outcome known) const;
  Execution sample_first(const PreparedLaunch& p, Hierarchy& hierarchy, Outcome* outcome);
  Execution refine(const PreparedLaunch& p, Hierarchy& hierarchy, const Snapshot& before, Outcome* outcome);
  uint64_t most_replayed(const PreparedLaunch& p, uint64_t exact_work) const;
  Execution replay(const PreparedLaunch& p, Hierarchy& hierarchy, const Snapshot& before, RecordedTraces* traces);

  const DeviceOptions& options_;
  uint64_t replayed_ = 0;  // work of replays beyond what is always replayed
  std::map<Key, Outcome> outcomes_;
  std::set<Key> unreplayed_;  // kernels with a dispatch that was too large to be replayed
};

}  // namespace hipsynth
