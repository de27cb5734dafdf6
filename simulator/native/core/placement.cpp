// Placement and retirement of work-groups: CUs with room, and wave slots.
#include <algorithm>

#include "core/engine.h"
#include "core/steps.h"
#include "core/tally.h"

namespace hipsynth {

// The slot released last, else the lowest one never used.
uint32_t Engine::take_slot(Cu* cu, uint32_t index) const {
  if (cu->free_slots.empty()) {
    return index * plan_.occupancy.groups_per_cu * plan_.occupancy.waves_per_group + cu->used_slots++;
  }
  const uint32_t slot = cu->free_slots.back();
  cu->free_slots.pop_back();
  return slot;
}

bool Engine::place(uint32_t xcd, uint64_t number) {
  for (uint32_t tries = 0; tries < cus_per_xcd_; ++tries) {
    const uint32_t index = xcd * cus_per_xcd_ + next_cu_[xcd];
    next_cu_[xcd] = (next_cu_[xcd] + 1) % cus_per_xcd_;
    Cu& cu = cus_[index];
    if (cu.groups >= plan_.occupancy.groups_per_cu) continue;
    ++cu.groups;
    auto group = cu.free_groups.empty() ? std::make_unique<WorkGroup>() : std::move(cu.free_groups.back());
    if (!cu.free_groups.empty()) cu.free_groups.pop_back();
    WorkGroup* g = group.release();  // owned by its waves; freed in retire()
    *g = WorkGroup{{static_cast<uint32_t>(number % launch_.grid.x),
                    static_cast<uint32_t>(number / launch_.grid.x % launch_.grid.y),
                    static_cast<uint32_t>(number / launch_.grid.x / launch_.grid.y)},
                   index,
                   plan_.occupancy.waves_per_group,
                   0,
                   0,
                   std::move(g->lds)};
    if (!replay_) g->lds.assign(c_.strict_bounds ? plan_.lds_bytes : plan_.lds_room, c_.lds_fill);
    if (sampler_) sampler_->placed(number, g);
    if (recorder_) g->bucket = recorder_->bucket_of(number);
    if (replay_) g->group_index = replay_->traces.group_index.of(number);
    if (cu.waves.empty()) used_cus_.insert(std::lower_bound(used_cus_.begin(), used_cus_.end(), index), index);
    cu.next_wake = round_;
    for (uint32_t i = 0; i < g->waves; ++i) {
      cu.waves.push_back({pool_.take(), g, i, take_slot(&cu, index)});
      cu.wakes.push_back(round_);
      ++live_;
      count_wave(std::min<uint32_t>(kLanes, plan_.threads - i * kLanes), &c_.counts);
    }
    peak_waves_ = std::max(peak_waves_, live_);
    return true;
  }
  return false;
}

// Work-group w goes to XCD w % xcds, and there to the next CU with room. The number of work-groups started per round is
// limited, like the dispatch rate of the hardware.
bool Engine::admit() {
  const auto xcds = static_cast<uint32_t>(next_group_.size());
  bool any = false;
  for (uint32_t n = 0; n < groups_per_round_; ++n) {
    bool placed = false;
    for (uint32_t x = 0; x < xcds; ++x) {
      const uint64_t next = sampler_    ? sampler_->next_group(next_group_[x])
                            : recorder_ ? recorder_->next_group(next_group_[x])
                                        : next_group_[x];
      if (next >= plan_.total_groups || !place(x, next)) continue;
      next_group_[x] = next + xcds;
      placed = any = true;
    }
    if (!placed) break;
  }
  return any;
}

void Engine::start(ScheduledWave* scheduled) {
  Resident* r = scheduled->wave;
  start_wave(c_.arch, plan_, launch_, c_.scratch_base, {scheduled->group, scheduled->index, scheduled->slot}, r);
  if (!starts_without_vgprs_) set_up_rows(plan_, r);
  r->wake_round = r->began = round_;
  scheduled->started = true;
  if (c_.tally) c_.tally->add_wave(*r);
}

void Engine::retire(Cu* cu) {
  size_t kept = 0;
  for (size_t i = 0; i < cu->waves.size(); ++i) {
    const ScheduledWave scheduled = cu->waves[i];
    WorkGroup* g = scheduled.group;
    if (g->ended < g->waves) {
      cu->waves[kept] = scheduled;
      cu->wakes[kept++] = cu->wakes[i];
      continue;
    }
    cu->free_slots.push_back(scheduled.slot);
    pool_.give(scheduled.wave);
    --live_;
    if (scheduled.index + 1 == g->waves) {
      cu->free_groups.emplace_back(g);
      --cu->groups;
    }
  }
  cu->waves.resize(kept);
  cu->wakes.resize(kept);
  cu->ended_groups = 0;
}

// Drops work-groups in flight that the sampler no longer needs.
void Engine::abandon() {
  for (Cu& cu : cus_) {
    for (const ScheduledWave& scheduled : cu.waves) {
      if (!scheduled.group->stays) scheduled.group->ended = scheduled.group->waves;
    }
    retire(&cu);
  }
}

// Frees the work-groups in flight of an execution that ends early.
void Engine::forget_groups() {
  for (Cu& cu : cus_) {
    for (const ScheduledWave& scheduled : cu.waves) {
      if (scheduled.index == 0) delete scheduled.group;
    }
  }
}

}  // namespace hipsynth
