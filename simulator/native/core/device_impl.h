// What a simulated device keeps between dispatches.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/access_log.h"
#include "core/hostcall.h"
#include "core/launch.h"
#include "core/reach.h"
#include "core/state.h"
#include "core/tally.h"
#include "core/wave_pool.h"
#include "dispatch/budget.h"
#include "dispatch/chooser.h"
#include "dispatch/repeats.h"
#include "execute/bank_costs.h"
#include "execute/memory_model.h"
#include "memory/hierarchy.h"
#include "sampling/slice.h"

namespace hipsynth {

struct Device::Impl {
  Arch arch;
  Spec spec;
  DeviceOptions options;
  Memory memory;
  RuntimeMemory runtime;
  std::unique_ptr<HostServices> host;
  std::unique_ptr<Hierarchy> hierarchy;     // null: functional only
  std::unique_ptr<InstructionTally> tally;  // null: not asked for
  MemoryModel functional;
  BankCosts bank_costs;
  WavePool waves;
  Chooser usual_chooser, coarse_chooser;
  std::optional<SamplingOptions> usual;  // while launches are sampled coarsely
  uint64_t clock = 0;                    // value of s_memtime at the start of the next dispatch

  using KernelKey = std::pair<uint64_t, uint32_t>;        // module serial number and entry
  std::map<uint64_t, std::unique_ptr<Program>> programs;  // by module serial number
  std::map<KernelKey, Reach> reached;
  std::map<KernelKey, KernelSlice> slices;
  std::map<KernelKey, KernelTraits> traits;
  AccessLog accesses;
  Footprint footprint;
  Repeats repeats;
  struct Shape {
    uint64_t counted = 0;  // dispatches
    Dispatch last;
  };
  std::map<std::vector<uint64_t>, Shape> shapes;  // with DeviceOptions::per_kernel
  // With DeviceOptions::budget_s.
  Budget budget;
  std::map<std::vector<uint64_t>, ShapeHistory> histories;
  const DeviceOptions asked;   // `options` are those of the launch
  bool values;                 // the next execution computes results; false: only the slice runs
  uint64_t most_work = ~0ull;  // of the next execution, see EngineLimits
  Spent spent;                 // on the last launch
  uint64_t instructions = 0;   // of the last execution
  double instruction_ns = 0;   // their average price
  uint64_t compared = 0;       // bytes of memory, in the last launch

  Impl(Arch a, const Spec& s, const DeviceOptions& o)
      : arch(a),
        spec(s),
        options(o),
        memory(o.memory_bytes, o.sampling_units > 0),
        runtime(memory),
        bank_costs(static_cast<uint32_t>(s.lds.banks), static_cast<uint32_t>(s.lds.bytes_per_cycle)),
        usual_chooser(options),
        coarse_chooser(options),
        footprint(memory),
        budget(o.budget_s),
        asked(o),
        values(o.values) {
    if (o.lines && o.count) tally = std::make_unique<InstructionTally>();
    reset();
  }

  void reset();
  void reset_caches();
  void forget(uint64_t module) {
    const auto is_of_module = [module](const auto& entry) { return entry.first.first == module; };
    std::erase_if(reached, is_of_module);
    std::erase_if(slices, is_of_module);
    std::erase_if(traits, is_of_module);
    programs.erase(module);
  }
  Chooser& chooser() { return usual ? coarse_chooser : usual_chooser; }
  bool sample_coarsely(bool coarse);
  void offer_services(const KernelInfo& kernel);
  const Program& program(const Module& module);
  void check_code(const Launch& launch, LaunchPlan* plan);
  Context context(const Launch& launch, const LaunchPlan& plan, KernelSlice* slice, Footprint* out);
  const KernelTraits& traits_of(const Launch& launch);
  bool results_needed(const Dispatch& d) const { return options.values && d.sampling.strategy == Strategy::exact; }
  Execution execute(const Launch& launch, const LaunchPlan& plan, Footprint* out, bool count,
                    const Repeat* proven = nullptr);
  Dispatch record(const Launch& launch, const LaunchPlan& plan, Execution* e);
  Dispatch run(const Launch& launch, const LaunchPlan& plan, Repeat* repeat);
  Freedom freedom(const Launch& launch, const Repeat* proven);
  void run_functionally(const Launch& launch, const LaunchPlan& plan, Repeat* repeat, Dispatch* d);
  Dispatch reuse(const Launch& launch, const LaunchPlan& plan, Repeat* repeat, const Counted& counted);
  Repeat* find_repeat(const Launch& launch, const LaunchPlan& plan);
  Dispatch run_or_reuse(const Launch& launch, const LaunchPlan& plan);
  Work timed_work(const Launch& launch, const LaunchPlan& plan, const Execution& e);
  void count_and_time(const Launch& launch, const LaunchPlan& plan, const Execution& e, Dispatch* d);

  Dispatch launch_within_budget(const Launch& launch, const LaunchPlan& plan);
  bool counts_apart(const Launch& launch);
  double pay(double limit_ns, ShapeHistory* shape, const std::function<Dispatch()>& execute, Dispatch* d);
  bool gives_up(const SimError& error) const;
  bool count_within_budget(const Launch& launch, const LaunchPlan& plan, Counting how, Dispatch* d, bool* intact);
  void run_if_affordable(const Launch& launch, const LaunchPlan& plan, Dispatch* d);
};

}  // namespace hipsynth
