// Trace-driven replay: work-groups access memory and wait like recorded ones (sampling/trace.h).
#include <algorithm>

#include "core/engine.h"
#include "core/tally.h"

namespace hipsynth {

namespace {

constexpr size_t kMostShapes = 4096;

WaveAccess access_at(const LanePattern& p, uint64_t start, uint64_t* address) {
  if (p.contiguous) {
    address[0] = start;
  } else {
    for (uint32_t lane = 0; lane < kLanes; ++lane) address[lane] = start + p.apart[lane];
  }
  return {p.kind, p.bytes, p.exec, address, p.contiguous, p.returns, p.streaming};
}

}  // namespace

void Engine::replay(const Traces& traces, CountedMemory& memory, PartialReplay* part) {
  if (c_.tally) c_.tally->begin_replay();
  const size_t shapes = traces.patterns.size() * memory.hierarchy().l1_line_bytes();
  replay_.reset(new Replay{traces, memory, part, std::vector<LoadShape>(1), std::vector<uint16_t>(shapes)});
}

const LoadShape& Engine::shape_at(uint32_t pattern, uint64_t start) {
  const Hierarchy& hierarchy = replay_->memory.hierarchy();
  std::vector<LoadShape>& shapes = replay_->shapes;
  const uint64_t line_bytes = hierarchy.l1_line_bytes();
  uint16_t& number = replay_->shape_numbers[pattern * line_bytes + start % line_bytes];
  if (number) return shapes[number];
  if (shapes.size() < kMostShapes) {
    number = static_cast<uint16_t>(shapes.size());
    shapes.emplace_back();
  }
  uint64_t address[kLanes];
  hierarchy.shape(access_at(replay_->traces.patterns[pattern], start, address), &shapes[number]);
  return shapes[number];
}

void Engine::start_replay(ScheduledWave* scheduled) {
  Resident* r = scheduled->wave;
  static_cast<Progress&>(*r) = {};
  r->wave.pc = 0;
  r->group = scheduled->group;
  r->index = scheduled->index;
  r->wake_round = r->began = round_;
  scheduled->started = true;
  if (c_.tally) c_.tally->add_wave(*r);
}

uint32_t Engine::replayed_pc(const Resident& r) const {
  const GroupTrace& first = replay_->traces.first;
  const uint32_t executed = first.waves[r.index][r.wave.pc - 1].executed;
  const std::vector<EventPlace>& places = first.places[r.index];
  return std::lower_bound(places.begin(), places.end(), executed,
                          [](const EventPlace& place, uint32_t number) { return place.executed < number; })
      ->pc;
}

void Engine::replay_access(Resident* r, const Event& e) {
  const Traces::Site& site = replay_->traces.sites[e.amount];
  const LanePattern& p = replay_->traces.patterns[site.pattern];
  uint64_t start = e.address;
  for (size_t i = 0; i < GroupIndex::kMost; ++i) start += r->group->group_index[i] * site.step[i];
  ++r->outstanding_vm;
  if (p.kind == Access::load) return replay_->memory.load(*r, shape_at(site.pattern, start), start);
  uint64_t address[kLanes];
  replay_->memory.access(*r, access_at(p, start, address));
}

// Replays the event at `at`; true if the wave's time slice ends with it. `begun`: instructions before the time slice.
[[gnu::always_inline]] inline bool Engine::replay_event(Resident* r, const Event& e, uint32_t at, uint32_t begun) {
  r->wave.pc = at + 1;
  switch (e.kind) {
    case Event::Kind::vector:
      replay_access(r, e);
      return false;
    case Event::Kind::no_lanes:
      return false;
    case Event::Kind::scalar:
      ++r->outstanding_lgkm;
      if (e.amount) replay_->memory.scalar_load(*r, e.address, e.amount);
      return false;
    case Event::Kind::lds:
      r->outstanding_lgkm += e.amount;
      r->lds_outstanding = true;
      r->lds_answer = Answer::at(r->now + c_.latency.lds, Level::none);
      return false;
    case Event::Kind::wait:
      return take_wait(r, {e.vm, e.lgkm}, r->now);
    case Event::Kind::barrier:
      arrive(r);
      return true;
    case Event::Kind::jump:
      ++c_.counts.jumps;
      return e.executed - begun >= kQuantum;
    default:  // Event::Kind::end
      c_.counts.wave_instructions += e.executed;
      end_wave(r);
      return true;
  }
}

// Replays an event of a memory instruction, and keeps what it did.
bool Engine::replay_observed(Resident* r, const Event& e, uint32_t at, uint32_t begun) {
  r->wave.pc = at + 1;
  const uint32_t pc = replayed_pc(*r);
  c_.tally->begin_access(*r, c_.counts);
  const bool ends = replay_event(r, e, at, begun);
  c_.tally->end_access(*r, pc, c_.counts, e.kind == Event::Kind::no_lanes);
  return ends;
}

// Like run_wave, but steps from event to event. wave.pc is the index of the next one.
void Engine::replay_wave(Resident* r, bool was_at_port) {
  const std::vector<Event>& events = replay_->traces.first.waves[r->index];
  PartialReplay* part = replay_->part;
  const MemoryCounts& memory = replay_->memory.hierarchy().counts();
  uint32_t at = r->wave.pc;
  const uint32_t begun = was_at_port ? events[at].executed - 1 : at ? events[at - 1].executed : 0;
  for (;; ++at) {
    const Event& e = events[at];
    r->now = r->clock + e.now;
    const bool needs_port = e.kind == Event::Kind::vector || e.kind == Event::Kind::no_lanes;
    if (needs_port && port_is_closed(r)) {
      r->wave.pc = at;
      return;
    }
    if (part) part->before(e, memory, c_.counts);
    const bool is_observed = c_.tally != nullptr && (needs_port || e.kind == Event::Kind::scalar);
    const bool ends = is_observed ? replay_observed(r, e, at, begun) : replay_event(r, e, at, begun);
    if (part) part->after(e, memory, c_.counts);
    if (ends) return;
  }
}

// Multiplies the counts of one work-group by the number of work-groups.
void Engine::add_replayed() {
  const uint64_t groups = plan_.total_groups;
  for (size_t i = 0; i < buckets_[0].size(); ++i) {
    buckets_[0][i].times += replay_->traces.first.executed[i].times * groups;
    buckets_[0][i].lanes += replay_->traces.first.executed[i].lanes * groups;
  }
  c_.counts.lds_waits += replay_->traces.first.counts.lds_waits * groups;
  c_.counts.lds_idx_cycles += replay_->traces.first.counts.lds_idx_cycles * groups;
  c_.counts.lds_bank_conflict += replay_->traces.first.counts.lds_bank_conflict * groups;
  c_.counts.lds_addr_conflict += replay_->traces.first.counts.lds_addr_conflict * groups;
  c_.counts.lds_atomic_return += replay_->traces.first.counts.lds_atomic_return * groups;
  for (size_t i = 0; i < c_.counts.not_requested.size(); ++i)
    c_.counts.not_requested[i] += replay_->traces.first.counts.not_requested[i] * groups;
}

}  // namespace hipsynth
