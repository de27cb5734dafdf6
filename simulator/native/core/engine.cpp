#include "core/engine.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "core/hostcall.h"
#include "core/steps.h"
#include "core/tally.h"
#include "core/waits.h"
#include "dispatch/budget.h"

namespace hipsynth {
namespace {

constexpr uint32_t kNoTarget = ~0u;
constexpr uint32_t kWavesAhead = 3;       // waves whose state is prefetched in advance
constexpr uint64_t kRoundsPerPoll = 512;  // seldom enough to cost nothing that shows
constexpr uint32_t kFirstRows = 4;        // register rows prefetched before a wave starts
constexpr uint32_t kAtomicSlices = 16;    // consecutive atomics that a wave may wait for before other waves run

uint32_t u32(double value) { return static_cast<uint32_t>(value); }

// Sorts a few numbers that are nearly in order, and leaves equal ones as they are. Allocates nothing.
template <class Key>
void sort_by(Key key, std::vector<uint32_t>* numbers) {
  std::vector<uint32_t>& v = *numbers;
  for (size_t i = 1; i < v.size(); ++i) {
    const uint32_t moved = v[i];
    size_t at = i;
    for (; at > 0 && key(moved) < key(v[at - 1]); --at) v[at] = v[at - 1];
    v[at] = moved;
  }
}

void run_sampled(Context* c, Sampler* sampler, Resident* r, const Step& s, uint32_t pc) {
  if (c->tally) [[unlikely]]
    c->tally->begin_access(*r, c->counts);
  sampler->run_site(*r, s);
  if (c->tally) [[unlikely]]
    c->tally->end_access(*r, pc, c->counts, r->wave.exec() == 0);
}

}  // namespace

Engine::Engine(Context& context, const Spec& spec, const EngineLimits& limits, const Launch& launch,
               const LaunchPlan& plan, WavePool& pool, Sampler* sampler)
    : c_(context),
      limits_(limits),
      launch_(launch),
      plan_(plan),
      pool_(pool),
      cus_(u32(spec.topology.cus)),
      sampler_(sampler),
      buckets_(sampler ? sampler->buckets() : 1, std::vector<Executed>(context.program.steps.size() + 1)),
      runs_(buckets_[0].data()),
      issued_(context.program.issued.data()),
      next_group_(u32(spec.topology.xcds)),
      next_cu_(u32(spec.topology.xcds)),
      cus_per_xcd_(u32(spec.topology.cus) / u32(spec.topology.xcds)),
      groups_per_round_(u32(spec.interleave.groups_per_round)),
      queued_(spec.interleave.queued != 0) {
  for (size_t x = 0; x < next_group_.size(); ++x) next_group_[x] = x;
}

void Engine::record(Recorder* recorder) {
  recorder_ = recorder;
  c_.tally = nullptr;
  c_.model = recorder;
  buckets_.resize(recorder->buckets(), std::vector<Executed>(buckets_[0].size()));
}

uint32_t Engine::index_at(Resident* r, const Step& s, uint64_t address) {
  const Code& code = launch_.module->code();
  const uint64_t offset = address - launch_.module->image_base() - code.base;
  if (offset / 4 >= code.index_by_word.size() || offset % 4 || code.index_by_word[offset / 4] == kNoTarget) {
    throw_illegal_access(c_, *r, s, {"jump to", address, 4, -1});
  }
  return code.index_by_word[offset / 4];
}

// True if the wave must wait because more is outstanding than the instruction allows. A wave that waits for the result
// of an atomic continues at once, up to kAtomicSlices times in a row: if all other waves ran first, nearly every
// compare-and-swap of a contended loop would compare with a stale value (one succeeds per round), and n waves would
// need n * n / 2 attempts. So retry counts of contended loops are not modelled (on hardware they depend on the order of
// arrival): they stay near the minimum. The limit keeps a wave that polls another one with atomics from polling for
// long.
bool Engine::take_wait(Resident* r, WaitLimits limits, uint32_t now) {
  const auto [vm, lgkm] = limits;
  uint64_t wake = round_;
  const uint32_t clock = r->clock;
  c_.model->count_wait(c_, r, limits, now);
  if (c_.tally) [[unlikely]]
    c_.tally->add_wait(*r, limits, r->clock - clock);
  if (r->outstanding_vm > vm) {
    if (r->vm_level != Level::none) wake = c_.model->vector_back(*r, vm);  // no wave waits for stores alone
    r->outstanding_vm = vm;
    if (vm == 0) r->vm_level = Level::none;
  }
  if (r->outstanding_lgkm > lgkm) {
    if (r->smem_level != Level::none) {
      wake = std::max(wake, c_.model->scalar_return_round(r->smem_level));
    }
    r->outstanding_lgkm = lgkm;
    if (lgkm == 0) {
      r->smem_level = Level::none;
      r->lds_outstanding = false;
    }
  }
  if (r->atomic_outstanding && r->outstanding_vm == 0 && wake > round_) {
    r->atomic_outstanding = false;
    if (++r->atomic_slices < kAtomicSlices) wake = round_;
  }
  if (wake > round_) r->atomic_slices = 0;
  r->wake_round = wake;
  return wake > round_;
}

// Counts the run up to the instruction before `pc`.
void Engine::end_run(Run* run, uint32_t pc) {
  const uint32_t length = pc - run->start;
  ++runs_[run->start].times;
  runs_[run->start].lanes += run->lanes;
  --runs_[pc].times;
  runs_[pc].lanes -= run->lanes;
  c_.counts.wave_instructions += length;
  if (recorder_) recorder_->ran(length);
  run->budget = length < run->budget ? run->budget - length : 0;
}

void Engine::leave(Resident* r, Run* run, uint32_t pc) {
  end_run(run, pc);
  r->wave.pc = pc;
}

// Target of a taken jump; calls also write their return address.
uint32_t Engine::next_pc(Resident* r, const Step& s, uint32_t pc) {
  Wave& w = r->wave;
  switch (s.action) {
    case Action::set_pc:
      return index_at(r, s, w.sgpr64(s.inst->src[0].reg));
    case Action::swap_pc: {
      const uint32_t to = index_at(r, s, w.sgpr64(s.inst->src[0].reg));
      w.set_sgpr64(s.inst->dst.reg, launch_.module->address_of(pc + 1));
      return to;
    }
    case Action::call:
      w.set_sgpr64(s.inst->dst.reg, launch_.module->address_of(pc + 1));
      return s.target;
    case Action::get_pc:
      w.set_sgpr64(s.inst->dst.reg, launch_.module->address_of(pc + 1));
      return pc + 1;
    default:
      return s.target;
  }
}

// True if the CU's vector memory unit accepts nothing more in this round; the wave then waits for it.
bool Engine::port_is_closed(Resident* r) {
  const uint64_t opens = c_.model->next_issue_round(r->group->cu);
  if (opens <= round_) return false;
  r->wake_round = next_issue_round_ = opens;
  r->at_port = true;
  return true;
}

// Records a memory or LDS instruction at `pc`, `in_run` instructions after the last run ended.
template <Event::Kind kKind>
[[gnu::always_inline]] inline void Engine::execute_memory(Resident* r, const Step& s, uint32_t pc, uint32_t in_run) {
  r->now = r->clock + issued_[pc + 1];
  if (c_.tally) [[unlikely]]
    c_.tally->begin_access(*r, c_.counts);
  if constexpr (kKind == Event::Kind::lds) {
    if (recorder_) recorder_->before_access(c_.counts);
    execute_lds(c_, *r, s);
    if (recorder_) recorder_->add_lds(c_.counts, r->now, in_run);
  } else {
    if (recorder_) recorder_->before_access(c_.counts);
    kKind == Event::Kind::scalar ? execute_scalar_memory(c_, *r, s) : execute_vector_memory(c_, *r, s);
    if (recorder_) recorder_->add_not_requested(c_.counts);
    if (recorder_) recorder_->add_instruction(kKind, r->now, in_run, pc);
  }
  if (c_.tally) [[unlikely]]
    c_.tally->end_access(*r, pc, c_.counts, r->wave.exec() == 0);
}

// Continues at `to` after `pc`; false if the time slice is used up.
[[gnu::always_inline]] inline bool Engine::jump(Resident* r, Run* run, uint32_t pc, uint32_t to) {
  end_run(run, pc + 1);
  r->clock += issued_[pc + 1] - issued_[to] + c_.jump_cycles;
  ++c_.counts.jumps;
  r->wave.pc = run->start = to;
  if (recorder_) recorder_->add(Event::Kind::jump, r->clock + issued_[to], 0);
  return run->budget != 0;
}

// True if the wave stops here.
[[gnu::always_inline]] inline bool Engine::sampled_wait(Resident* r, const Step& s, uint32_t pc) {
  sampler_->before_wait();
  const bool waits = take_wait(r, wait_limits(s.inst->imm), r->clock + issued_[pc]);
  sampler_->after_wait(*r, s);
  return waits;
}

// Handles an instruction that always ends the time slice.
void Engine::stop_at(Resident* r, const Step& s, Run* run, uint32_t pc) {
  const auto record = [&](Event::Kind kind) {
    r->now = r->clock + issued_[pc];
    if (recorder_) recorder_->add_instruction(kind, r->now, pc + 1 - run->start, pc);
  };
  switch (s.action) {
    case Action::barrier:
      record(Event::Kind::barrier);
      leave(r, run, pc + 1);
      return arrive(r);
    case Action::grid_barrier:
      r->now = r->clock + issued_[pc];
      leave(r, run, pc + 1);
      return arrive_at_grid(r, s);
    case Action::end:
      record(Event::Kind::end);
      leave(r, run, pc + 1);
      return end_wave(r);
    case Action::trap:
      leave(r, run, pc);
      throw_trap(c_, *r, s);
    default:  // Action::refused
      leave(r, run, pc);
      throw SimError(Reason::unsupported_opcode,
                     "kernel " + launch_.kernel->name + " reached `" + launch_.module->code().text[pc] + "`");
  }
}

void Engine::run_wave(Resident* r) {
  Wave& w = r->wave;
  const Step* steps = c_.steps;
  uint32_t pc = w.pc;
  Run run{pc, kQuantum, active_lanes(w)};
  const auto in_run = [&] { return pc + 1 - run.start; };
  for (;; ++pc) {
    const Step& s = steps[pc];
    switch (s.action) {
      case Action::alu:
        pc = execute_alu_run(w, steps, pc);
        break;
      case Action::alu_exec:
        execute_alu(w, *s.inst);
        end_run(&run, pc + 1);
        run.start = pc + 1;
        run.lanes = active_lanes(w);
        break;
      case Action::clock:
        end_run(&run, pc);
        run.start = pc;
        [[fallthrough]];
      case Action::scalar_memory:
        execute_memory<Event::Kind::scalar>(r, s, pc, in_run());
        break;
      case Action::vector_memory:
        if (port_is_closed(r)) return leave(r, &run, pc);
        execute_memory<Event::Kind::vector>(r, s, pc, in_run());
        break;
      case Action::lds:
        execute_memory<Event::Kind::lds>(r, s, pc, in_run());
        break;
      case Action::waitcnt:
        if (c_.accesses) c_.accesses->wait(*r, wait_limits(s.inst->imm).vm);
        if (recorder_) recorder_->add_wait(wait_limits(s.inst->imm), r->clock + issued_[pc], in_run());
        if (take_wait(r, wait_limits(s.inst->imm), r->clock + issued_[pc])) return leave(r, &run, pc + 1);
        if (r->bare) set_up_rows(plan_, r);
        break;
      case Action::branch_if:
        if (!holds(w, s.condition)) break;
        [[fallthrough]];
      case Action::branch:
      case Action::get_pc:
      case Action::set_pc:
      case Action::swap_pc:
      case Action::call:
        if (!jump(r, &run, pc, next_pc(r, s, pc))) return;
        pc = run.start - 1;  // the loop's increment then moves to the target
        break;
      case Action::message:
        c_.host.serve();
        break;
      case Action::hop:
        pc = s.target - 1;
        break;
      case Action::sampled:
        if (s.inst->op->unit == Unit::vmem && port_is_closed(r)) return leave(r, &run, pc);
        r->now = r->clock + issued_[pc + 1];
        run_sampled(&c_, sampler_, r, s, pc);
        break;
      case Action::sampled_wait:
        if (sampled_wait(r, s, pc)) return leave(r, &run, pc + 1);
        break;
      case Action::skip:
        break;
      default:
        return stop_at(r, s, &run, pc);
    }
  }
}

// Prefetches what a time slice touches first: the kernel's scalar registers, the state after them, and the vector
// registers that are used first. Thousands of other waves run between two time slices, so a wave's state is rarely in
// the host's caches.
void Engine::prefetch(const ScheduledWave& scheduled) {
  constexpr size_t kHostLine = 64, kVccLine = kVccLo * sizeof(uint32_t) / kHostLine * kHostLine;
  constexpr size_t kHot = sizeof(Architectural) + sizeof(Progress);
  const auto* state = reinterpret_cast<const char*>(scheduled.wave);
  const auto ask = [](const char* from, size_t bytes) {
    for (size_t at = 0; at < bytes; at += kHostLine) __builtin_prefetch(from + at, 1);
  };
  ask(reinterpret_cast<const char*>(scheduled.group), sizeof(WorkGroup));
  if (replay_) {
    ask(state + sizeof(Architectural) - kHostLine, sizeof(Resident) - sizeof(Architectural) + kHostLine);
    return ask(reinterpret_cast<const char*>(&replay_->traces.first.waves[scheduled.index][scheduled.pc]),
               4 * kHostLine);
  }
  ask(state, std::min<size_t>(plan_.sgprs * sizeof(uint32_t), kVccLine));
  ask(state + kVccLine, kHot - kVccLine);
  constexpr size_t kRowBytes = kLanes * sizeof(uint32_t);
  const auto* rows = reinterpret_cast<const char*>(WavePool::registers(scheduled.wave));
  if (!scheduled.started)
    return starts_without_vgprs_ ? void() : ask(rows, std::min(plan_.vgprs, kFirstRows) * kRowBytes);
  const RegisterLookahead::Rows& first = lookahead_.rows_used_from(scheduled.pc);
  for (size_t i = 0; i < first.n; ++i) ask(rows + first.row[i] * kRowBytes, kRowBytes);
}

// Prefetches for the next wave of this round that was not prefetched yet.
void Engine::look_ahead() {
  for (; ahead_cu_ < used_cus_.size(); ++ahead_cu_, ahead_wave_ = 0) {
    const Cu& cu = cus_[used_cus_[ahead_cu_]];
    if (cu.next_wake > round_) continue;
    while (ahead_wave_ < cu.wakes.size()) {
      const size_t i = ahead_wave_++;
      if (cu.wakes[i] <= round_) return prefetch(cu.waves[i]);
    }
  }
}

void Engine::run_time_slice(ScheduledWave* scheduled) {
  Resident* r = scheduled->wave;
  if (!scheduled->started)
    replay_ ? start_replay(scheduled) : start(scheduled);
  else if (r->bare)
    set_up_rows(plan_, r);
  if (sampler_ || recorder_) runs_ = buckets_[scheduled->group->bucket].data();
  if (recorder_) recorder_->select(*r);
  r->at_port = false;
  if (replay_)
    replay_wave(r, scheduled->at_port);
  else
    run_wave(r);
  scheduled->at_port = r->at_port;
  scheduled->pc = r->wave.pc;
}

// The waves that found the vector memory unit busy, in the order in which they came to it; false if there are none.
bool Engine::queue_first(const Cu& cu) {
  if (!queued_) return false;
  queue_.clear();
  for (uint32_t i = 0; i < cu.waves.size(); ++i) {
    if (cu.waves[i].at_port && cu.wakes[i] <= round_) queue_.push_back(i);
  }
  sort_by([&](uint32_t i) { return cu.waves[i].queued_at; }, &queue_);
  return !queue_.empty();
}

void Engine::step_wave(size_t position, size_t i) {
  Cu* cu = &cus_[used_cus_[position]];
  ScheduledWave& scheduled = cu->waves[i];
  const bool queued = scheduled.at_port;
  if (queued && next_issue_round_ > round_) {  // an earlier one has just found it busy
    cu->wakes[i] = next_issue_round_;
    return;
  }
  if (position > ahead_cu_ || (position == ahead_cu_ && i >= ahead_wave_)) {  // woken after prefetching
    ahead_cu_ = position;
    ahead_wave_ = i + 1;
  }
  look_ahead();
  scheduled.ran_at = round_;
  run_time_slice(&scheduled);
  if (!queued) scheduled.queued_at = round_;
  const Resident* r = scheduled.wave;
  cu->wakes[i] = r->state == WaveState::ready ? r->wake_round : kNever;
}

// Waves run from the oldest to the youngest. If interleave.queued is set, the vector memory unit serves those that
// found it busy in the order in which they came.
bool Engine::step_cu(size_t position) {
  Cu* cu = &cus_[used_cus_[position]];
  if (cu->next_wake > round_) {
    next_wake_ = std::min(next_wake_, cu->next_wake);
    return false;
  }
  next_issue_round_ = 0;
  if (queue_first(*cu)) {
    for (const uint32_t i : queue_) step_wave(position, i);
  }
  for (size_t i = 0; i < cu->waves.size(); ++i) {
    if (cu->wakes[i] <= round_ && cu->waves[i].ran_at != round_) step_wave(position, i);
  }
  if (cu->ended_groups) retire(cu);
  cu->next_wake = kNever;
  for (const uint64_t wake : cu->wakes) cu->next_wake = std::min(cu->next_wake, wake);
  return true;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Engine::check_limits() {
  if (c_.counts.wave_instructions > limits_.wave_instructions) {
    throw SimError(Reason::instruction_limit, "kernel " + launch_.kernel->name + ": more than " +
                                                  std::to_string(limits_.wave_instructions) +
                                                  " wave instructions executed; it may never end");
  }
  if (c_.counts.wave_instructions + c_.model->look_up_work() > limits_.most_work) {
    throw SimError(Reason::over_budget, "kernel " + launch_.kernel->name + ": more work than the budget has left");
  }
  if (limits_.poll != nullptr && round_ % kRoundsPerPoll == 0) limits_.poll();
  if (limits_.cpu_seconds > 0 && round_ % 64 == 0 && processor_seconds() - start_s_ > limits_.cpu_seconds) {
    char text[64];
    std::snprintf(text, sizeof text, ": still running after %g s of processor time", limits_.cpu_seconds);
    throw SimError(Reason::time_limit, "kernel " + launch_.kernel->name + text);
  }
}

void Engine::advance_round(bool ran) {
  if (!ran && next_wake_ == ~0ull) {
    throw SimError(Reason::deadlock,
                   "kernel " + launch_.kernel->name +
                       ": every remaining wave waits at a barrier that the others never reach" +
                       (at_grid_.empty() ? "" : " (a barrier of the whole grid needs a cooperative launch)"));
  }
  round_ = ran ? round_ + 1 : std::max(next_wake_, round_ + 1);
}

void Engine::run() {
  try {
    for (bool placed = admit(); live_ > 0 || placed; placed = admit()) {
      bool ran = placed;
      lookahead_.set_steps(c_.steps, c_.program.steps.size(), plan_.initial.accum_offset);
      starts_without_vgprs_ = lookahead_.starts_without_vgprs(plan_.entry);
      c_.model->set_round(round_);
      next_wake_ = ~0ull;
      ahead_cu_ = ahead_wave_ = 0;
      for (uint32_t i = 0; i < kWavesAhead; ++i) look_ahead();
      for (size_t i = 0; i < used_cus_.size(); ++i) ran |= step_cu(i);
      check_limits();
      if (sampler_) {
        sampler_->tick(live_, buckets_);
        if (sampler_->stops()) return forget_groups();
        buckets_.resize(sampler_->buckets(), std::vector<Executed>(buckets_[0].size()));
        if (sampler_->abandons()) abandon();
      }
      if (replay_ && replay_->part && replay_->part->is_over()) {
        forget_groups();
        break;
      }
      std::erase_if(used_cus_, [&](uint32_t i) { return cus_[i].waves.empty(); });
      if (live_ > 0) advance_round(ran);
    }
  } catch (...) {
    forget_groups();
    throw;
  }
  if (replay_) add_replayed();
}

std::vector<Executed> Engine::executions() const {
  std::vector<Executed> sum(buckets_[0].size());
  for (const std::vector<Executed>& bucket : buckets_) {
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i].times += bucket[i].times;
      sum[i].lanes += bucket[i].lanes;
    }
  }
  return executions_of(sum);
}

}  // namespace hipsynth
