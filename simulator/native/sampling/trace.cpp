#include "sampling/trace.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace hipsynth {
namespace {

constexpr uint64_t kChosen = 12;           // work-groups at random positions, besides the corners of the grid
constexpr size_t kMostEvents = 4'000'000;  // of all recorded work-groups: 100 MB
constexpr size_t kMostPatterns = 1 << 16;
// Work of an event, of a barrier, of a vector memory instruction, and per 64 bytes of the latter.
constexpr uint64_t kEventWork = 1, kBarrierWork = 12, kAccessWork = 12, kSegmentWork = 1;

// Irregular numbers, without a period that could coincide with one of the grid.
uint64_t scattered(uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ull;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9ull;
  return i ^ i >> 27;
}

bool same_counts(const EngineCounts& a, const EngineCounts& b) {
  return std::tie(a.lds_idx_cycles, a.lds_bank_conflict, a.lds_addr_conflict, a.lds_atomic_return, a.not_requested) ==
         std::tie(b.lds_idx_cycles, b.lds_bank_conflict, b.lds_addr_conflict, b.lds_atomic_return, b.not_requested);
}

bool replays_memory(const Step& s) {
  const MemDesc& m = s.inst->op->mem;
  if (s.inst->op->unit == Unit::smem) return m.kind == MemKind::load;
  if (m.kind == MemKind::cross_lane || m.kind == MemKind::none) return true;
  if (s.inst->op->unit == Unit::lds) return s.idle_data && m.kind != MemKind::append;
  const bool moves = m.kind == MemKind::load || m.kind == MemKind::store;
  return s.idle_data && moves && (m.space == MemSpace::global || m.space == MemSpace::buffer);
}

}  // namespace

bool may_replay(const std::vector<Step>& slice, const KernelInfo& kernel) {
  return std::all_of(slice.begin() + kernel.entry, slice.begin() + kernel.end, [](const Step& s) {
    switch (s.action) {
      case Action::scalar_memory:
      case Action::vector_memory:
      case Action::lds:
        return replays_memory(s);
      case Action::clock:
      case Action::grid_barrier:
      case Action::message:
        return false;
      default:
        return true;
    }
  });
}

uint64_t Traces::work() const {
  uint64_t sum = 0;
  for (const std::vector<Event>& wave : first.waves) {
    for (const Event& e : wave) {
      sum += e.kind == Event::Kind::barrier ? kBarrierWork : kEventWork;
      if (e.kind != Event::Kind::vector) continue;
      const LanePattern& p = patterns[sites[e.amount].pattern];
      sum += kAccessWork + kSegmentWork * (static_cast<uint64_t>(std::popcount(p.exec)) * p.bytes / 64);
    }
  }
  return sum;
}

namespace {

// Removes the event runs of a wave in which it waits only for the LDS.
class Folding {
 public:
  Folding(const std::vector<Event>& events, uint32_t latency) : events_(events), latency_(latency) {}

  std::vector<Event> run(uint64_t* lds_waits) {
    while (at_ < events_.size()) {
      if (events_[at_].kind == Event::Kind::lds && lgkm_ == 0 && fold()) continue;
      keep(events_[at_], 0, &kept_);
      track(events_[at_++]);
    }
    *lds_waits += waits_;
    return std::move(kept_);
  }

 private:
  void keep(Event e, uint32_t waited, std::vector<Event>* to) const {
    e.now += moved_ + waited;
    to->push_back(e);
  }

  // Updates the outstanding operations after an event.
  void track(const Event& e) {
    if (e.kind == Event::Kind::vector) ++vm_;
    if (e.kind == Event::Kind::scalar) ++lgkm_;
    if (e.kind == Event::Kind::lds) lgkm_ += e.amount;
    if (e.kind != Event::Kind::wait) return;
    vm_ = std::min<uint32_t>(vm_, e.vm);
    lgkm_ = std::min<uint32_t>(lgkm_, e.lgkm);
  }

  // Removes the events from an LDS instruction, with no other one outstanding, to the wait for the last one; false if
  // there is a wait or load in between whose duration is unknown.
  bool fold() {
    std::vector<Event> others;
    uint32_t lgkm = 0, vm = vm_, waited = 0, answer = 0;
    uint64_t counted = 0;
    for (size_t i = at_; i < events_.size(); ++i) {
      const Event& e = events_[i];
      const uint32_t now = e.now + waited;
      if (e.kind == Event::Kind::lds) {
        lgkm += e.amount;
        answer = now + latency_;
      } else if (e.kind == Event::Kind::wait) {
        if (vm > e.vm) return false;
        if (lgkm <= e.lgkm) continue;
        const uint32_t wait = answer > now ? answer - now : 0;
        counted += (uint64_t{wait} * EngineCounts::kWaitUnits + latency_ / 2) / latency_;
        waited += wait;
        lgkm = e.lgkm;
        if (lgkm > 0) continue;
        kept_.insert(kept_.end(), others.begin(), others.end());
        at_ = i + 1;
        vm_ = vm;
        moved_ += waited;
        waits_ += counted;
        return true;
      } else if (e.kind == Event::Kind::scalar || e.kind == Event::Kind::barrier || e.kind == Event::Kind::end) {
        return false;
      } else {
        vm += e.kind == Event::Kind::vector;
        keep(e, waited, &others);
      }
    }
    return false;
  }

  const std::vector<Event>& events_;
  uint32_t latency_;
  std::vector<Event> kept_;
  size_t at_ = 0;
  uint32_t vm_ = 0, lgkm_ = 0, moved_ = 0;  // moved_: cycles waited in the removed events
  uint64_t waits_ = 0;
};

}  // namespace

void Traces::fold_lds(uint32_t latency) {
  if (latency == 0) return;
  for (std::vector<Event>& wave : first.waves) wave = Folding(wave, latency).run(&first.counts.lds_waits);
}

void Recorder::begin(std::vector<uint64_t> groups) {
  groups_ = std::move(groups);
  traces_.assign(groups_.size() * waves_, {});
  counts_.assign(groups_.size(), {});
  events_ = 0;
}

uint64_t Recorder::next_group(uint64_t number) const {
  auto it = std::lower_bound(groups_.begin(), groups_.end(), number);
  while (it != groups_.end() && *it % xcds_ != number % xcds_) ++it;
  return it == groups_.end() ? ~uint64_t{0} : *it;
}

uint32_t Recorder::bucket_of(uint64_t number) const {
  return static_cast<uint32_t>(std::lower_bound(groups_.begin(), groups_.end(), number) - groups_.begin());
}

void Recorder::select(const Resident& r) {
  current_ = &traces_[size_t{r.group->bucket} * waves_ + r.index];
  counting_ = &counts_[r.group->bucket];
}

size_t Recorder::Hash::operator()(const LanePattern& p) const {
  uint64_t sum = p.exec ^ p.bytes;
  for (const uint64_t apart : p.apart) sum = (sum ^ apart) * 0x9e3779b97f4a7c15ull;
  return sum;
}

void Recorder::access(Resident&, const WaveAccess& a) {
  LanePattern p{a.kind, a.contiguous, a.returns, a.streaming, a.bytes, a.exec, {}};
  const uint64_t start = a.address[std::countr_zero(a.exec)];
  for (uint32_t lane = 0; lane < kLanes && !a.contiguous; ++lane) {
    p.apart[lane] = (a.exec >> lane & 1) ? a.address[lane] - start : 0;
  }
  const auto [number, fresh] = numbers_.try_emplace(p, static_cast<uint32_t>(patterns_.size()));
  if (fresh) patterns_.push_back(p);
  if (accessed_ || patterns_.size() > kMostPatterns) refuse();
  accessed_ = true;
  amount_ = number->second;
  address_ = start;
}

void Recorder::add(Event::Kind kind, uint32_t now, uint32_t in_run) {
  if (kind == Event::Kind::vector && !accessed_) kind = Event::Kind::no_lanes;
  Event e{.kind = kind, .now = now, .executed = current_->done + in_run};
  if (kind == Event::Kind::vector || kind == Event::Kind::scalar) {
    e.amount = std::exchange(amount_, 0);
    e.address = std::exchange(address_, 0);
  }
  accessed_ = false;
  if (++events_ > kMostEvents) return refuse();
  current_->events.push_back(e);
}

void Recorder::add_instruction(Event::Kind kind, uint32_t now, uint32_t in_run, uint32_t pc) {
  add(kind, now, in_run);
  if (keeps_places_ && !refused_) current_->places.push_back({current_->events.back().executed, pc});
}

void Recorder::add_wait(WaitLimits limits, uint32_t now, uint32_t in_run) {
  add(Event::Kind::wait, now, in_run);
  if (refused_) return;
  current_->events.back().vm = static_cast<uint8_t>(limits.vm);
  current_->events.back().lgkm = static_cast<uint8_t>(limits.lgkm);
}

void Recorder::add_not_requested(const EngineCounts& after) {
  for (size_t i = 0; i < after.not_requested.size(); ++i)
    counting_->not_requested[i] += after.not_requested[i] - before_access_.not_requested[i];
}

void Recorder::add_lds(const EngineCounts& after, uint32_t now, uint32_t in_run) {
  const EngineCounts& before = before_access_;
  counting_->lds_idx_cycles += after.lds_idx_cycles - before.lds_idx_cycles;
  counting_->lds_bank_conflict += after.lds_bank_conflict - before.lds_bank_conflict;
  counting_->lds_addr_conflict += after.lds_addr_conflict - before.lds_addr_conflict;
  counting_->lds_atomic_return += after.lds_atomic_return - before.lds_atomic_return;
  std::vector<Event>& events = current_->events;
  uint32_t before_it = 0;
  if (!events.empty() && events.back().kind == Event::Kind::lds) {
    before_it = events.back().amount;
    events.pop_back();
    --events_;
  }
  add(Event::Kind::lds, now, in_run);
  if (!refused_) events.back().amount = before_it + 1;
}

std::vector<GroupTrace> Recorder::end(const std::vector<std::vector<Executed>>& executed) {
  std::vector<GroupTrace> groups;
  for (size_t bucket = 0; bucket < groups_.size() && !refused_; ++bucket) {
    GroupTrace& group = groups.emplace_back();
    group.executed = executed[bucket];
    group.counts = counts_[bucket];
    for (size_t wave = 0; wave < waves_; ++wave) {
      group.waves.push_back(std::move(traces_[bucket * waves_ + wave].events));
      if (keeps_places_) group.places.push_back(std::move(traces_[bucket * waves_ + wave].places));
    }
  }
  return groups;
}

namespace {

// Equal apart from the address of a vector memory instruction.
bool same(const Event& a, const Event& b) {
  return std::tie(a.kind, a.vm, a.lgkm, a.amount, a.now, a.executed) ==
             std::tie(b.kind, b.vm, b.lgkm, b.amount, b.now, b.executed) &&
         (a.kind == Event::Kind::vector || a.address == b.address);
}

bool same_work(const GroupTrace& a, const GroupTrace& b) {
  const auto alike = [](const Executed& x, const Executed& y) { return x.times == y.times && x.lanes == y.lanes; };
  if (!same_counts(a.counts, b.counts)) return false;
  if (!std::equal(a.executed.begin(), a.executed.end(), b.executed.begin(), alike)) return false;
  for (size_t wave = 0; wave < a.waves.size(); ++wave) {
    const std::vector<Event>&x = a.waves[wave], &y = b.waves[wave];
    if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same)) return false;
  }
  return true;
}

template <class Group, class F>
void for_accesses(Group& group, F&& f) {
  for (auto& wave : group.waves) {
    for (auto& e : wave) {
      if (e.kind == Event::Kind::vector) f(e);
    }
  }
}

// Addresses of all vector memory instructions, in order.
using Addresses = std::vector<uint64_t>;

Addresses addresses_of(const GroupTrace& group) {
  Addresses all;
  for_accesses(group, [&](const Event& e) { all.push_back(e.address); });
  return all;
}

struct Dimension {
  uint64_t extent;
  Addresses step;
};

// Finds the dimensions of the group index along which addresses change linearly.
class Search {
 public:
  Search(uint64_t total, const RecordGroups& record) : total_(total), record_(record) {}

  std::optional<Traces> run() {
    std::vector<GroupTrace> first = record({0});
    if (first.empty()) return std::nullopt;
    first_ = std::move(first[0]);
    start_ = addresses_of(first_);
    for (uint64_t stride = 1; stride < total_; stride *= dimensions_.back().extent) {
      if (dimensions_.size() == GroupIndex::kMost || !add_dimension(stride)) return std::nullopt;
    }
    return holds_everywhere() ? std::optional(result()) : std::nullopt;
  }

 private:
  std::vector<GroupTrace> record(std::vector<uint64_t> groups) {
    recorded_ += groups.size();
    return record_(std::move(groups));
  }

  // Differences of a work-group's addresses from those of the first; nullopt if it does something else.
  std::optional<Addresses> moved(uint64_t number) {
    const std::vector<GroupTrace> one = record({number});
    if (one.empty() || !same_work(one[0], first_)) return std::nullopt;
    Addresses all = addresses_of(one[0]);
    for (size_t i = 0; i < all.size(); ++i) all[i] -= start_[i];
    return all;
  }

  // Extends the next dimension as far as the addresses change linearly.
  bool add_dimension(uint64_t stride) {
    const std::optional<Addresses> step = moved(stride);
    if (!step) return false;
    const auto holds = [&](uint64_t times) {
      const std::optional<Addresses> all = moved(stride * times);
      for (size_t i = 0; all && i < all->size(); ++i) {
        if ((*all)[i] != (*step)[i] * times) return false;
      }
      return all.has_value();
    };
    uint64_t good = 1, bad = (total_ - 1) / stride + 1;
    if (bad > 2 && holds(bad - 1)) good = bad - 1;
    while (bad - good > 1) {
      const uint64_t middle = good + (bad - good) / 2;
      (holds(middle) ? good : bad) = middle;
    }
    dimensions_.push_back({good + 1, *step});
    return true;
  }

  GroupIndex group_index() const {
    GroupIndex all;
    for (size_t k = 0; k < dimensions_.size(); ++k) all.extent[k] = dimensions_[k].extent;
    return all;
  }

  // Addresses that are linear in the group index are extreme at the corners of the grid, so bounds checks hold or fail
  // there. Work-groups at random positions show whether the addresses are linear.
  std::vector<uint64_t> witnesses() const {
    std::set<uint64_t> chosen{total_ - 1};
    for (uint32_t corner = 0; corner < 1u << dimensions_.size(); ++corner) {
      uint64_t number = 0, stride = 1;
      for (size_t k = 0; k < dimensions_.size(); stride *= dimensions_[k++].extent) {
        if (corner >> k & 1) number += (dimensions_[k].extent - 1) * stride;
      }
      if (number < total_) chosen.insert(number);
    }
    for (uint64_t i = 0; i < kChosen; ++i) chosen.insert(scattered(i) % total_);
    return {chosen.begin(), chosen.end()};
  }

  bool holds_everywhere() {
    const std::vector<uint64_t> numbers = witnesses();
    const std::vector<GroupTrace> groups = record(numbers);
    if (groups.empty()) return false;
    for (size_t n = 0; n < groups.size(); ++n) {
      if (!same_work(groups[n], first_)) return false;
      const Addresses found = addresses_of(groups[n]);
      const GroupIndex::Row index = group_index().of(numbers[n]);
      for (size_t i = 0; i < found.size(); ++i) {
        uint64_t expected = start_[i];
        for (size_t k = 0; k < dimensions_.size(); ++k) expected += index[k] * dimensions_[k].step[i];
        if (found[i] != expected) return false;
      }
    }
    return true;
  }

  Traces result() {
    Traces t;
    t.group_index = group_index();
    t.recorded = recorded_;
    std::map<std::pair<uint32_t, GroupIndex::Row>, uint32_t> numbers;
    size_t access = 0;
    for_accesses(first_, [&](Event& e) {
      Traces::Site site{e.amount, {}};
      for (size_t k = 0; k < dimensions_.size(); ++k) site.step[k] = dimensions_[k].step[access];
      const auto [number, fresh] =
          numbers.try_emplace({site.pattern, site.step}, static_cast<uint32_t>(t.sites.size()));
      if (fresh) t.sites.push_back(site);
      e.amount = number->second;
      ++access;
    });
    t.first = std::move(first_);
    return t;
  }

  uint64_t total_;
  const RecordGroups& record_;
  GroupTrace first_;
  Addresses start_;
  std::vector<Dimension> dimensions_;
  uint64_t recorded_ = 0;
};

}  // namespace

std::optional<Traces> trace_grid(uint64_t total, const RecordGroups& record) { return Search(total, record).run(); }

}  // namespace hipsynth
