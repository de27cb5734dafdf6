// The three ways to execute a dispatch: exactly, as a sample of its work-groups, or as a trace-driven replay.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/counters.h"
#include "core/engine.h"
#include "core/footprint.h"
#include "core/functional.h"
#include "core/launch.h"
#include "core/state.h"
#include "sampling/partial_replay.h"
#include "sampling/sampler.h"
#include "sampling/slice.h"
#include "sampling/trace.h"

namespace hipsynth {

// Event counts of one execution of a dispatch, from which counters and durations are derived.
struct Execution {
  Sampling sampling;
  std::vector<Executed> executed;  // per static instruction, of the whole grid
  EngineCounts counts;             // of the whole grid
  Lives lives;
  OutOfBounds out_of_bounds;
  PrintfText text;
  uint64_t peak_waves = 0;
  bool apart = false;  // see FunctionalEngine::apart
};

// Work of the host: wave instructions, and what else is in simulation_work().
struct Spent {
  uint64_t instructions = 0, modelled = 0;
  void add(const EngineCounts& engine, const MemoryCounts& memory) {
    instructions += engine.wave_instructions;
    modelled += simulation_work(engine, memory) - engine.wave_instructions;
  }
};

// A validated launch, with everything that each of its executions needs.
struct PreparedLaunch {
  const Launch& launch;
  const LaunchPlan& plan;
  const Spec& spec;
  const Context context;  // initial state of an execution, with the functional memory model
  EngineLimits limits;
  KernelSlice& slice;
  bool waits;  // see KernelTraits
  WavePool& waves;
  Freedom freedom;  // of a functional run
  uint8_t* printf_buffer;
  Spent* spent;  // added to by each execution, also by those that are discarded
  std::function<double(const Execution&)> duration_error;  // relative, of the last execution
};

// Saves and restores what executions of one dispatch share and modify: the caches and their counts. All other state is
// created anew for each execution from PreparedLaunch. Device memory is not restored.
class Snapshot {
 public:
  explicit Snapshot(Hierarchy& hierarchy) : hierarchy_(hierarchy), saved_(hierarchy) {}
  void restore() const { hierarchy_ = saved_; }

 private:
  Hierarchy& hierarchy_;
  const Hierarchy saved_;
};

class DispatchStrategy {
 public:
  virtual ~DispatchStrategy() = default;
  // Nullopt: the execution stopped early because the dispatch should be replayed. Throws SimError.
  virtual std::optional<Execution> execute(const PreparedLaunch& p) = 0;
};

// Runs every work-group. `hierarchy`: null for a functional run. `steps`: the whole program or the kernel's slice.
class ExactStrategy final : public DispatchStrategy {
 public:
  ExactStrategy(Hierarchy* hierarchy, const Step* steps) : hierarchy_(hierarchy), steps_(steps) {}
  std::optional<Execution> execute(const PreparedLaunch& p) override;

 private:
  Execution execute_functionally(const PreparedLaunch& p);

  Hierarchy* hierarchy_;
  const Step* steps_;
};

// Runs a sample of the work-groups and extrapolates; runs all of them if the grid is small. `steps`: what runs before
// sampling begins, the whole program or the kernel's slice. `footprint`: where accesses are recorded, if the context of
// the launch does not say; or null.
class SampledStrategy final : public DispatchStrategy {
 public:
  SampledStrategy(Hierarchy& hierarchy, const SamplingOptions& options, TraceSource& traces, const Step* steps,
                  Footprint* footprint = nullptr)
      : hierarchy_(hierarchy), options_(options), traces_(traces), steps_(steps), footprint_(footprint) {}
  std::optional<Execution> execute(const PreparedLaunch& p) override;

 private:
  Hierarchy& hierarchy_;
  SamplingOptions options_;
  TraceSource& traces_;
  const Step* steps_;
  Footprint* footprint_;
};

// Replays memory accesses, waits and barriers without executing instructions: those of every work-group, or of as many
// as `groups`, and extrapolates.
class ReplayedStrategy final : public DispatchStrategy {
 public:
  ReplayedStrategy(Hierarchy& hierarchy, const Traces& traces, uint64_t groups)
      : hierarchy_(hierarchy), traces_(traces), groups_(groups) {}
  std::optional<Execution> execute(const PreparedLaunch& p) override;

 private:
  void extrapolate(const PreparedLaunch& p, const PartialReplay& part, const Engine& engine, Execution* e);

  Hierarchy& hierarchy_;
  const Traces& traces_;
  uint64_t groups_;
};

}  // namespace hipsynth
