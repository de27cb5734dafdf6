#include "sampling/partial_replay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace hipsynth {
namespace {

// Sites that no vector access stands for, behind those of the traces.
enum Further : size_t { kScalar, kWait, kBarrier, kJump, kEnd, kFurther };

constexpr uint64_t kEnough = 64;  // executions of a site that suffice for a rate
// The halves of what is counted follow each other, so their difference shows a drift, not a deviation.
constexpr double kOfDifference = 0.5;

uint64_t scale(uint64_t value, uint64_t times, uint64_t of) {
  return static_cast<uint64_t>(
      std::llround(static_cast<double>(value) * static_cast<double>(times) / std::max(1.0, static_cast<double>(of))));
}

}  // namespace

PartialReplay::PartialReplay(const Traces& traces, const Machine& machine, uint64_t replayed, uint64_t total)
    : traces_(traces),
      machine_(machine),
      replayed_(replayed),
      total_(total),
      is_load_(traces.sites.size() + kFurther),
      in_group_(is_load_.size()),
      seen_(is_load_.size()),
      tallies_(kPhases, std::vector<SiteTally>(is_load_.size())) {
  for (size_t i = 0; i < traces.sites.size(); ++i)
    is_load_[i] = traces.patterns[traces.sites[i].pattern].kind == Access::load;
  is_load_[traces.sites.size() + kScalar] = is_load_[traces.sites.size() + kWait] = true;
  uint64_t accesses = 0;
  for (const std::vector<Event>& wave : traces.first.waves) {
    for (const Event& event : wave) {
      const size_t site = site_of(event);
      if (site < in_group_.size()) ++in_group_[site];
      accesses += event.kind == Event::Kind::vector;
    }
    wave_instructions_ += wave.back().executed;
  }
  last_access_ = accesses * replayed;
  counted_from_ = accesses * std::max(machine.resident_groups, replayed / 2);
  middle_ = (counted_from_ + last_access_) / 2;
}

size_t PartialReplay::site_of(const Event& event) const {
  const size_t further = traces_.sites.size();
  switch (event.kind) {
    case Event::Kind::vector:
      return event.amount;
    case Event::Kind::scalar:
      return further + kScalar;
    case Event::Kind::wait:
      return further + kWait;
    case Event::Kind::barrier:
      return further + kBarrier;
    case Event::Kind::jump:
      return further + kJump;
    case Event::Kind::end:
      return further + kEnd;
    default:
      return further + kFurther;  // its counts are those of every work-group
  }
}

void PartialReplay::before(const Event& event, const MemoryCounts& memory, const EngineCounts& engine) {
  const size_t site = site_of(event);
  if (site >= seen_.size()) return;
  ++seen_[site];
  if (counts(site)) before_ = Events(memory, engine);
}

void PartialReplay::after(const Event& event, const MemoryCounts& memory, const EngineCounts& engine) {
  const size_t site = site_of(event);
  if (site >= seen_.size()) return;
  if (counts(site)) {
    SiteTally& tally = tallies_[phase_][site];
    ++tally.times;
    tally.events.add_difference(Events(memory, engine), before_);
  }
  if (event.kind != Event::Kind::vector) return;
  ++accesses_;
  phase_ = accesses_ < counted_from_ ? warm : accesses_ < middle_ ? first : second;
}

// Loads have the rates of these phases, all else those of the whole replay. What too rarely happened in the phases has
// the rates of what came before, too.
SiteTally PartialReplay::rates_of(size_t site, const std::vector<Phase>& phases) const {
  SiteTally sum;
  const auto add = [&](Phase phase) {
    sum.times += tallies_[phase][site].times;
    sum.events.add_difference(tallies_[phase][site].events, {});
  };
  std::for_each(phases.begin(), phases.end(), add);
  if (is_load_[site] && sum.times >= kEnough) return sum;
  sum = {};
  for (const Phase phase : {first, second, warm}) add(phase);
  return sum;
}

Estimate PartialReplay::estimate_by(const Sample& sample, const std::vector<Phase>& phases,
                                    const EngineCounts& end) const {
  std::array<double, std::tuple_size_v<decltype(Events::n)>> row{};
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(sample.simulated.n[i]);
  for (size_t site = 0; site < seen_.size(); ++site) {
    const SiteTally rates = rates_of(site, phases);
    if (rates.times == 0) continue;
    const double left = static_cast<double>(in_group_[site] * total_) - static_cast<double>(seen_[site]);
    const double times = std::max(0.0, left) / static_cast<double>(rates.times);
    for (size_t i = 0; i < row.size(); ++i) row[i] += times * static_cast<double>(rates.events.n[i]);
  }
  Events rounded;
  std::transform(row.begin(), row.end(), rounded.n.begin(),
                 [](double value) { return static_cast<uint64_t>(std::llround(std::max(0.0, value))); });
  Estimate e;
  e.memory = rounded.memory();
  std::memcpy(&e.engine, rounded.n.data() + Events::kMemory, sizeof e.engine);
  const size_t further = traces_.sites.size();
  const auto all = [&](Further of, uint64_t value) {
    return scale(value, in_group_[further + of] * total_, seen_[further + of]);
  };
  // Waves are counted as they begin; the rest of these is no event of a site, or belongs to one alone.
  const uint64_t begun = end.waves / traces_.first.waves.size();
  for (uint64_t EngineCounts::* field :
       {&EngineCounts::waves, &EngineCounts::items, &EngineCounts::waves_lt_16, &EngineCounts::waves_lt_32,
        &EngineCounts::waves_lt_48, &EngineCounts::waves_lt_64, &EngineCounts::waves_eq_64}) {
    e.engine.*field = scale(end.*field, total_, begun);
  }
  e.engine.wave_instructions = wave_instructions_ * total_;
  e.engine.barriers = all(kBarrier, end.barriers);
  e.engine.barrier_cycles = all(kBarrier, end.barrier_cycles);
  e.engine.jumps = all(kJump, end.jumps);
  e.engine.store_tails = all(kEnd, end.store_tails);
  conserve_writes(sample, &e.memory);
  scale_maxima(sample, &e.memory);
  return e;
}

Extrapolation PartialReplay::estimate(const EngineCounts& end, std::vector<Executed> executed, const Program& program,
                                      Hierarchy* hierarchy) const {
  Sample sample;
  sample.simulated = Events(hierarchy->counts(), end);
  describe_end(*hierarchy, machine_, &sample);
  const auto estimate_from = [&](const std::vector<Phase>& phases) {
    Estimate e = estimate_by(sample, phases, end);
    e.executions = executed;
    return e;
  };
  // The whole must come last: the hierarchy keeps its counts.
  const auto before = counters_of(program, estimate_from({first}), hierarchy),
             after = counters_of(program, estimate_from({second}), hierarchy);
  const Estimate e = estimate_from({first, second});
  Extrapolation result;
  for (const auto& [name, total] : counters_of(program, e, hierarchy))
    result.error[name] = kOfDifference * std::abs(after.at(name) - before.at(name)) / std::max(1.0, total);
  result.counts = e.engine;
  result.executed = std::move(executed);
  result.groups_simulated = replayed_;
  return result;
}

}  // namespace hipsynth
