#include "sampling/evidence.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "sampling/sampler.h"

namespace hipsynth {
namespace {

constexpr size_t kFewCells = 4;        // windows needed before work-groups are abandoned
constexpr size_t kManyCells = 8;       // windows whose mean is accepted even though they differ
constexpr double kAgree = 0.05;        // largest relative difference of two windows that agree
constexpr double kReplacing = 0.9;     // share of misses that evict a line when caches are as full as they get
constexpr double kRareMisses = 0.001;  // miss rate, relative to look-ups

bool is_site(const Step& s) {
  return s.action == Action::scalar_memory || s.action == Action::vector_memory || s.action == Action::lds ||
         s.action == Action::waitcnt;
}

}  // namespace

// Executions of all work-groups of a sampling unit.
std::vector<Executed> Sampler::unit_executions(const Buckets& runs, size_t k) const {
  std::vector<Executed> sum = executions_of(runs[kBuckets * k + kLeave]);
  const std::vector<Executed> stay = executions_of(runs[kBuckets * k + kStay]);
  for (size_t i = 0; i < sum.size(); ++i) {
    sum[i].times += stay[i].times;
    sum[i].lanes += stay[i].lanes;
  }
  return sum;
}

std::vector<uint64_t> Sampler::site_executions(const Buckets& runs, size_t k) const {
  const std::vector<Executed> counts = unit_executions(runs, k);
  std::vector<uint64_t> out;
  for (const uint32_t i : evidence_.sites) out.push_back(counts[i].times);
  return out;
}

void SiteEvidence::mark(const std::vector<Step>& slice) {
  steps = slice;
  for (uint32_t i = 0; i < steps.size(); ++i) {
    Step& s = steps[i];
    if (!is_site(s)) continue;
    s.action = s.action == Action::waitcnt ? Action::sampled_wait : Action::sampled;
    s.target = static_cast<uint32_t>(sites.size());
    sites.push_back(i);
  }
  spare.resize(sites.size());
  looks.resize(sites.size());
}

void SiteEvidence::close_cell(uint32_t stratum) {
  std::vector<SiteTally> cell(sites.size());
  closed.resize(sites.size());
  for (size_t i = 0; i < cell.size(); ++i) {
    for (const auto& tallies : measured) {
      cell[i].times += tallies[i].times;
      cell[i].events.add_difference(tallies[i].events, {});
    }
    const SiteTally all = cell[i];
    cell[i].times -= closed[i].times;
    cell[i].events = {};
    cell[i].events.add_difference(all.events, closed[i].events);
    closed[i] = all;
  }
  cells.push_back(std::move(cell));
  cell_strata.push_back(stratum);
}

bool SiteEvidence::has_atomics() const {
  return std::any_of(sites.begin(), sites.end(), [&](uint32_t i) {
    const OpInfo& op = *steps[i].inst->op;
    return op.mem.kind == MemKind::atomic && op.unit == Unit::vmem;
  });
}

bool SiteEvidence::windows_agree() const {
  if (cells.size() < kFewCells) return false;
  const auto of_cell = [](const std::vector<SiteTally>& cell, uint64_t MemoryCounts::* what) {
    uint64_t sum = 0;
    for (const SiteTally& t : cell) sum += t.events.memory().*what;
    return static_cast<double>(sum);
  };
  const auto rate = [&](const std::vector<SiteTally>& cell) {
    return of_cell(cell, &MemoryCounts::l2_misses) / std::max(1.0, of_cell(cell, &MemoryCounts::l1_lookups));
  };
  const double last = rate(cells.back()), before = rate(cells[cells.size() - 2]);
  if (std::max(last, before) <= kRareMisses) return true;
  const double missed = of_cell(cells.back(), &MemoryCounts::l2_misses);
  return (std::abs(last - before) <= kAgree * std::max(last, before) || cells.size() >= kManyCells) &&
         of_cell(cells.back(), &MemoryCounts::l2_evicts) >= kReplacing * missed;
}

void Sampler::close_cell() { evidence_.close_cell(current_); }

// Whether the windows so far predict the rest of these work-groups, so that running all of them is not worth the time.
// Never for work-groups that may wait for each other or distribute work dynamically.
bool Sampler::seen_enough() const {
  if (planned_ || abandoned_ || staying_ < std::max<uint64_t>(2, 2 * machine_.resident_groups / kFirstEnded))
    return false;
  return evidence_.windows_agree() && !evidence_.has_atomics();
}

void describe_end(Hierarchy& hierarchy, const Machine& machine, Sample* sample) {
  const Channels::Load load = hierarchy.channels().load();
  sample->channels = hierarchy.channels().count();
  sample->channel_excess = load.busiest / std::max(1.0, load.average) - 1;
  sample->left_dirty = hierarchy.dirty();
  sample->cus = machine.cus;
  sample->l2_lines = machine.l2_lines;
  sample->infinity_bytes = machine.infinity_bytes;
  sample->line_bytes = machine.line_bytes;
}

Sample Sampler::finish(const std::vector<std::vector<Executed>>& runs) {
  Sample sample;
  if (phase_ == Phase::measure) close_cell();
  const Events end = now();
  if (phase_ == Phase::tail) exact_.add_difference(end, tail_from_);
  counted_.resize(schedule_.size(), std::vector<uint64_t>(evidence_.sites.size()));
  for (size_t k = 0; phase_ == Phase::tail && k < schedule_.size(); ++k) {
    const std::vector<uint64_t> ran = site_executions(runs, k);
    for (size_t i = 0; i < ran.size(); ++i) counted_[k][i] += ran[i] - tail_counted_[k][i];
  }
  sample.ran.resize(evidence_.sites.size());
  sample.placed = std::accumulate(run_.begin(), run_.end(), uint64_t{0});
  for (size_t k = 0; k < schedule_.size(); ++k) {
    const std::vector<uint64_t> ran = site_executions(runs, k);
    std::transform(ran.begin(), ran.end(), sample.ran.begin(), sample.ran.begin(), std::plus<>());
    const bool in_part = abandoned_ && k == 0;
    sample.executed.push_back(in_part ? executions_of(runs[kStay]) : unit_executions(runs, k));
    sample.probed.push_back(executions_of(runs[kBuckets * k + kProbe]));
    if (in_part) run_[0] = staying_;
  }
  sample.probes = probes_;
  sample.placed += std::accumulate(probes_.begin(), probes_.end(), uint64_t{0});
  for (uint32_t i = 0; i < evidence_.steps.size(); ++i) {
    if (evidence_.steps[i].action == Action::barrier) sample.barriers.push_back(i);
  }
  sample.strata = schedule_.strata();
  for (size_t k = 0; k < run_.size(); ++k) sample.strata[k].end = schedule_[k].begin + run_[k];
  sample.sites = evidence_.sites;
  for (const uint32_t i : evidence_.sites)
    sample.loads.push_back(evidence_.steps[i].inst->op->mem.kind == MemKind::load);
  sample.counted = std::move(counted_);
  sample.measured = std::move(evidence_.measured);
  sample.spare = std::move(evidence_.spare);
  sample.cells = std::move(evidence_.cells);
  sample.cell_strata = std::move(evidence_.cell_strata);
  sample.exact = exact_;
  sample.simulated = end;
  sample.chain_at_start = chain_at_start_;
  sample.atomics_at_start = atomics_at_start_;
  sample.long_groups = long_groups_;
  sample.dirty_before = dirty_before_;
  describe_end(hierarchy_, machine_, &sample);
  return sample;
}

}  // namespace hipsynth
