#include "sampling/sampler.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace hipsynth {
namespace {

// Work is counted in units of about 10 ns of simulation: an instruction, a quarter of a vL1D look-up, an LDS cycle.
constexpr uint64_t kLdsWork = 1;
// Shares (1 / n) of the work up to which a dispatch runs exactly.
constexpr uint64_t kStartShare = 5, kWindowShare = 20;
// Work-groups are long if none has ended after this much work; the L2 is given up after this much. Multiples of the
// work up to which a dispatch runs exactly, at most so much.
constexpr uint64_t kLongShare = 2, kLongMost = 12'000'000, kFillShare = 4, kFillMost = 24'000'000;
constexpr uint64_t kLastFill = 4;         // windows' worth of work-groups that may fill the L2 before the end
constexpr double kForwardGrowth = 0.4;    // gap between windows per instruction executed in the unit so far
constexpr uint64_t kForwardWindows = 10;  // but at least this many windows' worth of instructions
constexpr double kForwardBudget = 3;      // work spent in the forward phase, in multiples of Budget::exact
constexpr double kForwardInstructionWork = 3;
constexpr uint64_t kFirstLooks = 64;   // a site with fewer modelled executions is modelled even in probes
constexpr uint64_t kWellKnown = 4096;  // a site with this many modelled executions is skipped in the forward phase
constexpr uint64_t kWarmUpShare = 8;   // one work-group in this many is a cache warm-up group
constexpr uint64_t kRounds = 2;        // loads of each wave of long work-groups in a window
constexpr uint64_t kStaying = 16;      // one work-group in this many is not abandoned
constexpr double kProbes = 512, kFewProbes = 64;
constexpr double kProbeShare = 0.25;  // work of all probes, in multiples of Budget::exact
constexpr uint32_t kLongStrata = 4;   // strata of a grid of long work-groups that all run

uint32_t u32(double value) { return static_cast<uint32_t>(value); }

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

// A row of Events::n for the counts of this moment. Sites run millions of times, so rows are not zeroed first.
void take_counts(const MemoryCounts& memory, const EngineCounts& engine, uint64_t* row) {
  std::memcpy(row, &memory, sizeof memory);
  std::memcpy(row + Events::kMemory, &engine, sizeof engine);
}

void add_changes(const void* now, size_t n, const uint64_t* __restrict before, uint64_t* __restrict sum) {
  const auto* after = static_cast<const uint64_t*>(now);
  for (size_t i = 0; i < n; ++i) sum[i] += after[i] - before[i];
}

// Adds what has happened since `before` to a tally.
void add_since(const uint64_t* before, const MemoryCounts& memory, const EngineCounts& engine, SiteTally* t) {
  ++t->times;
  add_changes(&memory, Events::kMemory, before, t->events.n.data());
  add_changes(&engine, Events::kEngine, before + Events::kMemory, t->events.n.data() + Events::kMemory);
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

Sampler::Sampler(Context& context, CountedMemory& memory, const Spec& spec, const SamplingOptions& options,
                 const LaunchPlan& plan, KernelSlice& slice, TraceSource& traces)
    : c_(context),
      plan_(plan),
      memory_(memory),
      hierarchy_(memory.hierarchy()),
      slice_(slice),
      traces_(traces),
      machine_(machine_of(spec, plan)),
      sampling_units_(options.units),
      budget_{options.exact_work,
              options.exact_work / kStartShare,
              options.exact_work / kWindowShare,
              options.exact_work / kWindowShare,
              std::max(options.exact_work / kStartShare, std::min(kLongShare * options.exact_work, kLongMost)),
              std::max(2 * options.exact_work / kStartShare, std::min(kFillShare * options.exact_work, kFillMost))},
      schedule_(plan.total_groups, machine_.xcds) {}

Machine machine_of(const Spec& spec, const LaunchPlan& plan) {
  const uint32_t xcds = u32(spec.topology.xcds), cus = u32(spec.topology.cus);
  return {xcds,
          cus,
          uint64_t{plan.occupancy.groups_per_cu} * cus,
          static_cast<uint64_t>(spec.l2.bytes) / u32(spec.l2.line_bytes) * xcds,
          static_cast<uint64_t>(spec.fabric.infinity_cache_bytes),
          u32(spec.l2.line_bytes)};
}

uint64_t Sampler::ended(uint64_t live_waves) const {
  return placed_ - vanished_ - live_waves / plan_.occupancy.waves_per_group;
}

uint64_t Sampler::next_group(uint64_t number) {
  return awaits_length() ? schedule_.hold(number) : schedule_.next(number);
}

void Sampler::placed(uint64_t number, WorkGroup* group) {
  const uint32_t k = schedule_.stratum_of(number);
  const Stratum& stratum = schedule_[k];
  ++placed_;
  highest_ = std::max(highest_, number + 1);
  const bool unit_begins = number >= stratum.begin && number < stratum.end && run_[k] == 0 && k > 0;
  if (unit_begins && !schedule_.continues(k)) {
    unit_instructions_ = c_.counts.wave_instructions;
    behind_ = false;
    hierarchy_.age_infinity(lines_of_gap(k));
    enter(Phase::warm);
  }
  // After a sampling unit the machine drains and then runs only probes, so nothing can be measured.
  if (!long_groups_ && phase_ == Phase::measure && number >= stratum.end) {
    enter(Phase::warm);
    behind_ = true;
  }
  current_ = std::max(current_, k);
  const uint64_t draw = pseudo_random(number);
  group->probe = number < stratum.begin || number >= stratum.end;
  ++(group->probe ? probes_ : run_)[k];
  group->warms_caches = draw % kWarmUpShare == 0;
  group->stays = group->probe || abandoned_ || draw % kStaying == 0;
  staying_ += group->stays && !group->probe && k == 0;
  group->stratum = k;
  group->bucket = kBuckets * k + (group->probe ? kProbe : group->stays ? kStay : kLeave);
}

// The lines that the work-groups between the sampling units of strata k - 1 and k, which do not run, would have brought
// into the Infinity Cache, in place of those of earlier units and of earlier dispatches. Lines that are written come
// there late, when they leave the L2, so they are counted where they enter that; what share of them is new to the
// Infinity Cache is known from those that have left, or else taken from the lines that are read.
uint64_t Sampler::lines_of_gap(uint32_t k) const {
  const MemoryCounts& n = hierarchy_.counts();
  const auto ran = static_cast<double>(std::accumulate(run_.begin(), run_.end(), uint64_t{0}));
  const double skipped = static_cast<double>(schedule_[k].begin) - static_cast<double>(schedule_[k - 1].end);
  const uint64_t fetched = n.hbm_read_bytes / machine_.line_bytes, read = fetched + n.infinity_hits;
  const auto written = static_cast<double>(n.l2_misses - std::min(n.l2_misses, read));
  const uint64_t left = n.l2_writebacks, came = n.infinity_fills - std::min(n.infinity_fills, fetched);
  const auto share = [](uint64_t part, uint64_t of) { return static_cast<double>(part) / static_cast<double>(of); };
  const double fresh = left ? std::min(1.0, share(came, left)) : read ? share(fetched, read) : 1;
  return static_cast<uint64_t>((static_cast<double>(fetched) + written * fresh) * skipped / ran);
}

Lives Sampler::whole(const std::vector<Lives>& seen) const {
  const auto lives_of = [&](size_t k, Lifetimes Lives::* kind, Bucket b) {
    return kBuckets * k + b < seen.size() ? seen[kBuckets * k + b].*kind : Lifetimes();
  };
  const auto ran_of = [&](size_t k, Lifetimes Lives::* kind) {
    Lifetimes ran = lives_of(k, kind, kLeave);
    const Lifetimes stayed = lives_of(k, kind, kStay);
    ran.add(stayed, stayed.count());
    return ran;
  };
  // Probes do not wait for modelled memory: their long ones last as long as those of the sampling units between them.
  const auto stretch = [&](Lifetimes Lives::* kind) {
    Lifetimes near, any, probes;
    for (size_t k = 0; k < schedule_.size(); ++k) {
      const Lifetimes ran = ran_of(k, kind), probed = lives_of(k, kind, kProbe);
      any.add(ran, ran.count());
      if (probed.count() > 0) near.add(ran, ran.count());
      probes.add(probed, probed.count());
    }
    const double seen_long = near.count() > 0 ? near.long_mean() : any.long_mean();
    return probes.long_mean() > 0 && seen_long > 0 ? seen_long / probes.long_mean() : 1;
  };
  Lives all;
  const double stretches[] = {stretch(&Lives::groups), stretch(&Lives::waves)};
  const auto extend = [&](size_t k, Lifetimes Lives::* kind, double each) {
    const Lifetimes ran = ran_of(k, kind);
    const Lifetimes probed = lives_of(k, kind, kProbe).stretched(stretches[kind == &Lives::waves]);
    const double represented = static_cast<double>(schedule_[k].to - schedule_[k].from);
    const double units = probed.count() > 0 ? std::min<double>(static_cast<double>(run_[k]), represented) : represented;
    (all.*kind).add(ran, each * units);
    (all.*kind).add(probed, each * (represented - units));
  };
  for (size_t k = 0; k < schedule_.size(); ++k) {
    extend(k, &Lives::groups, 1);
    extend(k, &Lives::waves, plan_.occupancy.waves_per_group);
  }
  return all;
}

Events Sampler::now() const { return Events(hierarchy_.counts(), c_.counts); }

uint64_t Sampler::work() const { return simulation_work(c_.counts, hierarchy_.counts()); }

void Sampler::enter(Phase phase) {
  if (phase_ == Phase::measure) close_cell();
  phase_ = phase;
  mark_ = {work(), hierarchy_.counts().l2_misses, c_.counts.wave_instructions};
  std::fill(turns_.begin(), turns_.end(), 0);
  most_turns_ = 0;
}

void Sampler::tick(uint64_t live_waves, const Buckets& runs) {
  if (awaits_length() && ended(live_waves) >= std::max<uint64_t>(1, machine_.resident_groups / kFirstEnded))
    skip_long(runs);
  switch (phase_) {
    case Phase::start:
      consider(live_waves, runs);
      break;
    case Phase::warm:
      if (!settled(live_waves)) break;
      if (planned_ && current_ + 1 == schedule_.size() && !long_groups_)
        enter_tail(runs);
      else
        enter(Phase::measure);
      break;
    case Phase::measure:
      if (!long_groups_ || work() - mark_.work < budget_.measure || !came_round(live_waves)) break;
      enter(Phase::forward);
      if (!seen_enough()) break;
      abandons_ = abandoned_ = true;
      vanished_ = placed_ - staying_;
      break;
    case Phase::forward:
      if (abandoned_) break;  // too few are left for realistic cache contents
      if (c_.counts.wave_instructions - mark_.instructions >= forward_length()) enter(Phase::warm);
      break;
    case Phase::tail:
      if (dirty_before_ == 0 && highest_ >= plan_.total_groups) dirty_before_ = hierarchy_.dirty().l2_writebacks;
      break;
  }
}

// Decides whether to go on exactly. The work so far gives a lower bound for the whole.
void Sampler::consider(uint64_t live_waves, const std::vector<std::vector<Executed>>& runs) {
  const uint64_t spent = work();
  if (spent < budget_.start) return;
  const double per_group = static_cast<double>(spent) / static_cast<double>(placed_);
  if (per_group * static_cast<double>(plan_.total_groups) <= static_cast<double>(budget_.exact)) return;
  stops_ = ended(live_waves) == 0 && spent >= budget_.long_groups && traces_.traces() != nullptr;
  if (stops_) return;
  const bool turned_over = ended(live_waves) >= machine_.resident_groups;
  const bool filled = hierarchy_.counts().l2_misses >= machine_.l2_lines || spent >= budget_.fill;
  if (!turned_over && spent < std::max(budget_.exact, budget_.long_groups)) return;
  if (turned_over && (!filled || !skip_short())) return;
  long_groups_ = !turned_over;
  begin(runs);
}

void Sampler::begin(const std::vector<std::vector<Executed>>& runs) {
  exact_ = now();
  chain_at_start_ = hierarchy_.longest_atomic_chain();
  atomics_at_start_ = hierarchy_.counts().l2_atomics;
  evidence_.mark(slice_.steps());
  turns_.resize(evidence_.sites.size());
  counted_.push_back(site_executions(runs, 0));
  c_.steps = evidence_.steps.data();
  unit_instructions_ = 0;
  if (long_groups_) schedule_.set_strata(parts_that_all_run(), 1);
  evidence_.resize(schedule_.size());
  run_.resize(schedule_.size());
  probes_.resize(schedule_.size());
  enter(Phase::measure);
}

// Until the length of a long work-group is known, the grid is split into a few parts that all run.
std::vector<Stratum> Sampler::parts_that_all_run() const {
  std::vector<Stratum> parts;
  const uint64_t total = plan_.total_groups;
  for (uint32_t k = 0; k < kLongStrata; ++k) {
    const uint64_t from = k ? parts.back().to : 0;
    const uint64_t to = k + 1 == kLongStrata ? total : std::max(highest_, total / kLongStrata * (k + 1));
    parts.push_back({from, from, std::max(to, from), std::max(to, from)});
  }
  std::erase_if(parts, [](const Stratum& s) { return s.from == s.to; });
  return parts;
}

// Short work-groups: sampling units that fill the caches and then last for a window. False if little would be saved.
bool Sampler::skip_short() {
  const double per_group = static_cast<double>(work()) / static_cast<double>(placed_);
  const double misses = static_cast<double>(hierarchy_.counts().l2_misses) / static_cast<double>(placed_);
  const auto window = static_cast<uint64_t>(static_cast<double>(budget_.measure) / per_group);
  const auto fill = static_cast<uint64_t>(misses > 0 ? static_cast<double>(machine_.l2_lines) / misses : 0);
  const uint64_t counted = counted_groups_ = std::max(machine_.resident_groups, window);
  const uint64_t length = std::max(machine_.resident_groups, std::min(fill, window)) + counted;
  // The L2 contents at the end depend on the last work-groups that fill the L2.
  const uint64_t last = std::max(machine_.resident_groups, std::min(fill, kLastFill * window)) + counted;
  std::vector<Stratum> strata =
      choose_strata({highest_, plan_.total_groups, length, last, sampling_units_, machine_.xcds});
  if (strata.size() == 1) return false;
  plan(std::move(strata), per_group);
  return true;
}

// Long work-groups: the first to end show the work per work-group, and thus how many are affordable. If that is less
// than a few full machines, only probes represent the rest, with the memory behaviour of the first work-groups.
void Sampler::skip_long(const std::vector<std::vector<Executed>>& runs) {
  planned_ = true;
  const std::vector<Executed> ran = abandoned_ ? executions_of(runs[kStay]) : unit_executions(runs, 0);
  const double per_group = light_work(ran) / static_cast<double>(abandoned_ ? staying_ : placed_);
  const double affordable = kForwardBudget * static_cast<double>(budget_.exact) / per_group;
  const uint64_t total = plan_.total_groups,
                 done = std::min(total, (highest_ + machine_.xcds - 1) / machine_.xcds * machine_.xcds);
  if (affordable >= static_cast<double>(total - done)) return;
  const double machines = affordable / static_cast<double>(machine_.resident_groups);
  std::vector<Stratum> strata{{0, 0, done, done}, {done, done, done, total}};
  if (machines >= 3 && !abandoned_) {
    const auto count = static_cast<uint32_t>(std::min<double>(machines - 1, sampling_units_));
    strata = choose_strata({done, total, machine_.resident_groups, machine_.resident_groups, count, machine_.xcds});
  }
  if (strata.size() == 1) return;
  plan(std::move(strata), per_group);
  evidence_.resize(schedule_.size());
  run_.assign(1, placed_);
  run_.resize(schedule_.size());
  probes_.resize(schedule_.size());
}

void Sampler::plan(std::vector<Stratum> strata, double work_per_group) {
  planned_ = true;
  double gaps = 0;
  for (const Stratum& s : strata) gaps += s.gap();
  const double probes =
      std::clamp(kProbeShare * static_cast<double>(budget_.exact) / work_per_group, kFewProbes, kProbes);
  schedule_.set_strata(std::move(strata), static_cast<uint64_t>(std::max(1.0, gaps / probes)));
}

double Sampler::light_work(const std::vector<Executed>& executed) const {
  double sum = 0;
  for (size_t i = 0; i < executed.size(); ++i) {
    if (evidence_.steps[i].action != Action::hop) sum += static_cast<double>(executed[i].times);
  }
  return sum * kForwardInstructionWork;
}

// Whether the caches hold what the sampling unit's neighbours would have left: the machine is full of the unit's
// work-groups and the L2 has been filled once, or, if misses are rare, enough work has been done.
bool Sampler::settled(uint64_t live_waves) const {
  if (behind_) return false;
  const Stratum& s = schedule_[current_];
  if (!long_groups_) return s.begin + run_[current_] + counted_groups_ >= s.end;
  return (hierarchy_.counts().l2_misses - mark_.misses >= machine_.l2_lines || work() - mark_.work >= budget_.warm) &&
         came_round(live_waves);
}

// Whether each wave has repeated the load that is executed most, or as much work has been done as makes a dispatch
// small. The loads of most waves were left out before: the first one of a wave misses the line that it would still
// hold.
bool Sampler::came_round(uint64_t live_waves) const {
  return most_turns_ >= kRounds * live_waves || work() - mark_.work >= budget_.exact;
}

void Sampler::enter_tail(const std::vector<std::vector<Executed>>& runs) {
  enter(Phase::tail);
  tail_from_ = now();
  for (size_t k = 0; k < schedule_.size(); ++k) tail_counted_.push_back(site_executions(runs, k));
}

uint64_t Sampler::forward_length() const {
  const uint64_t before = mark_.instructions - unit_instructions_;
  return std::max(kForwardWindows * budget_.measure,
                  static_cast<uint64_t>(kForwardGrowth * static_cast<double>(before)));
}

SiteTally* Sampler::tally(const Resident& r, uint32_t site) {
  if (phase_ == Phase::measure) return &evidence_.measured[r.group->stratum][site];
  return phase_ == Phase::tail ? nullptr : &evidence_.spare[site];
}

// The forward phase skips loads that are well measured, except in cache warm-up groups, and the LDS, which has nothing
// to warm. Stores are kept: which halves of a line are dirty at write-back depends on all of them.
bool Sampler::look_closely(const Resident& r, const Step& s, uint32_t site) const {
  if (phase_ == Phase::measure || phase_ == Phase::tail) return true;
  const bool memory = s.inst->op->unit != Unit::lds, loads = s.inst->op->mem.kind == MemKind::load;
  if (memory && (phase_ == Phase::warm || (r.group->warms_caches && !abandoned_) || !loads)) return true;
  return evidence_.looks[site] < kWellKnown;
}

void Sampler::run_site(Resident& r, const Step& s) {
  const uint32_t site = s.target;
  const bool between = phase_ == Phase::warm || phase_ == Phase::forward;
  if (r.group->probe && !(between && evidence_.looks[site] < kFirstLooks)) return forward(r, s);
  if (!look_closely(r, s, site)) return forward(r, s);
  if (long_groups_ && s.inst->op->unit == Unit::vmem && s.inst->op->mem.kind == MemKind::load)
    most_turns_ = std::max(most_turns_, ++turns_[site]);
  SiteTally* t = tally(r, site);
  uint64_t before[Events::kMemory + Events::kEngine];
  t ? take_counts(hierarchy_.counts(), c_.counts, before) : void();
  execute_site(c_, r, s);
  if (!t) return;
  ++evidence_.looks[site];
  add_since(before, hierarchy_.counts(), c_.counts, t);
}

// Performs only the effects of a memory instruction that later instructions see: its data if needed, and that it is
// outstanding.
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
  if (phase_ == Phase::measure || phase_ == Phase::warm)
    take_counts(hierarchy_.counts(), c_.counts, wait_before_.n.data());
}

void Sampler::after_wait(const Resident& r, const Step& s) {
  if ((phase_ != Phase::measure && phase_ != Phase::warm) || r.group->probe) return;
  add_since(wait_before_.n.data(), hierarchy_.counts(), c_.counts, tally(r, s.target));
}

}  // namespace hipsynth
