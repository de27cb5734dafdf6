// Executes a dispatch for its results, without modelling time or memory: work-groups one after the other, and on all of
// the host's cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/counters.h"
#include "core/engine.h"
#include "core/launch.h"
#include "core/state.h"
#include "core/wave_pool.h"

namespace hipsynth {

// How the work-groups of a dispatch may run.
enum class Freedom : uint8_t {
  none,    // all at the same time, as on the device
  order,   // one after the other, in the order of their numbers
  threads  // also at the same time in groups of neighbours, on several threads
};

// `program`: with Step::decides set for this kernel (sampling/slice.h), whose dispatches are repeatable and not
// ordered. `proven`: no dispatch with these arguments writes memory that decides its control flow or addresses.
// Otherwise kernels that could wait for other work-groups have no freedom: those that load in a loop what decides
// something. `apart`: an equal dispatch has found FunctionalEngine::apart().
Freedom freedom_of(const Program& program, const KernelInfo& kernel, bool proven, bool apart);

// The waves of a work-group run in turns, each until a barrier or its end, so their state stays in the host's caches.
// Nothing depends on the number of threads: not even which error is reported, that of the first work-group with one.
class FunctionalEngine {
 public:
  // `context` is copied for every thread.
  FunctionalEngine(const Context& context, const EngineLimits& limits, const Launch& launch, const LaunchPlan& plan,
                   WavePool& pool, Freedom freedom);
  void run();  // throws SimError
  const EngineCounts& counts() const { return counts_; }
  const OutOfBounds& out_of_bounds() const { return out_of_bounds_; }
  // Whether parts of the grid certainly touch no page that another one writes. Known after a run in order.
  bool apart() const { return apart_; }
  std::vector<Executed> executions() const;  // per static instruction

 private:
  class Worker;
  struct Failure {
    uint64_t group = ~0ull;
    std::exception_ptr error;
  };

  void run_parts(WavePool& pool);
  void run_part(Worker* worker, uint64_t part);
  void check_overlap(const Footprint& footprint, uint64_t part);
  uint64_t first_group_of(uint64_t part) const;
  void check_limits(uint64_t instructions) const;
  uint32_t thread_count() const;

  const Context& context_;
  const EngineLimits limits_;
  const Launch& launch_;
  const LaunchPlan& plan_;
  WavePool& pool_;
  const Freedom freedom_;
  const double start_s_ = processor_seconds();

  std::atomic<uint64_t> next_part_{0}, instructions_{0}, end_;
  std::atomic<uint32_t> next_worker_{0};
  std::mutex mutex_;  // of what follows
  Failure failure_;
  EngineCounts counts_;
  OutOfBounds out_of_bounds_;
  uint64_t first_out_of_bounds_ = ~0ull;  // work-group
  std::vector<Executed> runs_;            // difference array over instructions
  struct Toucher {
    uint64_t part;
    bool writes;
  };
  std::unordered_map<uint64_t, Toucher> pages_;  // of a run in order: by address
  bool apart_;
};

}  // namespace hipsynth
