// Where waves meet: barriers of a work-group and of the grid, and the end.
#include <algorithm>
#include <bit>
#include <utility>

#include "core/engine.h"
#include "core/tally.h"

namespace hipsynth {

void Engine::release_barrier(WorkGroup* g) {
  if (g->at_barrier == 0 || g->at_barrier + g->ended < g->waves) return;
  g->at_barrier = 0;
  ++g->phase;
  Cu& cu = cus_[g->cu];
  met_.clear();
  for (size_t i = 0; i < cu.waves.size(); ++i) {
    if (cu.waves[i].group != g || cu.waves[i].wave->state != WaveState::barrier) continue;
    cu.waves[i].wave->state = WaveState::ready;
    cu.wakes[i] = round_;
    met_.push_back(cu.waves[i].wave);
  }
  leave_together(met_);
}

// Waves leave a barrier at the time at which the last one of them arrived. A recording leaves that to its replay.
void Engine::leave_together(const std::vector<Resident*>& waves) {
  if (recorder_) return;
  uint32_t latest = waves.front()->now;
  for (const Resident* r : waves) latest = static_cast<int32_t>(r->now - latest) > 0 ? r->now : latest;
  for (Resident* r : waves) {
    r->clock += latest - r->now;
    c_.counts.barrier_cycles += latest - r->now;
    if (c_.tally) c_.tally->add_barrier_wait(replay_ ? replayed_pc(*r) : r->wave.pc - 1, latest - r->now);
  }
}

void Engine::arrive(Resident* r) {
  ++c_.counts.barriers;
  if (r->group->waves == 1) return;
  r->state = WaveState::barrier;
  ++r->group->at_barrier;
  release_barrier(r->group);
}

// The operand is the number of arriving waves minus one.
void Engine::arrive_at_grid(Resident* r, const Step& s) {
  const uint32_t* row = operand_row(r->wave, s.inst->src[0]);
  const uint64_t wanted = uint64_t{row[r->wave.exec() ? std::countr_zero(r->wave.exec()) : 0]} + 1;
  r->state = WaveState::barrier;
  r->wake_round = round_;
  at_grid_.push_back(r);
  if (at_grid_.size() < wanted) return;
  leave_together(at_grid_);
  if (c_.accesses) c_.accesses->clear();
  for (Resident* waiting : std::exchange(at_grid_, {})) {
    waiting->state = WaveState::ready;
    Cu& cu = cus_[waiting->group->cu];
    for (size_t i = 0; i < cu.waves.size(); ++i) {
      if (cu.waves[i].wave == waiting) cu.wakes[i] = round_ + 1;
    }
    cu.next_wake = std::min(cu.next_wake, round_ + 1);
  }
}

void Engine::end_wave(Resident* r) {
  r->state = WaveState::ended;
  c_.counts.store_tails += r->outstanding_vm != 0;
  note_lifetime(*r);
  if (++r->group->ended == r->group->waves) ++cus_[r->group->cu].ended_groups;
  release_barrier(r->group);
}

// Adds the time of an ended wave, and of its work-group if it was the last one.
void Engine::note_lifetime(const Resident& r) {
  WorkGroup& g = *r.group;
  const uint32_t tail = r.outstanding_vm != 0 ? c_.latency.vector[static_cast<size_t>(Level::none)] : 0;
  const uint32_t cycles = r.now - issued_[plan_.entry] + tail;
  if (lives_.size() <= g.bucket) lives_.resize(g.bucket + 1);
  g.lifetime = std::max(g.lifetime, cycles);
  lives_[g.bucket].waves.add(cycles);
  if (g.ended + 1 == g.waves) lives_[g.bucket].groups.add(g.lifetime);
}

}  // namespace hipsynth
