// Executes one dispatch: places work-groups on CUs and interleaves their waves.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/counters.h"
#include "core/launch.h"
#include "core/register_lookahead.h"
#include "core/state.h"
#include "core/waits.h"
#include "core/wave_pool.h"
#include "execute/memory_model.h"
#include "sampling/partial_replay.h"
#include "sampling/sampler.h"
#include "sampling/trace.h"

namespace hipsynth {

// Limits on one execution of a dispatch; see DeviceOptions.
// Which work-groups a functional run executes: all, or about one in so many, in equal parts of the grid one window
// each.
struct GroupShare {
  uint32_t one_in = 1;  // 1: all
  uint32_t which = 0;   // where the windows begin, as a share of the parts; `one_in`: only the first group runs
  bool includes(uint64_t number, uint64_t total) const;
};

struct EngineLimits {
  uint64_t wave_instructions = 0;
  double cpu_seconds = 0;      // 0: no limit
  uint64_t most_work = ~0ull;  // in the units of simulation_work(); wave instructions without the memory model
  GroupShare share = {};
  void (*poll)() = nullptr;
};

// Waves of all CUs run in rounds of short time slices. A wave runs until it must wait for memory or for the vector
// memory unit of its CU, reaches a barrier, ends, or has used up its quantum; the Context's MemoryModel decides when
// memory answers. In each round CUs run in order, and the waves of a CU from oldest to youngest. The caches therefore
// see an interleaving like the hardware's, and the simulation is deterministic.
class Engine {
 public:
  Engine(Context& context, const Spec& spec, const EngineLimits& limits, const Launch& launch, const LaunchPlan& plan,
         WavePool& pool, Sampler* sampler = nullptr);
  // Call before run(): only the recorder's work-groups run, with the recorder as their memory model.
  void record(Recorder* recorder);
  // Call before run(): no instruction executes; all work-groups access memory and wait as in the traces, or with `part`
  // as many as that lets.
  void replay(const Traces& traces, CountedMemory& memory, PartialReplay* part = nullptr);
  void run();                                // throws SimError; a sampler may end it early
  std::vector<Executed> executions() const;  // per static instruction
  const std::vector<std::vector<Executed>>& runs() const { return buckets_; }
  const std::vector<Lives>& lives() const { return lives_; }  // [bucket], as far as work-groups have ended
  uint64_t peak_waves() const { return peak_waves_; }

 private:
  static constexpr uint64_t kNever = ~0ull;
  static constexpr uint32_t kQuantum = 512;  // instructions per time slice

  // Scheduling data of a wave, kept apart from its state, which is rarely in the host's caches.
  struct ScheduledWave {
    Resident* wave;
    WorkGroup* group;
    uint32_t index, slot;      // as in Resident
    uint32_t pc = 0;           // of its next instruction
    bool started = false;      // before its first time slice a wave has no state
    bool at_port = false;      // its next instruction needs the vector memory unit, which was busy
    uint64_t queued_at = 0;    // since this round
    uint64_t ran_at = kNever;  // the last round in which it ran
  };

  struct Cu {
    std::vector<std::unique_ptr<WorkGroup>> free_groups;
    std::vector<ScheduledWave> waves;  // oldest first
    std::vector<uint64_t> wakes;       // [wave]: first round in which it runs; kNever at a barrier and after its end
    uint64_t next_wake = kNever;       // no wave of this CU runs before this round
    uint32_t groups = 0, ended_groups = 0;
    std::vector<uint32_t> free_slots;  // released wave slots of the dispatch (they index scratch)
    uint32_t used_slots = 0;
  };

  // State of a trace-driven replay.
  struct Replay {
    const Traces& traces;
    CountedMemory& memory;
    PartialReplay* part;
    std::vector<LoadShape> shapes;        // coalesced loads; shapes[0] is a temporary for those beyond the limit
    std::vector<uint16_t> shape_numbers;  // [pattern][start within a vL1D line]: index into shapes, 0: not computed yet
  };

  // A straight-line run: consecutive instructions executed with the same EXEC.
  struct Run {
    uint32_t start, budget, lanes;  // budget: instructions left of the quantum when the run began
  };

  bool admit();  // places work-groups; false if none could be placed
  bool place(uint32_t xcd, uint64_t group);
  uint32_t take_slot(Cu* cu, uint32_t index) const;
  bool step_cu(size_t position);  // `position` in used_cus_
  void step_wave(size_t position, size_t i);
  bool queue_first(const Cu& cu);
  void prefetch(const ScheduledWave& scheduled);
  void look_ahead();
  void start(ScheduledWave* scheduled);
  void start_replay(ScheduledWave* scheduled);
  void run_wave(Resident* r);
  template <Event::Kind kKind>
  void execute_memory(Resident* r, const Step& s, uint32_t pc, uint32_t in_run);
  bool jump(Resident* r, Run* run, uint32_t pc, uint32_t to);
  bool sampled_wait(Resident* r, const Step& s, uint32_t pc);
  void stop_at(Resident* r, const Step& s, Run* run, uint32_t pc);
  void replay_wave(Resident* r, bool was_at_port);
  bool replay_event(Resident* r, const Event& e, uint32_t at, uint32_t begun);
  bool replay_observed(Resident* r, const Event& e, uint32_t at, uint32_t begun);
  uint32_t replayed_pc(const Resident& r) const;  // of the instruction whose event the wave has replayed last
  void replay_access(Resident* r, const Event& e);
  const LoadShape& shape_at(uint32_t pattern, uint64_t start);
  void add_replayed();
  void run_time_slice(ScheduledWave* scheduled);
  void forget_groups();
  bool port_is_closed(Resident* r);
  bool take_wait(Resident* r, WaitLimits limits, uint32_t now);
  void end_run(Run* run, uint32_t pc);
  void leave(Resident* r, Run* run, uint32_t pc);
  void arrive(Resident* r);
  void arrive_at_grid(Resident* r, const Step& s);
  void end_wave(Resident* r);
  void note_lifetime(const Resident& r);
  void leave_together(const std::vector<Resident*>& waves);
  void release_barrier(WorkGroup* g);
  void retire(Cu* cu);
  void abandon();
  void check_limits();
  void advance_round(bool ran);
  uint32_t index_at(Resident* r, const Step& s, uint64_t address);
  uint32_t next_pc(Resident* r, const Step& s, uint32_t pc);

  Context& c_;
  EngineLimits limits_;
  const Launch& launch_;
  const LaunchPlan& plan_;
  WavePool& pool_;
  std::vector<Cu> cus_;
  Sampler* sampler_;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<Replay> replay_;
  std::vector<std::vector<Executed>> buckets_;  // per stratum: difference array over instructions
  Executed* runs_;                              // the running wave's bucket
  std::vector<Lives> lives_;                    // [bucket]
  const uint32_t* issued_;                      // Program::issued
  std::vector<uint64_t> next_group_;            // per XCD: next work-group number
  std::vector<uint32_t> next_cu_;               // per XCD
  std::vector<uint32_t> used_cus_;              // CUs with waves, in order
  std::vector<Resident*> at_grid_;              // waves waiting at a grid-wide barrier
  std::vector<Resident*> met_;                  // waves that have just met at a barrier
  uint64_t round_ = 0, next_wake_ = 0, live_ = 0, peak_waves_ = 0;
  uint32_t cus_per_xcd_, groups_per_round_;
  bool queued_;  // interleave.queued
  RegisterLookahead lookahead_;
  bool starts_without_vgprs_ = false;     // of the running steps: see RegisterLookahead
  size_t ahead_cu_ = 0, ahead_wave_ = 0;  // prefetching has reached this position in used_cus_ and in its waves
  std::vector<uint32_t> queue_;           // of the current CU: waves for the vector memory unit
  uint64_t next_issue_round_ = 0;         // round in which the current CU accepts vector memory again; 0: not blocked
  double start_s_ = processor_seconds();
};

}  // namespace hipsynth
