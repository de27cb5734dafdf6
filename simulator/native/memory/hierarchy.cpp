#include "memory/hierarchy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "memory/coalescer.h"
#include "memory/lane_keys.h"
#include "memory/load_cycles.h"

namespace hipsynth {
namespace {

constexpr uint64_t kLongAgo = 1 << 20;  // cycles between two dispatches: all requests have been answered

uint32_t u32(double value) { return static_cast<uint32_t>(value); }
uint64_t place_key(LargeCache::Place at) { return at.set << 32 | at.tag; }

}  // namespace

Hierarchy::Hierarchy(Arch arch, const Spec& spec, bool keep_l2, uint64_t moved)
    : arch_(arch),
      cus_(u32(spec.topology.cus)),
      cus_per_xcd_(cus_ / u32(spec.topology.xcds)),
      l1_line_(u32(spec.vl1d.line_bytes)),
      l2_line_(u32(spec.l2.line_bytes)),
      fill_cycles_(u32(spec.vl1d.line_bytes / spec.vl1d.bytes_per_cycle)),
      unmerged_period_(u32(spec.l2.unmerged_pair_period)),
      fabric_read_bytes_per_request_(u32(spec.fabric.read_request_bytes)),
      segments_per_l1_line_(l1_line_ / kSegmentBytes),
      segments_per_l2_line_(l2_line_ / kSegmentBytes),
      l1_lines_per_l2_line_(l2_line_ / l1_line_),
      page_lines_(u32(spec.l2.scattered_page_bytes) / l2_line_),
      scalar_line_(u32(spec.scalar.line_bytes)),
      cus_per_scalar_(u32(spec.scalar.cus)),
      merges_stores_(spec.vl1d.merges_stores != 0),
      write_back_at_end_(spec.fabric.write_back_at_end != 0),
      keep_l2_(keep_l2),
      moved_lines_(moved / l2_line_),
      arrivals_(u32(spec.topology.xcds)),
      latency_{0, u32(spec.vl1d.latency_cycles), u32(spec.l2.latency_cycles),
               u32(spec.fabric.infinity_cache_latency_cycles), u32(spec.hbm.latency_cycles)},
      channels_(u32(spec.l2.channels), u32(spec.topology.xcds), u32(spec.l2.interleave_bytes) / l2_line_) {
  const Cache::Geometry l1{u32(spec.vl1d.bytes), l1_line_, u32(spec.vl1d.ways), 0,
                           spec.vl1d.hashed != 0 ? Hash::fold : Hash::none};
  for (uint32_t i = 0; i < cus_; ++i) {
    if (WideCache::suits(l1.ways))
      wide_l1_.emplace_back(l1.bytes, l1.line_bytes, l1.ways, l1.hash);
    else
      l1_.emplace_back(l1);
  }
  const Cache::Geometry scalar{u32(spec.scalar.bytes), u32(spec.scalar.line_bytes), u32(spec.scalar.ways)};
  for (uint32_t i = 0; i < cus_; i += cus_per_scalar_.value()) scalar_.emplace_back(scalar);
  const LargeCache::Geometry l2{u32(spec.l2.bytes), l2_line_, u32(spec.l2.ways), u32(spec.l2.dirty_ways),
                                spec.l2.hashed != 0 ? Hash::fold : Hash::none};
  for (uint32_t i = 0; i < u32(spec.topology.xcds); ++i) l2_.emplace_back(l2);
  const auto infinity_bytes = static_cast<uint64_t>(spec.fabric.infinity_cache_bytes);
  if (infinity_bytes)
    infinity_ = LargeCache({infinity_bytes, l2_line_, u32(spec.fabric.infinity_cache_ways), 0, Hash::polynomial});
  l1_cycles_.assign(cus_, 0);
}

// A dispatch starts with empty vL1D and L2: recorded evictions of a second launch equal those of a cold L2, and its
// reads miss even if the data would still fit. Only the memory-side Infinity Cache keeps its lines. That is so under a
// profiler: without one, recorded times of repeated small kernels show that the L2 keeps its lines, too (keep_l2).
void Hierarchy::begin_dispatch() {
  for (Cache& c : l1_) c.invalidate();
  for (WideCache& c : wide_l1_) c.invalidate();
  for (Cache& c : scalar_) c.invalidate();
  if (!keep_l2_) empty_l2();
  early_.clear();
  std::fill(l1_cycles_.begin(), l1_cycles_.end(), 0);
  channels_.clear();
  atomic_chain_.clear();
  before_dispatch_ = cycle_ + kLongAgo;
  cycle_ = before_dispatch_;
  n_ = {};
  replaced_ = 0;
}

void Hierarchy::empty_l2() {
  for (LargeCache& c : l2_) {
    c.flush([&](uint64_t line, uint8_t sectors) {  // left dirty by the previous dispatch: written back between the two
      if (infinity_.present()) infinity_.access(line, sectors);
    });
  }
}

// Writes back every modified line. Infinity Cache tags are prefetched some lines ahead of their use.
void Hierarchy::flush_l2(LargeCache* l2) {
  constexpr size_t kAhead = 16;
  std::pair<LargeCache::Place, uint8_t> pending[kAhead];
  size_t n = 0;
  const auto drain = [&](size_t at) { write_back(pending[at % kAhead].first, pending[at % kAhead].second); };
  l2->write_back([&](uint64_t line, uint8_t sectors) {
    if (n >= kAhead) drain(n);
    const LargeCache::Place at = infinity_.place_of(line);
    if (infinity_.present()) infinity_.prefetch(at);
    if (keep_l2_) written_.push_back(line);
    pending[n++ % kAhead] = {at, sectors};
  });
  for (size_t at = n - std::min(n, kAhead); at < n; ++at) drain(at);
  if (!keep_l2_) l2->invalidate();
  n_.l2_flush_writebacks += n;
}

// What a dispatch wrote is in no L2 when the next one begins, even if the L2s keep what was only read (recorded:
// products of what another kernel wrote take as long as with an empty L2).
void Hierarchy::remove_written() {
  for (const uint64_t line : written_) {
    const LargeCache::Place at = l2_[0].place_of(line);
    for (LargeCache& c : l2_) c.remove(at);
  }
  written_.clear();
}

void Hierarchy::end_dispatch() {
  for (const uint64_t cycles : l1_cycles_) {
    n_.l1_cycles_max = std::max(n_.l1_cycles_max, cycles);
    n_.l1_cycles_sum += cycles;
  }
  n_.l2_channel_max = static_cast<uint64_t>(channels_.load().busiest);
  n_.same_address_atomics_max = longest_atomic_chain();
  counts_if_later_ = n_;
  counts_if_later_.left_bytes += modified_bytes();
  const uint64_t written = fabric_write_bytes();
  if (write_back_at_end_ || first_dispatch_) {
    for (LargeCache& c : l2_) flush_l2(&c);
  }
  if (write_back_at_end_) remove_written();
  n_.flushed_bytes = fabric_write_bytes() - written;
  n_.left_bytes += modified_bytes();
  if (write_back_at_end_) counts_if_later_ = n_;
  first_dispatch_ = false;
}

void Hierarchy::join_halves(double apart) {
  const auto joined = static_cast<uint64_t>(std::llround(static_cast<double>(n_.l2_halves) * (1 - apart)));
  n_.l2_halves -= joined;
  n_.l2_reads -= joined;
  n_.l2_hits -= joined;
}

MemoryCounts Hierarchy::dirty() const {
  Hierarchy copy(*this);
  copy.n_ = {};
  for (LargeCache& c : copy.l2_) copy.flush_l2(&c);
  copy.n_.l2_writebacks = std::exchange(copy.n_.l2_flush_writebacks, 0);
  return copy.n_;
}

// True on a hit. Modified lines of the Infinity Cache are written to the HBM when they are evicted.
bool Hierarchy::infinity_access(LargeCache::Place at, uint8_t dirty) {
  const LargeCache::Result r = infinity_.access(at, dirty);
  n_.infinity_fills += !r.hit;
  replaced_ += !r.hit;
  n_.hbm_write_bytes += static_cast<uint64_t>(std::popcount(r.written_back)) * kSectorBytes;
  return r.hit;
}

Level Hierarchy::fabric_read(uint64_t line) {
  n_.fabric_reads += l2_line_ / fabric_read_bytes_per_request_;
  if (fabric_read_bytes_per_request_ == 128) ++n_.fabric_reads_128b;
  if (infinity_.present() && infinity_access(infinity_.place_of(line), 0)) {
    ++n_.infinity_hits;
    return Level::infinity;
  }
  n_.hbm_read_bytes += l2_line_;
  return Level::hbm;
}

// Work-groups that fill the L2s have what is modified there written back first. Here it stays, since the L2s then hold
// as many modified lines as later; but in the Infinity Cache these lines are as old as they would be.
void Hierarchy::age_infinity(uint64_t lines) {
  if (!infinity_.present()) return;
  uint64_t room = 0;
  for (const LargeCache& c : l2_) room += c.lines();
  for (LargeCache& c : l2_) {
    if (lines < room) break;
    c.each_modified([&](uint64_t line, uint8_t sectors) {
      const LargeCache::Place at = infinity_.place_of(line);
      if (!early_.contains(place_key(at))) early_[place_key(at)] = !infinity_.access(at, sectors).hit;
    });
  }
  infinity_.age(lines);
}

void Hierarchy::write_back(LargeCache::Place in_infinity, uint8_t sectors) {
  const int low = sectors & 3, high = sectors >> 2;
  n_.fabric_writes += static_cast<uint64_t>((low != 0) + (high != 0));
  n_.fabric_writes_64b += static_cast<uint64_t>((low == 3) + (high == 3));
  if (const auto early = early_.find(place_key(in_infinity)); early != early_.end()) {
    n_.infinity_fills += early->second;
    replaced_ += early->second;
    early_.erase(early);
  } else if (infinity_.present()) {
    infinity_access(in_infinity, sectors);
  } else {
    n_.hbm_write_bytes += static_cast<uint64_t>(std::popcount(sectors)) * kSectorBytes;
  }
}

// Pages of contiguous virtual memory are anywhere in physical memory, and channels are chosen by a hash of the upper
// address bits: the sets that a buffer uses are pseudo-random, but the same in every run. The mapping is one to one.
// Page size zero: identity.
uint64_t Hierarchy::physical(uint64_t line) const {
  line ^= moved_lines_;
  if (page_lines_.value() == 0) return line;
  constexpr uint64_t kPageBits = 35, kMask = (1ull << kPageBits) - 1, kOdd = 0x9e3779b97f4a7c15ull;
  uint64_t page = line / page_lines_;
  for (int i = 0; i < 2; ++i) {
    page = page * kOdd & kMask;
    page ^= page >> (kPageBits + 1) / 2;
  }
  return page * page_lines_.value() + (line % page_lines_ ^ (page >> kPageBits / 2) % page_lines_);
}

void Hierarchy::await(Level level, uint64_t cycles) {
  if (cycles >= awaited_.cycles) awaited_ = {static_cast<uint32_t>(cycles), level};
}

// Any L2 gives the set and tag, since all have the same geometry.
Hierarchy::L2Line Hierarchy::line_of(uint64_t number) const {
  const uint64_t at = physical(number);
  return {at, l2_[0].place_of(at)};
}

// Prefetches the tags of a line that is about to be looked up into the host's caches.
Hierarchy::L2Line Hierarchy::announce(uint32_t xcd, uint64_t number) {
  const L2Line line = line_of(number);
  l2_[xcd].prefetch(line.place);
  return line;
}

// Prefetches the Infinity Cache's tags of the modified line that makes room for an absent one.
void Hierarchy::announce_write_back(uint32_t xcd, const L2Line& line) {
  if (!infinity_.present() || l2_[xcd].holds(line.place)) return;
  if (const auto leaving = l2_[xcd].next_write_back(line.place)) infinity_.prefetch(infinity_.place_of(*leaving));
}

// Consecutive requests to one line of the L2: the first one looks it up, the others hit. A write allocates without
// fetching; everything else fetches the whole line on a miss.
Level Hierarchy::l2_access(uint32_t xcd, L2Line line, uint8_t dirty, bool fetch, uint32_t requests) {
  channels_.add(xcd, line.physical, requests);
  const LargeCache::Result r = l2_[xcd].access(line.place, dirty);
  n_.l2_evicts += r.evicted;
  n_.l2_dirtied += static_cast<uint64_t>(std::popcount(r.dirtied));
  if (r.written_back) {
    ++n_.l2_writebacks;
    write_back(infinity_.place_of(r.written_back_line), r.written_back);
  }
  if (r.hit) {
    n_.l2_hits += requests;
    await(Level::l2, latency_[static_cast<size_t>(Level::l2)]);
    if (const auto* coming = arrivals_[xcd].find(line.physical, cycle_))
      await(static_cast<Level>(coming->level), coming->cycle - cycle_);
    return Level::l2;
  }
  ++n_.l2_misses;
  n_.l2_hits += requests - 1;
  if (!fetch) return Level::l2;
  const Level level = fabric_read(line.physical);
  const uint32_t cycles = latency_[static_cast<size_t>(level)];
  await(level, cycles);
  arrivals_[xcd].add(line.physical, cycle_ + cycles, level);
  return level;
}

struct Hierarchy::Wanted {
  explicit Wanted(uint32_t bytes) : lane_bytes(bytes) {}
  uint32_t lane_bytes, n = 0;
  uint64_t mergeable = ~0ull;  // the L2 line requested last, if only half of it was requested
  L2Line lines[kMaxSegments];
};

// Looks a line up in the vL1D and adds the L2 request of a miss to `wanted`.
void Hierarchy::load_line(uint32_t cu, uint32_t xcd, uint64_t line, Wanted* wanted) {
  if (wide_l1_.empty() ? l1_[cu].access(line).hit : wide_l1_[cu].access(line)) return;
  ++n_.l1_read_req;
  const uint64_t l2_line = line / l1_lines_per_l2_line_;
  if (l2_line == wanted->mergeable) {  // the other half of the previous line: usually one L2 request for both
    wanted->mergeable = ~0ull;
    if (wanted->lane_bytes <= 4 || unmerged_period_ == 0 || ++unmerged_phase_ % unmerged_period_ != 0) return;
    ++n_.l2_halves;
  } else {
    wanted->mergeable = l2_line;
  }
  const L2Line& asked = wanted->lines[wanted->n++] = announce(xcd, l2_line);
  arrivals_[xcd].prefetch(asked.physical);
}

void Hierarchy::shape(const WaveAccess& a, LoadShape* shape) const {
  shape->bytes = a.bytes;
  if (a.contiguous) {
    shape->look_ups = look_ups_contiguous(a.address[0], a.bytes);
    shape->cycles = contiguous_load_cycles(a.bytes);
    const SegmentRange s = segments_contiguous(a.address[0], a.bytes);
    shape->n = static_cast<uint32_t>(s.last / segments_per_l1_line_ - s.first / segments_per_l1_line_ + 1);
    for (uint32_t i = 0; i < shape->n; ++i) shape->line[i] = i;
    return;
  }
  const auto first = static_cast<int64_t>(a.address[std::countr_zero(a.exec)] / kSegmentBytes / segments_per_l1_line_);
  uint64_t segments[kMaxSegments];
  shape->look_ups = look_ups(a.address, a.exec, a.bytes, segments);
  shape->cycles = scattered_load_cycles(a.address, a.exec, a.bytes);
  shape->n = 0;
  for (uint32_t i = 0; i < shape->look_ups; ++i) {
    const int64_t line = static_cast<int64_t>(segments[i] / segments_per_l1_line_) - first;
    // Otherwise the line is still in the look-up pipeline: a hit.
    if (shape->n == 0 || line != shape->line[shape->n - 1]) shape->line[shape->n++] = line;
  }
}

Level Hierarchy::load(uint32_t cu, const LoadShape& shape, uint64_t first_address) {
  awaited_ = {latency_[static_cast<size_t>(Level::l1)], Level::l1};
  const uint32_t xcd = cu / cus_per_xcd_;
  Wanted wanted(shape.bytes);
  n_.l1_lookups += shape.look_ups;
  const uint64_t first = first_address / kSegmentBytes / segments_per_l1_line_;
  const uint64_t asked = n_.l1_read_req;
  for (uint32_t i = 0; i < shape.n; ++i) load_line(cu, xcd, first + static_cast<uint64_t>(shape.line[i]), &wanted);
  l1_cycles_[cu] += std::max<uint64_t>(shape.cycles, (n_.l1_read_req - asked) * fill_cycles_);
  n_.l1_accesses += accesses(shape.bytes);
  n_.l1_reads += accesses(shape.bytes);
  n_.l2_reads += wanted.n;
  Level deepest = Level::l1;
  if (infinity_.present()) {
    for (uint32_t i = 0; i < wanted.n; ++i) {
      const L2Line& line = wanted.lines[i];
      if (l2_[xcd].holds(line.place)) continue;
      infinity_.prefetch(infinity_.place_of(line.physical));
      if (const auto leaving = l2_[xcd].next_write_back(line.place)) infinity_.prefetch(infinity_.place_of(*leaving));
    }
  }
  for (uint32_t i = 0; i < wanted.n; ++i) deepest = std::max(deepest, l2_access(xcd, wanted.lines[i], 0, true));
  return deepest;
}

// Atomics execute in the L2. Lanes with the same address leave the vL1D one after the other (recorded: 64 lanes to one
// address are 64 requests); distinct addresses of a segment travel together.
Level Hierarchy::atomic(uint32_t cu, const WaveAccess& a) {
  const uint32_t xcd = cu / cus_per_xcd_;
  struct Segment {
    uint32_t requests;
    uint8_t sectors;
  };
  LaneKeys addresses, numbers;
  uint32_t repeats[LaneKeys::kMost] = {};
  Segment segments[LaneKeys::kMost] = {};
  for (uint64_t rest = a.exec; rest; rest &= rest - 1) {
    const uint64_t address = a.address[std::countr_zero(rest)];
    const uint32_t repeat = ++repeats[addresses.number(address)];
    Segment& segment = segments[numbers.number(address / kSegmentBytes)];
    segment.requests = std::max(segment.requests, repeat);
    segment.sectors |= static_cast<uint8_t>(1u << (address / kSectorBytes & 1));
  }
  Level deepest = Level::l2;
  uint64_t requests = 0;
  for (uint32_t s = 0; s < numbers.size(); ++s) {
    requests += segments[s].requests;
    const uint64_t number = numbers.key(s), line = number / segments_per_l2_line_;
    const auto dirty = static_cast<uint8_t>(segments[s].sectors << 2 * (number % segments_per_l2_line_));
    deepest = std::max(deepest, l2_access(xcd, line_of(line), dirty, true, segments[s].requests));
    atomic_chain_[line] += segments[s].requests;
  }
  n_.l1_accesses += 64;
  n_.l2_atomics += requests;
  n_.l1_lookups += requests;
  l1_cycles_[cu] += std::max<uint64_t>(requests, 1);
  (a.returns ? n_.l1_atomics_ret : n_.l1_atomics_noret) += 64;
  (a.returns ? n_.l1_atomic_ret_req : n_.l1_atomic_noret_req) += requests;
  return deepest;
}

Level Hierarchy::load_lanes(uint32_t cu, const WaveAccess& a) {
  const uint64_t first = a.address[std::countr_zero(a.exec)];
  if (a.contiguous) {
    LoadShape coalesced;
    shape(a, &coalesced);
    return load(cu, coalesced, first);
  }
  const auto start = static_cast<uint32_t>(first % l1_line_);
  return load(cu, shapes_.of(a, start, [&](LoadShape* coalesced) { shape(a, coalesced); }), first);
}

Level Hierarchy::access(uint32_t cu, const WaveAccess& a) {
  awaited_ = {latency_[static_cast<size_t>(Level::l1)], Level::l1};
  switch (a.kind) {
    case Access::load:
      return load_lanes(cu, a);
    case Access::store:
      return store(cu, a);
    default:
      return atomic(cu, a);
  }
}

Level Hierarchy::scalar(uint32_t cu, uint64_t address, uint32_t bytes) {
  Level deepest = Level::l1;
  for (uint64_t line = address / scalar_line_; line <= (address + bytes - 1) / scalar_line_; ++line) {
    ++n_.scalar_requests;
    if (scalar_[cu / cus_per_scalar_].access(line).hit) {
      ++n_.scalar_hits;
      continue;
    }
    ++n_.scalar_misses;
    ++n_.l2_reads;
    deepest = std::max(deepest, l2_access(cu / cus_per_xcd_, line_of(line * scalar_line_.value() / l2_line_), 0, true));
  }
  return deepest;
}

void Hierarchy::invalidate_l1(uint32_t cu) {
  ++n_.l1_invalidates;
  if (wide_l1_.empty())
    l1_[cu].invalidate();
  else
    wide_l1_[cu].invalidate();
}

}  // namespace hipsynth
