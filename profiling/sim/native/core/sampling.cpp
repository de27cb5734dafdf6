#include "core/sampling.h"

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

constexpr uint64_t kEnough = 64;     // executions of a site in a stratum that make a rate of its own
constexpr double kWorthwhile = 0.7;  // share of the rest of the grid that may run and still be called a sample
constexpr double kNearlyAll = 0.9;
constexpr double kDeviations = 2;  // of the reported error
using Row = std::array<double, std::tuple_size_v<decltype(Events::n)>>;

uint64_t round_up(uint64_t v, uint64_t to) { return (v + to - 1) / to * to; }
uint64_t whole(double v) { return v > 0 ? static_cast<uint64_t>(std::llround(v)) : 0; }

// Events of one execution of each site, from the best evidence there is: this stratum, all strata, cold caches.
class Rates {
 public:
  explicit Rates(const Sample& s) : s_(s), pooled_(s.sites.size()) {
    for (const auto& stratum : s.measured) {
      for (size_t i = 0; i < stratum.size(); ++i) {
        pooled_[i].times += stratum[i].times;
        pooled_[i].events.add_difference(stratum[i].events, {});
      }
    }
    for (size_t i = 0; i < pooled_.size(); ++i) {
      uint64_t ran = 0;
      for (size_t k = 0; k < s.executed.size(); ++k) ran += s.executed[k][s.sites[i]].times - s.counted[k][i];
      // Looked at nearly always, as stores are: then all of it is better evidence than the windows alone.
      whole_.push_back(static_cast<double>(pooled_[i].times + s.spare[i].times) >=
                       kNearlyAll * static_cast<double>(ran));
      if (!whole_[i]) continue;
      pooled_[i].times += s.spare[i].times;
      pooled_[i].events.add_difference(s.spare[i].events, {});
    }
  }
  void add(size_t k, size_t site, double times, Row* row) const {
    const SiteTally* t = &s_.measured[k][site];
    if (t->times < kEnough || whole_[site]) t = &pooled_[site];
    if (t->times == 0) t = &s_.spare[site];
    if (t->times == 0) return;
    const double scale = times / static_cast<double>(t->times);
    for (size_t i = 0; i < row->size(); ++i) (*row)[i] += scale * static_cast<double>(t->events.n[i]);
  }

 private:
  const Sample& s_;
  std::vector<SiteTally> pooled_;
  std::vector<bool> whole_;
};

// Kinds of engine events that happen at sites; all others go with the number of work-groups.
std::array<bool, Events::kEngine> at_sites(const Sample& s) {
  std::array<bool, Events::kEngine> found{};
  const auto look = [&](const SiteTally& t) {
    for (size_t i = 0; i < Events::kEngine; ++i) found[i] |= t.events.n[Events::kMemory + i] != 0;
  };
  // Waits while memory is not modelled have made-up levels.
  const auto from = offsetof(EngineCounts, vm_waits) / sizeof(uint64_t);
  std::fill_n(found.begin() + from, std::size(EngineCounts{}.vm_waits) + std::size(EngineCounts{}.smem_waits) + 1,
              true);
  for (const auto& stratum : s.measured) std::for_each(stratum.begin(), stratum.end(), look);
  std::for_each(s.spare.begin(), s.spare.end(), look);
  return found;
}

// Every line that was made dirty is written back sooner or later, or is left behind: so write-backs per store are taken
// from everything simulated, not from a window in which lines may leave that came before it.
void conserve_writes(const Sample& s, MemoryCounts* m) {
  const MemoryCounts all = s.simulated.memory();
  const double stores = static_cast<double>(all.l2_writes + all.l2_atomics);
  const double scale = stores > 0 ? static_cast<double>(m->l2_writes + m->l2_atomics) / stores : 0;
  const auto conserve = [&](uint64_t MemoryCounts::* field, uint64_t more) {
    const auto left = static_cast<double>(s.left_dirty.*field);
    return whole((static_cast<double>(all.*field + more) + left) * scale - left);
  };
  m->fabric_writes = conserve(&MemoryCounts::fabric_writes, 0);
  m->fabric_writes_64b = conserve(&MemoryCounts::fabric_writes_64b, 0);
  // What reached the fabric and not the HBM is in the memory-side cache, which in the whole grid may have run full.
  const auto bytes = [](const MemoryCounts& n) { return 32 * (n.fabric_writes + n.fabric_writes_64b); };
  const uint64_t kept = all.hbm_write_bytes ? bytes(all) - std::min(bytes(all), all.hbm_write_bytes) : s.infinity_bytes;
  m->hbm_write_bytes = bytes(*m) - std::min(bytes(*m), kept);
  m->flushed_bytes = all.flushed_bytes;
  const uint64_t written_back = conserve(&MemoryCounts::l2_writebacks, all.l2_flush_writebacks);
  m->l2_flush_writebacks = all.l2_flush_writebacks;
  m->l2_writebacks = written_back - std::min(written_back, all.l2_flush_writebacks);
  const uint64_t resident = all.l2_evicts ? all.l2_misses - std::min(all.l2_misses, all.l2_evicts) : s.l2_lines;
  m->l2_evicts = m->l2_misses - std::min(m->l2_misses, resident);
}

// Maxima: the imbalance between CUs stays what it is, the average grows. A chain of atomics on one line grows with the
// grid only if it has grown since the first stretch.
void scale_maxima(const Sample& s, double groups, double done, MemoryCounts* m) {
  const MemoryCounts all = s.simulated.memory();
  const auto busiest = static_cast<double>(all.l1_cycles_max), sum = static_cast<double>(all.l1_cycles_sum);
  const auto chain = static_cast<double>(all.same_address_atomics_max);
  const double grown = all.l1_lookups ? static_cast<double>(m->l1_lookups) / static_cast<double>(all.l1_lookups) : 1;
  m->l1_cycles_sum = whole(sum * grown);
  m->l1_cycles_max = whole(sum * grown / s.cus + busiest - sum / s.cus);
  const auto requests = [](const MemoryCounts& n) {
    return static_cast<double>(n.l2_reads + n.l2_writes + n.l2_atomics);
  };
  m->l2_channel_max = whole(static_cast<double>(all.l2_channel_max) * requests(*m) / std::max(1.0, requests(all)));
  const double first = static_cast<double>(s.strata[0].end), later = done - first;
  const double slope = later > 0 ? (chain - static_cast<double>(s.chain_at_start)) / later : 0;
  m->same_address_atomics_max = whole(chain + slope * (groups - done));
}

void put(const Row& row, Estimate* e) {
  Events rounded;
  for (size_t i = 0; i < row.size(); ++i) rounded.n[i] = whole(row[i]);
  std::memcpy(&e->memory, rounded.n.data(), sizeof e->memory);
  std::memcpy(&e->engine, rounded.n.data() + Events::kMemory, sizeof e->engine);
}

// How often the whole stratum executes what its stretch executed `run` times and its probes `probed` times.
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
  const uint64_t done = std::min(round_up(q.done, q.align), q.total), length = round_up(q.length, q.align);
  const Stratum first{0, 0, done, done};
  const uint64_t rest = q.total - done;
  const auto most = static_cast<uint64_t>(kWorthwhile * static_cast<double>(rest)) / std::max<uint64_t>(length, 1);
  if (most < 3) return {{0, 0, q.total, q.total}};  // the last stretch and two more
  const uint64_t count = std::min<uint64_t>(q.count, most - 1), tail = (q.total - length) / q.align * q.align,
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

Estimate estimate(const Sample& s) {
  const Rates rates(s);
  Row row{};
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(s.exact.n[i]);
  Estimate e;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    add_executions(s, k, &e.executions);
    for (size_t site = 0; site < s.sites.size(); ++site) {
      rates.add(k, site, executions_of(s, k, site) - static_cast<double>(s.counted[k][site]), &row);
    }
  }
  const auto groups = static_cast<double>(s.strata.back().to);
  const double done = groups_run(s);
  const auto found = at_sites(s);
  for (size_t i = 0; i < Events::kEngine; ++i) {
    const size_t at = Events::kMemory + i;
    if (!found[i]) row[at] = static_cast<double>(s.simulated.n[at]) * groups / done;
  }
  put(row, &e);
  e.engine.wave_instructions = 0;
  for (const Executed& x : e.executions) e.engine.wave_instructions += x.times;
  conserve_writes(s, &e.memory);
  scale_maxima(s, groups, done, &e.memory);
  return e;
}

Estimate estimate_of_stratum(const Sample& s, size_t k) {
  const Rates rates(s);
  Row row{};
  Estimate e;
  add_executions(s, k, &e.executions);
  for (size_t site = 0; site < s.sites.size(); ++site) rates.add(k, site, executions_of(s, k, site), &row);
  put(row, &e);
  return e;
}

double sampling_error(const std::vector<Stratum>& strata, const std::vector<double>& values,
                      const std::vector<double>& unseen, double total) {
  double squares = 0, unseen_squares = 0, last = 0;
  size_t pairs = 0, found = 0;
  for (size_t k = 0; k < strata.size(); ++k) {
    if (unseen[k] <= 0) continue;
    const double per_group = values[k] / static_cast<double>(strata[k].to - strata[k].from);
    if (found++ > 0) {
      squares += std::pow(per_group - last, 2);
      ++pairs;
    }
    last = per_group;
    unseen_squares += unseen[k] * unseen[k];
  }
  const double variance = pairs ? squares / static_cast<double>(2 * pairs) : 0;
  return total > 0 ? kDeviations * std::sqrt(variance * unseen_squares) / total : 0;
}

std::vector<double> groups_not_run(const Sample& s) {
  std::vector<double> out;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    out.push_back(s.strata[k].gap() / std::sqrt(1 + static_cast<double>(s.probes[k])));
  }
  return out;
}

std::vector<double> groups_not_seen(const Sample& s) {
  std::vector<double> out;
  for (size_t k = 0; k < s.strata.size(); ++k) {
    double all = 0, seen = 0;
    for (size_t site = 0; site < s.sites.size(); ++site) {
      all += executions_of(s, k, site);
      seen += static_cast<double>(s.counted[k][site] + s.measured[k][site].times);
    }
    const double share = all > 0 ? std::max(0.0, 1 - seen / all) : 0;
    out.push_back(share * static_cast<double>(s.strata[k].to - s.strata[k].from));
  }
  return out;
}

}  // namespace hipsynth
