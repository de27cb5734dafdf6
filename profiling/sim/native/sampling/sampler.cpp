#include "sampling/sampler.h"

#include <algorithm>
#include <utility>

namespace hipsynth {
namespace {

// Work is counted in units of about 10 ns of simulation: an instruction, a quarter of a vL1D look-up, an LDS cycle.
constexpr uint64_t kLookUpWork = 4, kLdsWork = 1;
// Shares of the work up to which a dispatch is run exactly anyway.
constexpr uint64_t kStartShare = 5, kWindowShare = 20;
constexpr uint64_t kLastFill = 4;         // windows' worth of work-groups that may fill the L2 before the end
constexpr double kForwardGrowth = 0.4;    // gap between two windows, of what the stretch has executed so far
constexpr uint64_t kForwardWindows = 10;  // and at least this many windows' worth of instructions
constexpr double kForwardBudget = 3;      // work spent on going forward, in exact_work_
constexpr double kForwardInstructionWork = 3;
constexpr uint64_t kFirstLooks = 64;   // looks at a site that even probes take, when nobody else met it
constexpr uint64_t kWellKnown = 4096;  // looks at a site after which going forward leaves it out
constexpr uint64_t kScouts = 8;        // one work-group in this many is a scout
constexpr uint64_t kStaying = 16;      // and one in this many is not abandoned
constexpr double kProbes = 512, kFewProbes = 64, kProbeShare = 0.25;  // work of all probes, in exact_work_
constexpr uint32_t kLongStrata = 4;                                   // of a grid of long work-groups that all run

uint32_t u32(const SpecTable& spec, const char* key) { return static_cast<uint32_t>(spec.at(key)); }

void execute_site(Context& c, Resident& r, const Step& s) {
  switch (s.inst->op->unit) {
    case Unit::smem:
      return execute_scalar_memory(c, r, s);
    case Unit::lds:
      return execute_lds(c, r, s);
    default:
      return execute_vector_memory(c, r, s);
  }
}

uint64_t mix(uint64_t v) {
  v = (v ^ v >> 31) * 0x9e3779b97f4a7c15ull;
  return v ^ v >> 29;
}

bool is_site(const Step& s) {
  return s.action == Action::scalar_memory || s.action == Action::vector_memory || s.action == Action::lds ||
         s.action == Action::waitcnt;
}

}  // namespace

std::vector<Executed> executions_of(const std::vector<Executed>& runs) {
  std::vector<Executed> counts(runs.size() - 1);
  Executed running;
  for (size_t i = 0; i < counts.size(); ++i) {
    running.times += runs[i].times;
    running.lanes += runs[i].lanes;
    counts[i] = running;
  }
  return counts;
}

uint64_t simulation_work(const EngineCounts& engine, const MemoryCounts& memory) {
  return engine.wave_instructions + kLookUpWork * (memory.l1_lookups + memory.scalar_requests) +
         kLdsWork * engine.lds_idx_cycles;
}

Sampler::Sampler(Context& context, CountedMemory& memory, const SpecTable& spec, const SamplingOptions& options,
                 const LaunchPlan& plan, KernelSlice& slice, TraceSource& traces)
    : c_(context),
      plan_(plan),
      memory_(memory),
      hierarchy_(memory.hierarchy()),
      slice_(slice),
      traces_(traces),
      xcds_(u32(spec, "topology.xcds")),
      sampling_units_(options.units),
      cus_(u32(spec, "topology.cus")),
      resident_(uint64_t{plan.occupancy.groups_per_cu} * cus_),
      l2_lines_(static_cast<uint64_t>(spec.at("l2.bytes")) / u32(spec, "l2.line_bytes") * xcds_),
      infinity_bytes_(static_cast<uint64_t>(spec.at("fabric.infinity_cache_bytes"))),
      line_bytes_(u32(spec, "l2.line_bytes")),
      exact_work_(options.exact_work),
      start_work_(exact_work_ / kStartShare),
      warm_work_(exact_work_ / kWindowShare),
      measure_work_(exact_work_ / kWindowShare),
      strata_{{0, 0, plan.total_groups, plan.total_groups}},
      next_(xcds_) {}

void Sampler::mark_sites() {
  steps_ = slice_.steps();
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    Step& s = steps_[i];
    if (!is_site(s)) continue;
    s.action = s.action == Action::waitcnt ? Action::sampled_wait : Action::sampled;
    s.target = static_cast<uint32_t>(sites_.size());
    sites_.push_back(i);
  }
  spare_.resize(sites_.size());
  looks_.resize(sites_.size());
}

uint64_t Sampler::ended(uint64_t live_waves) const {
  return placed_ - vanished_ - live_waves / plan_.occupancy.waves_per_group;
}

uint32_t Sampler::stratum_of(uint64_t number) const {
  const auto after = [](uint64_t at, const Stratum& s) { return at < s.to; };
  return static_cast<uint32_t>(std::upper_bound(strata_.begin(), strata_.end(), number, after) - strata_.begin());
}

uint64_t Sampler::next_group(uint64_t number) {
  uint64_t& at = next_[number % xcds_] = follower(number);
  if (at >= plan_.total_groups || !sampling()) return at;
  const uint32_t k = stratum_of(at);
  const uint64_t begin = strata_[k].begin;
  const bool edge = at >= begin && k > 0 && begin != strata_[k - 1].end;
  const bool others_late = edge && *std::min_element(next_.begin(), next_.end()) < begin;
  return others_late ? plan_.total_groups : at;
}

uint64_t Sampler::follower(uint64_t number) const {
  if (long_groups_ && !planned_) return plan_.total_groups;  // first see how long the first ones are
  for (size_t k = stratum_of(number); k < strata_.size(); ++k) {
    const Stratum& s = strata_[k];
    if (number < s.begin) {
      const uint64_t probe = next_probe(number, s.from, s.begin);
      return probe < s.begin ? probe : s.begin + number % xcds_;
    }
    if (number < s.end) return number;
    if (const uint64_t probe = next_probe(number, s.end, s.to); probe < s.to) return probe;
  }
  return plan_.total_groups;
}

// Gaps are cut into cells of equal length; every XCD has one probe per cell, anywhere in it, so that no period of the
// grid is met again and again.
uint64_t Sampler::next_probe(uint64_t number, uint64_t from, uint64_t to) const {
  const uint64_t cell = probe_spacing_ * xcds_, xcd = number % xcds_, start = (from + xcds_ - 1) / xcds_ * xcds_;
  for (uint64_t at = number > start ? start + (number - start) / cell * cell : start; at < to; at += cell) {
    const uint64_t probe = at + mix(at + xcd) % probe_spacing_ * xcds_ + xcd;
    if (probe >= number) return probe;
  }
  return to;
}

void Sampler::placed(uint64_t number, WorkGroup* group) {
  const uint32_t k = stratum_of(number);
  ++placed_;
  highest_ = std::max(highest_, number + 1);
  const bool stretch_begins = number >= strata_[k].begin && number < strata_[k].end && run_[k] == 0 && k > 0;
  // Work-groups of long grids that all run follow each other without a gap: nothing to warm.
  if (stretch_begins && strata_[k].begin != strata_[k - 1].end) {
    stretch_instructions_ = c_.counts.wave_instructions;
    behind_ = false;
    enter(Phase::warm);
  }
  // Behind a stretch the machine runs empty of work-groups that are looked at: no place to measure.
  if (!long_groups_ && phase_ == Phase::measure && number >= strata_[k].end) {
    enter(Phase::warm);
    behind_ = true;
  }
  current_ = std::max(current_, k);
  const uint64_t draw = mix(number);
  group->probe = number < strata_[k].begin || number >= strata_[k].end;
  ++(group->probe ? probes_ : run_)[k];
  group->scout = draw % kScouts == 0;
  group->stays = group->probe || abandoned_ || draw % kStaying == 0;
  staying_ += group->stays && !group->probe && k == 0;
  group->stratum = k;
  group->bucket = kBuckets * k + (group->probe ? kProbe : group->stays ? kStay : kLeave);
}

Events Sampler::now() const { return Events(hierarchy_.counts(), c_.counts); }

uint64_t Sampler::work() const { return simulation_work(c_.counts, hierarchy_.counts()); }

void Sampler::enter(Phase phase) {
  if (phase_ == Phase::measure) close_cell();
  phase_ = phase;
  mark_work_ = work();
  mark_misses_ = hierarchy_.counts().l2_misses;
  mark_instructions_ = c_.counts.wave_instructions;
}

void Sampler::tick(uint64_t live_waves, const Buckets& runs) {
  if (long_groups_ && !planned_ && ended(live_waves) >= std::max<uint64_t>(1, resident_ / kFirstEnded)) skip_long(runs);
  switch (phase_) {
    case Phase::start:
      consider(live_waves, runs);
      break;
    case Phase::warm:
      if (!settled()) break;
      if (planned_ && current_ + 1 == strata_.size() && !long_groups_)
        enter_tail(runs);
      else
        enter(Phase::measure);
      break;
    case Phase::measure:
      if (!long_groups_ || work() - mark_work_ < measure_work_) break;
      enter(Phase::forward);
      if (!seen_enough()) break;
      abandons_ = abandoned_ = true;
      vanished_ = placed_ - staying_;
      break;
    case Phase::forward:
      if (abandoned_) break;  // too few are left to fill the caches as all of them do
      if (c_.counts.wave_instructions - mark_instructions_ >= forward_length()) enter(Phase::warm);
      break;
    case Phase::tail:
      if (dirty_before_ == 0 && highest_ >= plan_.total_groups) dirty_before_ = hierarchy_.dirty().l2_writebacks;
      break;
  }
}

// Whether to go on exactly. What ran so far says at least how much work all of it is.
void Sampler::consider(uint64_t live_waves, const std::vector<std::vector<Executed>>& runs) {
  const uint64_t spent = work();
  if (spent < start_work_) return;
  const double per_group = static_cast<double>(spent) / static_cast<double>(placed_);
  if (per_group * static_cast<double>(plan_.total_groups) <= static_cast<double>(exact_work_)) return;
  stops_ = ended(live_waves) == 0 && traces_.traces() != nullptr;
  if (stops_) return;
  const bool turned_over = ended(live_waves) >= resident_;
  const bool filled = hierarchy_.counts().l2_misses >= l2_lines_ || spent >= 2 * start_work_;
  if (!turned_over && spent < exact_work_) return;
  if (turned_over && (!filled || !skip_short())) return;
  long_groups_ = !turned_over;
  begin(runs);
}

void Sampler::begin(const std::vector<std::vector<Executed>>& runs) {
  exact_ = now();
  chain_at_start_ = hierarchy_.longest_atomic_chain();
  channels_seen_.push_back(hierarchy_.channel_requests());
  mark_sites();
  counted_.push_back(site_executions(runs, 0));
  c_.steps = steps_.data();
  stretch_instructions_ = 0;
  if (long_groups_) {
    // Until the length of a work-group is known, the grid is taken in a few parts that all run.
    strata_.clear();
    for (uint32_t k = 0; k < kLongStrata; ++k) {
      const uint64_t from = k ? strata_.back().to : 0;
      const uint64_t to =
          k + 1 == kLongStrata ? plan_.total_groups : std::max(highest_, plan_.total_groups / kLongStrata * (k + 1));
      strata_.push_back({from, from, std::max(to, from), std::max(to, from)});
    }
    std::erase_if(strata_, [](const Stratum& s) { return s.from == s.to; });
  }
  measured_.assign(strata_.size(), std::vector<SiteTally>(sites_.size()));
  run_.resize(strata_.size());
  probes_.resize(strata_.size());
  enter(Phase::measure);
}

// Short work-groups: stretches that fill the caches and then last for a window. False when little would be saved.
bool Sampler::skip_short() {
  const double per_group = static_cast<double>(work()) / static_cast<double>(placed_);
  const double misses = static_cast<double>(hierarchy_.counts().l2_misses) / static_cast<double>(placed_);
  const auto window = static_cast<uint64_t>(static_cast<double>(measure_work_) / per_group);
  const auto fill = static_cast<uint64_t>(misses > 0 ? static_cast<double>(l2_lines_) / misses : 0);
  const uint64_t counted = counted_groups_ = std::max(resident_, window);
  const uint64_t length = std::max(resident_, std::min(fill, window)) + counted;
  // What is left in the L2 at the end comes from all of its last filling.
  const uint64_t last = std::max(resident_, std::min(fill, kLastFill * window)) + counted;
  std::vector<Stratum> strata = choose_strata({highest_, plan_.total_groups, length, last, sampling_units_, xcds_});
  if (strata.size() == 1) return false;
  plan(std::move(strata), per_group);
  return true;
}

// Long work-groups: the first to end tell how much work one is, and with it how many are affordable. Where that is less
// than a few full machines, probes alone stand for the rest, with the memory behaviour of the first.
void Sampler::skip_long(const std::vector<std::vector<Executed>>& runs) {
  planned_ = true;
  const std::vector<Executed> ran = abandoned_ ? executions_of(runs[kStay]) : stretch_executions(runs, 0);
  const double per_group = light_work(ran) / static_cast<double>(abandoned_ ? staying_ : placed_);
  const double affordable = kForwardBudget * static_cast<double>(exact_work_) / per_group;
  const uint64_t total = plan_.total_groups, done = std::min(total, (highest_ + xcds_ - 1) / xcds_ * xcds_);
  if (affordable >= static_cast<double>(total - done)) return;
  const double machines = affordable / static_cast<double>(resident_);
  std::vector<Stratum> strata{{0, 0, done, done}, {done, done, done, total}};
  if (machines >= 3 && !abandoned_) {
    const auto count = static_cast<uint32_t>(std::min<double>(machines - 1, sampling_units_));
    strata = choose_strata({done, total, resident_, resident_, count, xcds_});
  }
  if (strata.size() == 1) return;
  plan(std::move(strata), per_group);
  measured_.resize(strata_.size(), std::vector<SiteTally>(sites_.size()));
  run_.assign(1, placed_);
  run_.resize(strata_.size());
  probes_.resize(strata_.size());
}

void Sampler::plan(std::vector<Stratum> strata, double work_per_group) {
  planned_ = true;
  strata_ = std::move(strata);
  double gaps = 0;
  for (const Stratum& s : strata_) gaps += s.gap();
  const double probes =
      std::clamp(kProbeShare * static_cast<double>(exact_work_) / work_per_group, kFewProbes, kProbes);
  probe_spacing_ = static_cast<uint64_t>(std::max(1.0, gaps / probes));
}

double Sampler::light_work(const std::vector<Executed>& executed) const {
  double sum = 0;
  for (size_t i = 0; i < executed.size(); ++i) {
    if (steps_[i].action != Action::hop) sum += static_cast<double>(executed[i].times);
  }
  return sum * kForwardInstructionWork;
}

// The caches hold what the stretch's neighbours left there: the machine is full of the stretch's work-groups and the L2
// has been filled once, or, where misses are rare, enough has been done.
bool Sampler::settled() const {
  if (behind_) return false;
  const Stratum& s = strata_[current_];
  if (!long_groups_) return s.begin + run_[current_] + counted_groups_ >= s.end;
  return hierarchy_.counts().l2_misses - mark_misses_ >= l2_lines_ || work() - mark_work_ >= warm_work_;
}

void Sampler::enter_tail(const std::vector<std::vector<Executed>>& runs) {
  enter(Phase::tail);
  tail_from_ = now();
  for (size_t k = 0; k < strata_.size(); ++k) tail_counted_.push_back(site_executions(runs, k));
}

uint64_t Sampler::forward_length() const {
  const uint64_t before = mark_instructions_ - stretch_instructions_;
  return std::max(kForwardWindows * measure_work_, static_cast<uint64_t>(kForwardGrowth * static_cast<double>(before)));
}

SiteTally* Sampler::tally(const Resident& r, uint32_t site) {
  if (phase_ == Phase::measure) return &measured_[r.group->stratum][site];
  return phase_ == Phase::tail ? nullptr : &spare_[site];
}

// Going forward leaves out loads that are well known, but for those of scouts; the LDS has nothing to warm. Stores
// stay: which halves of a line are dirty when it is written back depends on all of them.
bool Sampler::look_closely(const Resident& r, const Step& s, uint32_t site) const {
  if (phase_ == Phase::measure || phase_ == Phase::tail) return true;
  const bool memory = s.inst->op->unit != Unit::lds, loads = s.inst->op->mem.kind == MemKind::load;
  if (memory && (phase_ == Phase::warm || (r.group->scout && !abandoned_) || !loads)) return true;
  return looks_[site] < kWellKnown;
}

void Sampler::run_site(Resident& r, const Step& s) {
  const uint32_t site = s.target;
  const bool between = phase_ == Phase::warm || phase_ == Phase::forward;
  if (r.group->probe && !(between && looks_[site] < kFirstLooks)) return forward(r, s);
  if (!look_closely(r, s, site)) return forward(r, s);
  SiteTally* t = tally(r, site);
  const Events before = t ? now() : Events();
  execute_site(c_, r, s);
  if (!t) return;
  ++looks_[site];
  ++t->times;
  t->events.add_difference(now(), before);
}

// What later instructions see of a memory instruction: its data where they need it, and that it is outstanding.
void Sampler::forward(Resident& r, const Step& s) {
  const OpInfo& op = *s.inst->op;
  if (!s.idle_data || op.unit == Unit::lds) {
    if (s.idle_data) {
      ++r.outstanding_lgkm;
      r.lds_outstanding = true;
      r.lds_answer = Answer::at(r.now + c_.latency.lds, Level::none);
    } else {
      c_.model = &functional_;
      execute_site(c_, r, s);
      c_.model = &memory_;
    }
  } else if (r.wave.exec() != 0) {
    ++r.outstanding_vm;
    r.atomic_outstanding |= op.mem.kind == MemKind::atomic && s.inst->dst.kind != OperandKind::none;
  }
  const auto answer = [&](const uint32_t* latency, Level level) {
    return Answer::at(r.now + latency[static_cast<size_t>(level)], level);
  };
  const bool store = op.mem.kind == MemKind::store;
  if (op.unit == Unit::vmem) {
    r.issue_vm(store ? 0 : memory_.typical_back(), answer(c_.latency.vector, store ? Level::none : Level::l2));
  }
  if (op.unit == Unit::smem) r.answer_scalar(answer(c_.latency.scalar, Level::l1));
  if (op.unit == Unit::vmem && !store) r.vm_level = std::max(r.vm_level, Level::l2);
}

void Sampler::before_wait() {
  if (phase_ == Phase::measure || phase_ == Phase::warm) wait_before_ = now();
}

void Sampler::after_wait(const Resident& r, const Step& s) {
  if ((phase_ != Phase::measure && phase_ != Phase::warm) || r.group->probe) return;
  SiteTally* t = tally(r, s.target);
  ++t->times;
  t->events.add_difference(now(), wait_before_);
}

}  // namespace hipsynth
