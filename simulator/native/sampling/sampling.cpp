#include "sampling/sampling.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace hipsynth {
namespace {

static_assert(std::is_trivially_copyable_v<MemoryCounts> && sizeof(MemoryCounts) % sizeof(uint64_t) == 0);
static_assert(std::is_trivially_copyable_v<EngineCounts> && sizeof(EngineCounts) % sizeof(uint64_t) == 0);

constexpr uint64_t kEnough = 64;     // executions of a site in a stratum that suffice for a rate of its own
constexpr double kWorthwhile = 0.5;  // largest share of the grid that may run: otherwise sampling saves too little
constexpr uint64_t kFewest = 5;      // fewest sampling units between the first and the last
constexpr double kNearlyAll = 0.9;
constexpr double kFull = 0.8;      // smallest share of its lines that a full L2 holds: sets fill unevenly
constexpr double kDeviations = 2;  // standard deviations that the reported error covers
// Largest growth of the misses of long work-groups between windows: products of 2048^3 and 4096^3 had up to seven times
// as many misses as their windows showed.
constexpr double kDrift = 6;
using Row = std::array<double, std::tuple_size_v<decltype(Events::n)>>;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }
uint64_t whole(double v) { return v > 0 ? static_cast<uint64_t>(std::llround(v)) : 0; }

// Events per execution of each site, from the best available data: this stratum, all strata, cold caches. Or from one
// cell alone, if it has data.
class Rates {
 public:
  explicit Rates(const Sample& s, const std::vector<SiteTally>* cell = nullptr)
      : s_(s), cell_(cell), pooled_(s.sites.size()) {
    for (const auto& stratum : s.measured) {
      for (size_t i = 0; i < stratum.size(); ++i) add_tally(stratum[i], &pooled_[i]);
    }
    for (size_t i = 0; i < pooled_.size(); ++i) {
      uint64_t counted = 0;
      for (const auto& stratum : s.counted) counted += stratum[i];
      // If nearly all executions were modelled, as those of stores are, all of them are better data than the windows
      // alone. Not for loads: they find less in caches that are not warm yet.
      whole_.push_back(!s.loads[i] && static_cast<double>(pooled_[i].times + s.spare[i].times + counted) >=
                                          kNearlyAll * static_cast<double>(s.ran[i]));
      if (whole_[i]) add_tally(s.spare[i], &pooled_[i]);
    }
  }
  void add(size_t k, size_t site, double times, Row* row) const {
    const SiteTally* t = &s_.measured[k][site];
    if (cell_ && (*cell_)[site].times >= kEnough)
      t = &(*cell_)[site];
    else if (cell_ || t->times < kEnough || whole_[site])
      t = &pooled_[site];
    if (t->times == 0) t = &s_.spare[site];
    if (t->times == 0) return;
    const double scale = times / static_cast<double>(t->times);
    for (size_t i = 0; i < row->size(); ++i) (*row)[i] += scale * static_cast<double>(t->events.n[i]);
  }

 private:
  static void add_tally(const SiteTally& from, SiteTally* to) {
    to->times += from.times;
    to->events.add_difference(from.events, {});
  }

  const Sample& s_;
  const std::vector<SiteTally>* cell_;
  std::vector<SiteTally> pooled_;
  std::vector<bool> whole_;
};

// Engine events that occur at sites; all others scale with the number of work-groups.
std::array<bool, Events::kEngine> at_sites(const Sample& s) {
  std::array<bool, Events::kEngine> found{};
  const auto look = [&](const SiteTally& t) {
    for (size_t i = 0; i < Events::kEngine; ++i) found[i] |= t.events.n[Events::kMemory + i] != 0;
  };
  // Waits while memory is not modelled have no meaningful level.
  const auto from = offsetof(EngineCounts, vm_waits) / sizeof(uint64_t);
  std::fill_n(found.begin() + from, std::size(EngineCounts{}.vm_waits) + std::size(EngineCounts{}.smem_waits) + 1,
              true);
  for (const auto& stratum : s.measured) std::for_each(stratum.begin(), stratum.end(), look);
  std::for_each(s.spare.begin(), s.spare.end(), look);
  return found;
}

void put(const Row& row, Estimate* e) {
  Events rounded;
  for (size_t i = 0; i < row.size(); ++i) rounded.n[i] = whole(row[i]);
  std::memcpy(&e->memory, rounded.n.data(), sizeof e->memory);
  std::memcpy(&e->engine, rounded.n.data() + Events::kMemory, sizeof e->engine);
}

// Executions of the whole stratum for an instruction executed `run` times by its sampling unit and `probed` times by
// its probes.
double whole_stratum(const Sample& s, size_t k, uint64_t run, uint64_t probed) {
  const Stratum& t = s.strata[k];
  const double per_group = s.probes[k] ? static_cast<double>(probed) / static_cast<double>(s.probes[k])
                                       : static_cast<double>(run) / std::max(1.0, t.run());
  return static_cast<double>(run) + t.gap() * per_group;
}

void add_executions(const Sample& s, size_t k, std::vector<Executed>* sum) {
  sum->resize(s.executed[k].size());
  for (size_t i = 0; i < sum->size(); ++i) {
    (*sum)[i].times += whole(whole_stratum(s, k, s.executed[k][i].times, s.probed[k][i].times));
    (*sum)[i].lanes += whole(whole_stratum(s, k, s.executed[k][i].lanes, s.probed[k][i].lanes));
  }
}

double executions_of(const Sample& s, size_t k, size_t site) {
  const uint32_t i = s.sites[site];
  return whole_stratum(s, k, s.executed[k][i].times, s.probed[k][i].times);
}

double groups_run(const Sample& s) {
  double sum = 0;
  for (const Stratum& stratum : s.strata) sum += stratum.run();
  for (const uint64_t probes : s.probes) sum += static_cast<double>(probes);
  return sum;
}

}  // namespace

std::vector<Stratum> choose_strata(const StrataRequest& q) {
  const uint64_t done = std::min(round_up(q.done, q.align), q.total), length = round_up(q.length, q.align),
                 last = round_up(q.last, q.align);
  const Stratum first{0, 0, done, done};
  const auto may_run = static_cast<uint64_t>(kWorthwhile * static_cast<double>(q.total));
  const uint64_t most = (may_run - std::min(done + last, may_run)) / std::max<uint64_t>(length, 1);
  if (most < std::min<uint64_t>(kFewest, q.count)) return {{0, 0, q.total, q.total}};
  const uint64_t count = std::min<uint64_t>(q.count, most), tail = (q.total - last) / q.align * q.align,
                 middle = tail - done;
  std::vector<Stratum> strata{first};
  for (uint64_t k = 0; k < count; ++k) {
    const uint64_t from = strata.back().to,
                   to = k + 1 == count ? tail : round_up(done + middle * (k + 1) / count, q.align);
    const uint64_t begin = round_up(from + (to - from - length) / 2, q.align);
    strata.push_back({from, begin, std::min(begin + length, to), to});
  }
  strata.push_back({tail, tail, q.total, q.total});
  return strata;
}

// Every dirtied sector is eventually written back or remains dirty at the end. So write-backs per dirtied sector are
// taken from everything simulated, not from one window, in which lines may be evicted that were dirtied before it. How
// many sectors are dirtied is seen in windows: stores to lines that are dirty already add none.
void conserve_writes(const Sample& s, MemoryCounts* m) {
  const MemoryCounts all = s.simulated.memory();
  const auto dirtied = static_cast<double>(all.l2_dirtied);
  const double scale = dirtied > 0 ? static_cast<double>(m->l2_dirtied) / dirtied : 0;
  const auto conserve = [&](uint64_t MemoryCounts::* field, uint64_t more) {
    const auto left = static_cast<double>(s.left_dirty.*field);
    return whole((static_cast<double>(all.*field + more) + left) * scale - left);
  };
  m->fabric_writes = conserve(&MemoryCounts::fabric_writes, 0);
  m->fabric_writes_64b = conserve(&MemoryCounts::fabric_writes_64b, 0);
  // Data that reached the fabric but not the HBM is in the memory-side cache at the end. Once that cache is full, the
  // share of modified lines in it equals their share of the incoming lines; the part of the grid that ran may not have
  // filled it.
  const auto bytes = [](const MemoryCounts& n) { return 32 * (n.fabric_writes + n.fabric_writes_64b); };
  const auto came_in = static_cast<double>(m->infinity_fills * s.line_bytes),
             room = static_cast<double>(s.infinity_bytes);
  const double share = came_in > room ? std::min(1.0, static_cast<double>(bytes(*m)) / came_in) : 1;
  m->hbm_write_bytes = bytes(*m) - std::min(bytes(*m), whole(room * share));
  m->flushed_bytes = all.flushed_bytes;
  m->left_bytes = all.left_bytes;
  const uint64_t written_back = conserve(&MemoryCounts::l2_writebacks, all.l2_flush_writebacks);
  m->l2_flush_writebacks = all.l2_flush_writebacks;
  m->l2_writebacks = written_back - std::min(written_back, all.l2_flush_writebacks);
  const uint64_t resident = all.l2_evicts ? all.l2_misses - std::min(all.l2_misses, all.l2_evicts) : s.l2_lines;
  m->l2_evicts = m->l2_misses - std::min(m->l2_misses, resident);
}

// Maxima: the imbalance between CUs keeps its absolute size while the average grows; the imbalance between channels
// grows with the requests. A chain of atomics on one line grows with the atomics as it has since the first sampling
// unit.
void scale_maxima(const Sample& s, MemoryCounts* m) {
  const MemoryCounts all = s.simulated.memory();
  const auto busiest = static_cast<double>(all.l1_cycles_max), sum = static_cast<double>(all.l1_cycles_sum);
  const auto chain = static_cast<double>(all.same_address_atomics_max);
  const double grown = all.l1_lookups ? static_cast<double>(m->l1_lookups) / static_cast<double>(all.l1_lookups) : 1;
  m->l1_cycles_sum = whole(sum * grown);
  m->l1_cycles_max = whole(sum * grown / s.cus + busiest - sum / s.cus);
  const auto requests = [](const MemoryCounts& n) {
    return static_cast<double>(n.l2_reads + n.l2_writes + n.l2_atomics);
  };
  const double each = requests(*m) / static_cast<double>(s.channels);
  m->l2_channel_max = std::max(all.l2_channel_max, whole(each * (1 + s.channel_excess)));
  const uint64_t later = all.l2_atomics - s.atomics_at_start;
  const double rate = later > 0 ? (chain - static_cast<double>(s.chain_at_start)) / static_cast<double>(later) : 0;
  const double more = static_cast<double>(m->l2_atomics) - static_cast<double>(all.l2_atomics);
  m->same_address_atomics_max = whole(chain + rate * std::max(0.0, more));
}

Events::Events(const MemoryCounts& memory, const EngineCounts& engine) {
  std::memcpy(n.data(), &memory, sizeof memory);
  std::memcpy(n.data() + kMemory, &engine, sizeof engine);
}

void Events::add_difference(const Events& after, const Events& before) {
  for (size_t i = 0; i < n.size(); ++i) n[i] += after.n[i] - before.n[i];
}

MemoryCounts Events::memory() const {
  MemoryCounts m;
  std::memcpy(&m, n.data(), sizeof m);
  return m;
}

namespace {

double left_to_estimate(const Sample& s, size_t k, size_t site) {
  return executions_of(s, k, site) - static_cast<double>(s.counted[k][site]);
}

Estimate estimate_by(const Sample& s, const Rates& rates) {
  Row row{};
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(s.exact.n[i]);
  Estimate e;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    add_executions(s, k, &e.executions);
    for (size_t site = 0; site < s.sites.size(); ++site) {
      rates.add(k, site, left_to_estimate(s, k, site), &row);
    }
  }
  const auto groups = static_cast<double>(s.strata.back().to);
  const double done = groups_run(s);
  const auto found = at_sites(s);
  for (size_t i = 0; i < Events::kEngine; ++i) {
    const size_t at = Events::kMemory + i;
    if (!found[i]) row[at] = static_cast<double>(s.simulated.n[at]) * groups / static_cast<double>(s.placed);
  }
  put(row, &e);
  e.engine.wave_instructions = e.engine.barriers = 0;
  for (const Executed& x : e.executions) e.engine.wave_instructions += x.times;
  for (const uint32_t i : s.barriers) e.engine.barriers += e.executions[i].times;
  constexpr size_t kMet = Events::kMemory + offsetof(EngineCounts, barriers) / sizeof(uint64_t);
  constexpr size_t kHeld = Events::kMemory + offsetof(EngineCounts, barrier_cycles) / sizeof(uint64_t);
  e.engine.barrier_cycles = whole(static_cast<double>(s.simulated.n[kHeld]) * static_cast<double>(e.engine.barriers) /
                                  std::max(1.0, static_cast<double>(s.simulated.n[kMet])));
  // In proportion to the instructions: long work-groups end early.
  constexpr size_t kJumps = Events::kMemory + offsetof(EngineCounts, jumps) / sizeof(uint64_t);
  constexpr size_t kRan = Events::kMemory + offsetof(EngineCounts, wave_instructions) / sizeof(uint64_t);
  e.engine.jumps = whole(static_cast<double>(s.simulated.n[kJumps]) * static_cast<double>(e.engine.wave_instructions) /
                         std::max(1.0, static_cast<double>(s.simulated.n[kRan])));
  constexpr size_t kTails = Events::kMemory + offsetof(EngineCounts, store_tails) / sizeof(uint64_t);
  e.engine.store_tails = whole(static_cast<double>(s.simulated.n[kTails]) * groups / done);
  conserve_writes(s, &e.memory);
  scale_maxima(s, &e.memory);
  return e;
}

// Half the mean square of the differences between neighbours: an estimate of the variance that ignores trends.
double variance(const std::vector<double>& values) {
  double squares = 0;
  for (size_t i = 1; i < values.size(); ++i) squares += std::pow(values[i] - values[i - 1], 2);
  return values.size() < 2 ? 0 : squares / static_cast<double>(2 * (values.size() - 1));
}

// Scales the L2 misses and everything that follows from them by `times`.
MemoryCounts with_misses(MemoryCounts m, double times) {
  const uint64_t accesses = m.l2_hits + m.l2_misses;
  for (uint64_t MemoryCounts::* field :
       {&MemoryCounts::l2_misses, &MemoryCounts::l2_evicts, &MemoryCounts::fabric_reads,
        &MemoryCounts::fabric_reads_32b, &MemoryCounts::fabric_reads_128b, &MemoryCounts::hbm_read_bytes}) {
    m.*field = whole(static_cast<double>(m.*field) * times);
  }
  m.l2_hits = accesses - std::min(accesses, m.l2_misses);
  return m;
}

}  // namespace

Estimate estimate(const Sample& s) { return estimate_by(s, Rates(s)); }

Estimate estimate_of_cell(const Sample& s, size_t part, size_t like) {
  const Rates rates(s, &s.cells[like]);
  const uint32_t k = s.cell_strata[part];
  const auto sharing = static_cast<double>(std::count(s.cell_strata.begin(), s.cell_strata.end(), k));
  Row row{};
  for (size_t site = 0; site < s.sites.size(); ++site) rates.add(k, site, left_to_estimate(s, k, site) / sharing, &row);
  Estimate e;
  put(row, &e);
  conserve_writes(s, &e.memory);
  return e;
}

// Whether the lines that the last measured window brought into the L2 replaced others. Strided accesses use only some
// of its sets, which then are full while others stay empty.
bool replaces_lines(const Sample& s) {
  if (s.cells.empty()) return false;
  MemoryCounts window;
  for (const SiteTally& t : s.cells.back()) {
    const MemoryCounts site = t.events.memory();
    window.l2_misses += site.l2_misses;
    window.l2_evicts += site.l2_evicts;
  }
  return window.l2_misses > 0 && static_cast<double>(window.l2_evicts) >= kFull * static_cast<double>(window.l2_misses);
}

MemoryCounts without_first_misses(const Sample& s, MemoryCounts m) {
  const MemoryCounts seen = s.simulated.memory();
  const uint64_t first = seen.l2_misses - std::min(seen.l2_evicts, seen.l2_misses);
  const bool full = static_cast<double>(first) >= kFull * static_cast<double>(s.l2_lines) || replaces_lines(s);
  if (full || first == 0 || m.l2_misses <= seen.l2_misses) return m;
  const double share = static_cast<double>(first) / static_cast<double>(seen.l2_misses);
  const double fewer = share * static_cast<double>(m.l2_misses - seen.l2_misses);
  return with_misses(m, 1 - fewer / static_cast<double>(m.l2_misses));
}

MemoryCounts when_drifting(const Sample& s, const MemoryCounts& m) {
  if (!s.long_groups || m.l2_misses == 0) return m;
  const double seen = static_cast<double>(s.simulated.memory().l2_misses) / static_cast<double>(m.l2_misses);
  const double room = static_cast<double>(m.l2_hits) / static_cast<double>(m.l2_misses);
  return with_misses(m, 1 + std::min(kDrift * std::max(0.0, 1 - seen), room));
}

std::vector<Executed> executions_of_stratum(const Sample& s, size_t k) {
  std::vector<Executed> sum;
  add_executions(s, k, &sum);
  return sum;
}

double execution_error(const Sample& s, const std::vector<double>& values, double total) {
  std::vector<double> per_group;
  double not_run_squares = 0;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    const Stratum& t = s.strata[k];
    // Work-groups (fractional) that no functional probe represents.
    const double not_run = t.gap() / std::sqrt(1 + static_cast<double>(s.probes[k]));
    if (not_run <= 0) continue;
    per_group.push_back(values[k] / static_cast<double>(t.to - t.from));
    not_run_squares += not_run * not_run;
  }
  return total > 0 ? kDeviations * std::sqrt(variance(per_group) * not_run_squares) / total : 0;
}

double memory_error(const Sample& s, const std::vector<double>& differences, double total) {
  if (total <= 0) return 0;
  double all = 0, seen = 0, stood_for = 0, squares = 0;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    const bool has_cell = std::find(s.cell_strata.begin(), s.cell_strata.end(), k) != s.cell_strata.end();
    for (size_t site = 0; site < s.sites.size(); ++site) {
      const double left = left_to_estimate(s, k, site);
      all += left;
      seen += static_cast<double>(s.measured[k][site].times);
      if (has_cell) stood_for += left;
    }
  }
  if (differences.empty())
    return all > 0 ? std::max(0.0, 1 - seen / all) : 0;  // one window gives no error estimate: assume the largest error
  for (const double difference : differences) squares += difference * difference / 2;
  if (all <= 0 || stood_for <= 0) return 0;
  // Strata without a cell are assumed to be as uncertain as the others.
  return kDeviations * std::max(0.0, 1 - seen / all) * std::sqrt(squares) * (all / stood_for) / total;
}

}  // namespace hipsynth
