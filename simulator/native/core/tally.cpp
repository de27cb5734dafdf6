#include "core/tally.h"

#include <algorithm>
#include <numeric>

#include "memory/coalescer.h"

namespace hipsynth {
namespace {

// A wave has at most 63 vector memory instructions outstanding; it does not wait for older ones any more.
constexpr size_t kMostPending = 64;

constexpr std::array kUnits = {"valu", "salu", "flow", "smem", "vmem", "lds"};  // by Unit

double& at(InstructionTally::Row& row, InstructionEvent what) { return row[static_cast<size_t>(what)]; }

// What InstructionTally::read_counts reads, in its order.
constexpr std::array kCountedEvents = {InstructionEvent::accesses,   InstructionEvent::misses,
                                       InstructionEvent::l1_cycles,  InstructionEvent::l2_requests,
                                       InstructionEvent::l2_misses,  InstructionEvent::fabric_bytes,
                                       InstructionEvent::lds_cycles, InstructionEvent::bank_conflicts};

uint64_t not_requested(const EngineCounts& engine) {
  return std::accumulate(engine.not_requested.begin(), engine.not_requested.end(), uint64_t{0});
}

}  // namespace

void InstructionTally::begin(const Launch& launch, const Program& program, const Hierarchy& hierarchy) {
  launch_ = &launch;
  program_ = &program;
  hierarchy_ = &hierarchy;
  observed_.assign(program.steps.size(), {});
  pending_.clear();
}

InstructionTally::Counts InstructionTally::read_counts(const Resident& r, const EngineCounts& engine) const {
  static_assert(kCountedEvents.size() + 1 == std::tuple_size_v<Counts>);
  const MemoryCounts& n = hierarchy_->counts();
  return {n.l1_lookups,
          n.l1_read_req + n.l1_atomic_ret_req + n.l1_atomic_noret_req,
          hierarchy_->l1_cycles(r.group->cu),
          n.l2_reads + n.l2_writes + n.l2_atomics,
          n.l2_misses,
          hierarchy_->fabric_read_bytes() + n.l2_writes * kSegmentBytes,
          engine.lds_idx_cycles,
          engine.lds_bank_conflict,
          n.scalar_requests};
}

void InstructionTally::begin_access(const Resident& r, const EngineCounts& engine) {
  before_ = read_counts(r, engine);
  not_requested_before_ = not_requested(engine);
}

void InstructionTally::end_access(const Resident& r, uint32_t pc, const EngineCounts& engine, bool is_idle) {
  Observed& o = observed_[pc];
  const Counts counts = read_counts(r, engine);
  ++o.seen;
  o.modelled += counts != before_ || is_idle;
  for (size_t i = 0; i < counts.size(); ++i) o.counts[i] += counts[i] - before_[i];
  o.beyond += not_requested(engine) - not_requested_before_;
  const Unit unit = program_->steps[pc].inst->op->unit;
  Pending& pending = pending_[&r];
  const Answer answer = unit == Unit::vmem ? r.answer_of(0) : unit == Unit::lds ? r.lds_answer : r.scalar_answer;
  std::vector<Access>& list = unit == Unit::vmem ? pending.vector : pending.scalar;
  if (list.size() >= kMostPending) list.erase(list.begin());
  list.push_back({pc, static_cast<uint32_t>(std::max(answer.after(r.now), 0))});
}

// The accesses that a wait ends share its cycles in proportion to their latencies.
void InstructionTally::attribute_wait(std::vector<Access>* accesses, size_t leaves, uint64_t cycles, uint64_t latency) {
  if (accesses->size() <= leaves) return;
  const auto end = accesses->end() - static_cast<std::ptrdiff_t>(leaves);
  for (auto access = accesses->begin(); latency && access != end; ++access) {
    observed_[access->pc].stalls += cycles * access->latency / latency;
  }
  accesses->erase(accesses->begin(), end);
}

void InstructionTally::add_wait(const Resident& r, WaitLimits limits, uint32_t cycles) {
  Pending& pending = pending_[&r];
  const auto latency = [](const std::vector<Access>& list, size_t leaves) {
    uint64_t sum = 0;
    for (size_t i = 0; i + leaves < list.size(); ++i) sum += list[i].latency;
    return sum;
  };
  const uint64_t all = latency(pending.vector, limits.vm) + latency(pending.scalar, limits.lgkm);
  attribute_wait(&pending.vector, limits.vm, cycles, all);
  attribute_wait(&pending.scalar, limits.lgkm, cycles, all);
}

void InstructionTally::begin_replay() {
  for (size_t pc = 0; pc < observed_.size(); ++pc) {
    const Inst* inst = program_->steps[pc].inst;
    if (inst == nullptr || inst->op->unit != Unit::lds) observed_[pc] = {};
  }
  pending_.clear();
}

void InstructionTally::restart() {
  observed_.assign(observed_.size(), {});
  pending_.clear();
}

// Where only a part of the grid ran with modelled memory, its events per execution stand for all executions.
void InstructionTally::end(const std::vector<Executed>& executed) {
  std::vector<Instruction>& all = kernels_[{launch_->kernel->symbol, launch_->module->serial()}];
  all.resize(program_->steps.size());
  for (size_t pc = 0; pc < executed.size() && pc < all.size(); ++pc) {
    const auto [times, lanes] = executed[pc];
    if (times == 0) continue;
    const Observed& o = observed_[pc];
    const Inst& inst = *program_->steps[pc].inst;
    const OpInfo& op = *inst.op;
    all[pc].address = inst.address;
    all[pc].unit = op.rate == Rate::mfma ? "mfma" : kUnits[static_cast<size_t>(op.unit)];
    Row& row = all[pc].row;
    at(row, InstructionEvent::times) += static_cast<double>(times);
    at(row, InstructionEvent::lanes) += static_cast<double>(lanes);
    at(row, InstructionEvent::issue_cycles) +=
        static_cast<double>(times) * (program_->issued[pc + 1] - program_->issued[pc]);
    const auto scale = [&](uint64_t of) {
      return o.seen == times || of == 0 ? 1.0 : static_cast<double>(times) / static_cast<double>(of);
    };
    const double beyond = static_cast<double>(o.beyond) * scale(o.seen);
    const double bytes = static_cast<double>(lanes) * moved_bytes(op) - beyond;
    at(row, op.mem.space == MemSpace::lds ? InstructionEvent::lds_bytes : InstructionEvent::bytes) += bytes;
    for (size_t i = 0; i < kCountedEvents.size(); ++i) {
      at(row, kCountedEvents[i]) += static_cast<double>(o.counts[i]) * scale(o.modelled);
    }
    at(row, InstructionEvent::stall_cycles) += static_cast<double>(o.stalls) * scale(o.seen);
    at(row, InstructionEvent::barrier_cycles) += static_cast<double>(o.barriers);
  }
}

}  // namespace hipsynth
