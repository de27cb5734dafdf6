#include "core/functional.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "core/steps.h"
#include "core/waits.h"
#include "dispatch/budget.h"
#include "sampling/sampler.h"

namespace hipsynth {
namespace {

constexpr uint64_t kWindows = 8;                   // of a grid of which only a share runs
constexpr uint32_t kTurn = 1 << 16;                // instructions until another wave of the work-group continues
constexpr uint64_t kParts = 16, kNeighbours = 64;  // parts of a grid; their sizes are multiples of this
constexpr uint64_t kWavesPerThread = 64;           // of a dispatch: starting a thread takes as long as some of them
constexpr uint32_t kMostThreads = 16;
constexpr uint64_t kCheckEvery = 1 << 20;  // instructions between checks of the limits

bool decides_from_memory(const Step& s) {
  return (s.action == Action::vector_memory || s.action == Action::scalar_memory) && s.decides;
}

bool is_atomic(const Step& s) { return s.action != Action::lds && s.inst && s.inst->op->mem.kind == MemKind::atomic; }

// EngineCounts consists only of 64-bit counts.
void add_counts(const EngineCounts& more, EngineCounts* sum) {
  std::array<uint64_t, sizeof(EngineCounts) / sizeof(uint64_t)> a, b;
  std::memcpy(a.data(), &more, sizeof more);
  std::memcpy(b.data(), sum, sizeof *sum);
  for (size_t i = 0; i < a.size(); ++i) b[i] += a[i];
  std::memcpy(sum, b.data(), sizeof *sum);
}

void merge(const Footprint& more, Footprint* all) {
  for (const Footprint::Use use : {Footprint::decides, Footprint::reads, Footprint::writes}) {
    for (const Extent& e : more.pages(use)) all->add(use, e.start, e.bytes);
  }
  if (!more.complete()) all->add_unknown();
}

}  // namespace

Freedom freedom_of(const Program& program, const KernelInfo& kernel, bool proven, bool apart) {
  const auto begin = program.steps.begin(), first = begin + kernel.entry, last = begin + kernel.end;
  for (auto at = first; at != last && !proven; ++at) {
    const bool jumps = at->action == Action::branch || at->action == Action::branch_if;
    const auto target = begin + at->target;
    if (jumps && target <= at && std::any_of(target, at, decides_from_memory)) return Freedom::none;
  }
  return apart && std::none_of(first, last, is_atomic) ? Freedom::threads : Freedom::order;
}

// One thread's work-group.
class FunctionalEngine::Worker {
 public:
  Worker(FunctionalEngine& engine, WavePool& pool, uint32_t number)
      : engine_(engine),
        launch_(engine.launch_),
        plan_(engine.plan_),
        c_(engine.context_),
        footprint_(c_.memory),
        runs_(c_.program.steps.size() + 1),
        first_slot_(number * plan_.occupancy.waves_per_group) {
    c_.accesses = nullptr;
    c_.footprint = engine.freedom_ == Freedom::order ? &footprint_ : nullptr;
    pool.prepare(plan_.initial.rows);
    for (uint32_t i = 0; i < plan_.occupancy.waves_per_group; ++i) waves_.push_back(pool.take());
  }

  uint64_t out_of_bounds = ~0ull;  // first work-group with such an access

  void run_group(uint64_t number);
  // Reports the instructions since the last call. Throws SimError if the dispatch has exceeded a limit.
  void report() {
    engine_.check_limits(engine_.instructions_ += c_.counts.wave_instructions - reported_);
    reported_ = c_.counts.wave_instructions;
  }
  const Context& context() const { return c_; }
  Footprint& footprint() { return footprint_; }
  const std::vector<Executed>& runs() const { return runs_; }

 private:
  void start(uint64_t number);
  void run_wave(Resident* r);
  void end_run(uint32_t start, uint32_t pc, uint32_t lanes);
  void stop_at(Resident* r, const Step& s, uint32_t pc);

  FunctionalEngine& engine_;
  const Launch& launch_;
  const LaunchPlan& plan_;
  Context c_;
  Footprint footprint_;
  std::vector<Executed> runs_;
  uint64_t reported_ = 0;  // instructions
  uint32_t first_slot_;
  std::vector<Resident*> waves_;
  WorkGroup group_;
};

void FunctionalEngine::Worker::start(uint64_t number) {
  const Dim3& grid = launch_.grid;
  group_.id = {static_cast<uint32_t>(number % grid.x), static_cast<uint32_t>(number / grid.x % grid.y),
               static_cast<uint32_t>(number / grid.x / grid.y)};
  group_.waves = plan_.occupancy.waves_per_group;
  group_.ended = group_.at_barrier = 0;
  group_.lds.assign(c_.strict_bounds ? plan_.lds_bytes : plan_.lds_room, c_.lds_fill);
  for (uint32_t i = 0; i < group_.waves; ++i) {
    start_wave(c_.arch, plan_, launch_, c_.scratch_base, {&group_, i, first_slot_ + i}, waves_[i]);
    set_up_rows(plan_, waves_[i]);
    count_wave(std::min<uint32_t>(kLanes, plan_.threads - i * kLanes), &c_.counts);
  }
}

void FunctionalEngine::Worker::run_group(uint64_t number) {
  start(number);
  while (group_.ended < group_.waves) {
    for (Resident* r : waves_) {
      if (r->state == WaveState::ready) run_wave(r);
    }
    if (c_.counts.wave_instructions - reported_ > kCheckEvery) report();
    if (group_.at_barrier == 0 || group_.at_barrier + group_.ended < group_.waves) continue;
    group_.at_barrier = 0;
    for (Resident* r : waves_) {
      if (r->state == WaveState::barrier) r->state = WaveState::ready;
    }
  }
}

// Counts the instructions from `start` to the one before `pc`.
void FunctionalEngine::Worker::end_run(uint32_t start, uint32_t pc, uint32_t lanes) {
  ++runs_[start].times;
  runs_[start].lanes += lanes;
  --runs_[pc].times;
  runs_[pc].lanes -= lanes;
  c_.counts.wave_instructions += pc - start;
}

// Handles an instruction at which a wave stops.
void FunctionalEngine::Worker::stop_at(Resident* r, const Step& s, uint32_t pc) {
  r->wave.pc = pc + 1;
  switch (s.action) {
    case Action::barrier:
      ++c_.counts.barriers;
      if (group_.waves == 1) return;
      r->state = WaveState::barrier;
      ++group_.at_barrier;
      return;
    case Action::end:
      r->state = WaveState::ended;
      ++group_.ended;
      c_.counts.store_tails += r->outstanding_vm != 0;
      return;
    case Action::trap:
      throw_trap(c_, *r, s);
    default:
      throw SimError(Reason::unsupported_opcode,
                     "kernel " + launch_.kernel->name + " reached `" + launch_.module->code().text[pc] + "`");
  }
}

void FunctionalEngine::Worker::run_wave(Resident* r) {
  Wave& w = r->wave;
  const Step* steps = c_.steps;
  uint32_t pc = w.pc, start = pc, lanes = active_lanes(w);
  const uint64_t until = c_.counts.wave_instructions + kTurn;
  for (;; ++pc) {
    const Step& s = steps[pc];
    switch (s.action) {
      case Action::alu:
        pc = execute_alu_run(w, steps, pc);
        break;
      case Action::alu_exec:
        execute_alu(w, *s.inst);
        end_run(start, pc + 1, lanes);
        start = pc + 1;
        lanes = active_lanes(w);
        break;
      case Action::scalar_memory:
        execute_scalar_memory(c_, *r, s);
        break;
      case Action::vector_memory:
        execute_vector_memory(c_, *r, s);
        break;
      case Action::lds:
        execute_lds(c_, *r, s);
        break;
      case Action::waitcnt:
        r->outstanding_vm = std::min(r->outstanding_vm, wait_limits(s.inst->imm).vm);
        break;
      case Action::branch_if:
        if (!holds(w, s.condition)) break;
        [[fallthrough]];
      case Action::branch:
        end_run(start, pc + 1, lanes);
        w.pc = start = s.target;
        if (c_.counts.wave_instructions > until) return;
        pc = start - 1;  // the loop's increment then moves to the target
        break;
      case Action::get_pc:
        w.set_sgpr64(s.inst->dst.reg, launch_.module->address_of(pc + 1));
        break;
      case Action::hop:
        pc = s.target - 1;
        break;
      case Action::skip:
        break;
      default:
        end_run(start, pc + (s.action == Action::barrier || s.action == Action::end), lanes);
        stop_at(r, s, pc);
        if (r->state != WaveState::ready) return;
        start = pc + 1;  // the barrier of a single wave
    }
  }
}

bool GroupShare::includes(uint64_t number, uint64_t total) const {
  if (one_in <= 1) return true;
  if (which >= one_in) return number == 0;
  const uint64_t part = std::max<uint64_t>(1, (total + kWindows - 1) / kWindows);
  const uint64_t first = part * which / one_in, width = std::max<uint64_t>(1, part / one_in);
  return number % part >= first && number % part < first + width;
}

FunctionalEngine::FunctionalEngine(const Context& context, const EngineLimits& limits, const Launch& launch,
                                   const LaunchPlan& plan, WavePool& pool, Freedom freedom)
    : context_(context),
      limits_(limits),
      launch_(launch),
      plan_(plan),
      pool_(pool),
      freedom_(freedom),
      end_(plan.total_groups),
      runs_(context.program.steps.size() + 1),
      apart_(freedom == Freedom::order) {}

void FunctionalEngine::check_limits(uint64_t instructions) const {
  if (instructions > limits_.wave_instructions) {
    throw SimError(Reason::instruction_limit, "kernel " + launch_.kernel->name + ": more than " +
                                                  std::to_string(limits_.wave_instructions) +
                                                  " wave instructions executed; it may never end");
  }
  if (instructions > limits_.most_work) {
    throw SimError(Reason::over_budget, "kernel " + launch_.kernel->name + ": more work than the budget has left");
  }
  if (limits_.cpu_seconds > 0 && processor_seconds() - start_s_ > limits_.cpu_seconds) {
    char text[64];
    std::snprintf(text, sizeof text, ": still running after %g s of processor time", limits_.cpu_seconds);
    throw SimError(Reason::time_limit, "kernel " + launch_.kernel->name + text);
  }
}

uint64_t FunctionalEngine::first_group_of(uint64_t part) const {
  const uint64_t each = (plan_.total_groups / kParts + kNeighbours - 1) / kNeighbours * kNeighbours;
  return std::min(plan_.total_groups, part * std::max(each, kNeighbours));
}

// Runs the parts of the grid in ascending order until none is left; the last one is the rest. After a failure, parts
// behind it are no longer begun.
void FunctionalEngine::run_parts(WavePool& pool) {
  Worker worker(*this, pool, next_worker_++);
  for (uint64_t part; (part = next_part_++) < kParts && first_group_of(part) < end_;) run_part(&worker, part);
  const std::lock_guard<std::mutex> lock(mutex_);
  const Context& c = worker.context();
  add_counts(c.counts, &counts_);
  for (size_t i = 0; i < runs_.size(); ++i) {
    runs_[i].times += worker.runs()[i].times;
    runs_[i].lanes += worker.runs()[i].lanes;
  }
  out_of_bounds_.count += c.out_of_bounds.count;
  if (worker.out_of_bounds < first_out_of_bounds_) {
    first_out_of_bounds_ = worker.out_of_bounds;
    out_of_bounds_.first = c.out_of_bounds.first;
    out_of_bounds_.instruction = c.out_of_bounds.instruction;
  }
}

void FunctionalEngine::run_part(Worker* worker, uint64_t part) {
  uint64_t number = first_group_of(part);
  const uint64_t last = part + 1 == kParts ? plan_.total_groups : first_group_of(part + 1);
  try {
    for (; number < last; ++number) {
      if (!limits_.share.includes(number, plan_.total_groups)) continue;
      worker->run_group(number);
      if (worker->context().out_of_bounds.count) worker->out_of_bounds = std::min(worker->out_of_bounds, number);
    }
    worker->report();
  } catch (...) {  // a SimError, or no memory is left
    const std::lock_guard<std::mutex> lock(mutex_);
    if (number < failure_.group) failure_ = {number, std::current_exception()};
    end_ = std::min<uint64_t>(end_, number);
  }
  if (freedom_ != Freedom::order) return;
  check_overlap(worker->footprint(), part);
  if (context_.footprint) merge(worker->footprint(), context_.footprint);
  worker->footprint().clear();
}

void FunctionalEngine::check_overlap(const Footprint& footprint, uint64_t part) {
  apart_ &= footprint.complete();
  for (const uint8_t uses : {Footprint::decides | Footprint::reads, +Footprint::writes}) {
    const bool writes = uses == Footprint::writes;
    for (const Extent& e : footprint.pages(uses)) {
      for (uint64_t at = e.start; apart_ && at < e.start + e.bytes; at += Memory::kPageBytes) {
        const auto [known, fresh] = pages_.try_emplace(at, Toucher{part, writes});
        if (fresh) continue;
        apart_ &= known->second.part == part || !(known->second.writes || writes);
        known->second.writes |= writes;
      }
    }
  }
}

uint32_t FunctionalEngine::thread_count() const {
  if (freedom_ != Freedom::threads) return 1;
  const uint64_t waves = plan_.total_groups * plan_.occupancy.waves_per_group;
  const uint64_t cores = std::min(std::max(1u, std::thread::hardware_concurrency()), kMostThreads);
  return static_cast<uint32_t>(std::clamp<uint64_t>(waves / kWavesPerThread, 1, cores));
}

void FunctionalEngine::run() {
  {
    std::vector<std::jthread> helpers;
    for (uint32_t i = 1; i < thread_count(); ++i) {
      helpers.emplace_back([this] {
        WavePool pool;
        run_parts(pool);
      });
    }
    run_parts(pool_);
  }
  if (failure_.error) std::rethrow_exception(failure_.error);
}

std::vector<Executed> FunctionalEngine::executions() const { return executions_of(runs_); }

}  // namespace hipsynth
