#include "memory/hierarchy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "memory/coalescer.h"
#include "memory/load_cycles.h"

namespace hipsynth {
namespace {

constexpr uint32_t kScalarLine = 64;
constexpr uint32_t kScalarWays = 4;
constexpr uint32_t kCusPerScalarCache = 2;  // both ISA guides: a scalar data cache is shared between neighbouring CUs
constexpr uint32_t kInfinityWays = 16;
constexpr uint64_t kLongAgo = 1 << 20;  // cycles, between two dispatches: all that was asked for has arrived
constexpr uint8_t kSectorBytes = 32;    // granularity of fabric writes

// TCP_TOTAL_ACCESSES of one instruction, whatever EXEC: four per group of lanes that the vL1D takes at a time
// (recorded: 64 for 8-byte loads and stores, 16 for loads of a dword or less).
uint32_t accesses(uint32_t lane_bytes) { return 4 * 64 / group_lanes(lane_bytes); }

uint32_t u32(const SpecTable& spec, const char* key) { return static_cast<uint32_t>(spec.at(key)); }

// The 32-byte sectors of a 64-byte segment that a store writes.
uint8_t touched_sectors(const WaveAccess& a, uint64_t segment) {
  if (a.contiguous) return 3;
  uint8_t touched = 0;
  for (uint64_t rest = a.exec; rest && touched != 3; rest &= rest - 1) {
    const uint64_t first = a.address[std::countr_zero(rest)], last = first + a.bytes - 1;
    if (first / kSegmentBytes > segment || last / kSegmentBytes < segment) continue;
    const uint64_t low = std::max(first, segment * kSegmentBytes);
    const uint64_t high = std::min(last, segment * kSegmentBytes + kSegmentBytes - 1);
    touched |= static_cast<uint8_t>(1u << (low / kSectorBytes & 1) | 1u << (high / kSectorBytes & 1));
  }
  return touched;
}

}  // namespace

Hierarchy::Hierarchy(Arch arch, const SpecTable& spec)
    : arch_(arch),
      cus_(u32(spec, "topology.cus")),
      cus_per_xcd_(cus_ / u32(spec, "topology.xcds")),
      l1_line_(u32(spec, "vl1d.line_bytes")),
      l2_line_(u32(spec, "l2.line_bytes")),
      unmerged_period_(u32(spec, "l2.unmerged_pair_period")),
      fabric_read_bytes_per_request_(u32(spec, "fabric.read_request_bytes")),
      page_lines_(u32(spec, "l2.scattered_page_bytes") / l2_line_),
      write_back_at_end_(spec.at("fabric.write_back_at_end") != 0),
      arrivals_(u32(spec, "topology.xcds")),
      latency_{0, u32(spec, "vl1d.latency_cycles"), u32(spec, "l2.latency_cycles"),
               u32(spec, "fabric.infinity_cache_latency_cycles"), u32(spec, "hbm.latency_cycles")},
      channels_(u32(spec, "l2.channels")),
      lines_per_channel_turn_(u32(spec, "l2.interleave_bytes") / l2_line_),
      hashed_(spec.at("l2.hashed") != 0) {
  const Cache::Geometry l1{u32(spec, "vl1d.bytes"), l1_line_, u32(spec, "vl1d.ways"), 0, spec.at("vl1d.hashed") != 0};
  for (uint32_t i = 0; i < cus_; ++i) {
    if (WideCache::suits(l1.ways))
      wide_l1_.emplace_back(l1.bytes, l1.line_bytes, l1.ways, l1.hashed);
    else
      l1_.emplace_back(l1);
  }
  const Cache::Geometry scalar{u32(spec, "scalar.bytes"), kScalarLine, kScalarWays, 0, false};
  for (uint32_t i = 0; i < cus_; i += kCusPerScalarCache) scalar_.emplace_back(scalar);
  const LargeCache::Geometry l2{u32(spec, "l2.bytes"), l2_line_, u32(spec, "l2.ways"), u32(spec, "l2.dirty_ways"),
                                spec.at("l2.hashed") != 0};
  for (uint32_t i = 0; i < u32(spec, "topology.xcds"); ++i) l2_.emplace_back(l2);
  const auto infinity_bytes = static_cast<uint64_t>(spec.at("fabric.infinity_cache_bytes"));
  if (infinity_bytes) infinity_ = LargeCache({infinity_bytes, l2_line_, kInfinityWays, 0, true});
  l1_cycles_.assign(cus_, 0);
  channel_requests_.assign(size_t{channels_} * u32(spec, "topology.xcds"), 0);
}

// A dispatch starts with empty vL1D and L2: recorded evictions of a second launch equal those of a cold L2, and its
// reads miss even where the data would still fit. Only the memory-side Infinity Cache keeps its lines.
void Hierarchy::begin_dispatch() {
  for (Cache& c : l1_) c.invalidate();
  for (WideCache& c : wide_l1_) c.invalidate();
  for (Cache& c : scalar_) c.invalidate();
  for (LargeCache& c : l2_) {
    c.flush([&](uint64_t line, uint8_t sectors) {  // left dirty by the previous dispatch: written between the two
      if (infinity_.present()) infinity_.access(line, sectors);
    });
  }
  std::fill(l1_cycles_.begin(), l1_cycles_.end(), 0);
  std::fill(channel_requests_.begin(), channel_requests_.end(), 0);
  atomic_chain_.clear();
  before_dispatch_ = cycle_ + kLongAgo;
  cycle_ = before_dispatch_;
  n_ = {};
}

// Writes back every modified line. Tags of the Infinity Cache are asked for some lines ahead of their use.
void Hierarchy::flush_l2(LargeCache* l2) {
  constexpr size_t kAhead = 16;
  std::pair<uint64_t, uint8_t> pending[kAhead];
  size_t n = 0;
  const auto drain = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) write_back(pending[i % kAhead].first, pending[i % kAhead].second);
  };
  l2->flush([&](uint64_t line, uint8_t sectors) {
    if (n >= kAhead) drain(n - kAhead, n - kAhead + 1);
    if (infinity_.present()) infinity_.prefetch(line);
    pending[n++ % kAhead] = {line, sectors};
  });
  drain(n - std::min(n, kAhead), n);
  n_.l2_flush_writebacks += n;
}

void Hierarchy::end_dispatch() {
  const uint64_t written = fabric_write_bytes();
  if (write_back_at_end_ || first_dispatch_) {
    for (LargeCache& c : l2_) flush_l2(&c);
  }
  first_dispatch_ = false;
  n_.flushed_bytes = fabric_write_bytes() - written;
  for (const uint64_t cycles : l1_cycles_) {
    n_.l1_cycles_max = std::max(n_.l1_cycles_max, cycles);
    n_.l1_cycles_sum += cycles;
  }
  n_.l2_channel_max = *std::max_element(channel_requests_.begin(), channel_requests_.end());
  n_.same_address_atomics_max = longest_atomic_chain();
}

void Hierarchy::join_halves(double apart) {
  const auto joined = static_cast<uint64_t>(std::llround(static_cast<double>(n_.l2_halves) * (1 - apart)));
  n_.l2_halves -= joined;
  n_.l2_reads -= joined;
  n_.l2_hits -= joined;
}

uint64_t Hierarchy::longest_atomic_chain() const {
  uint64_t longest = 0;
  for (const auto& [address, length] : atomic_chain_) longest = std::max(longest, length);
  return longest;
}

MemoryCounts Hierarchy::dirty() const {
  Hierarchy copy(*this);
  copy.n_ = {};
  for (LargeCache& c : copy.l2_) copy.flush_l2(&c);
  copy.n_.l2_writebacks = std::exchange(copy.n_.l2_flush_writebacks, 0);
  return copy.n_;
}

// True on a hit. What the Infinity Cache holds modified reaches the HBM when it has to make room.
bool Hierarchy::infinity_access(uint64_t line, uint8_t dirty) {
  const LargeCache::Result r = infinity_.access(line, dirty);
  n_.infinity_fills += !r.hit;
  n_.hbm_write_bytes += static_cast<uint64_t>(std::popcount(r.written_back)) * kSectorBytes;
  return r.hit;
}

Level Hierarchy::fabric_read(uint64_t line) {
  n_.fabric_reads += l2_line_ / fabric_read_bytes_per_request_;
  if (fabric_read_bytes_per_request_ == 128) ++n_.fabric_reads_128b;
  if (infinity_.present() && infinity_access(line, 0)) {
    ++n_.infinity_hits;
    return Level::infinity;
  }
  n_.hbm_read_bytes += l2_line_;
  return Level::hbm;
}

void Hierarchy::write_back(uint64_t line, uint8_t sectors) {
  for (const uint8_t half : {static_cast<uint8_t>(sectors & 3), static_cast<uint8_t>(sectors >> 2)}) {
    n_.fabric_writes += half != 0;
    n_.fabric_writes_64b += half == 3;
  }
  if (infinity_.present()) {
    infinity_access(line, sectors);
  } else {
    n_.hbm_write_bytes += static_cast<uint64_t>(std::popcount(sectors)) * kSectorBytes;
  }
}

// Channels take turns every interleave; where the sets are hashed the channels are too.
uint64_t& Hierarchy::channel(uint32_t xcd, uint64_t line) {
  uint64_t turn = line / lines_per_channel_turn_;
  if (hashed_) turn ^= turn >> 5 ^ turn >> 10 ^ turn >> 15;
  return channel_requests_[xcd * channels_ + turn % channels_];
}

// Pages of contiguous virtual memory lie anywhere in physical memory, and channels are chosen by a hash of the upper
// address bits: which sets a buffer uses is a matter of chance, the same in every run. One to one. Zero: in order.
uint64_t Hierarchy::physical(uint64_t line) const {
  if (page_lines_ == 0) return line;
  constexpr uint64_t kPageBits = 35, kMask = (1ull << kPageBits) - 1, kOdd = 0x9e3779b97f4a7c15ull;
  uint64_t page = line / page_lines_;
  for (int i = 0; i < 2; ++i) {
    page = page * kOdd & kMask;
    page ^= page >> (kPageBits + 1) / 2;
  }
  return page * page_lines_ + (line % page_lines_ ^ (page >> kPageBits / 2) % page_lines_);
}

void Hierarchy::await(Level level, uint64_t cycles) {
  if (cycles >= awaited_.cycles) awaited_ = {static_cast<uint32_t>(cycles), level};
}

// One request to the L2. A write allocates without fetching; everything else fetches the whole line on a miss.
Level Hierarchy::l2_access(uint32_t xcd, uint64_t line, uint8_t dirty, bool fetch) {
  ++channel(xcd, line);
  line = physical(line);
  const LargeCache::Result r = l2_[xcd].access(line, dirty);
  if (r.evicted) ++n_.l2_evicts;
  if (r.written_back) {
    ++n_.l2_writebacks;
    write_back(r.written_back_line, r.written_back);
  }
  if (r.hit) {
    ++n_.l2_hits;
    await(Level::l2, latency_[static_cast<size_t>(Level::l2)]);
    if (const auto* coming = arrivals_[xcd].find(line, cycle_))
      await(static_cast<Level>(coming->level), coming->cycle - cycle_);
    return Level::l2;
  }
  ++n_.l2_misses;
  if (!fetch) return Level::l2;
  const Level level = fabric_read(line);
  const uint32_t cycles = latency_[static_cast<size_t>(level)];
  await(level, cycles);
  arrivals_[xcd].add(line, cycle_ + cycles, level);
  return level;
}

// True on a hit.
bool Hierarchy::l1_access(uint32_t cu, uint64_t line) {
  return wide_l1_.empty() ? l1_[cu].access(line).hit : wide_l1_[cu].access(line);
}

Level Hierarchy::load_segments(uint32_t cu, const uint64_t* segments, uint32_t n, uint32_t lane_bytes) {
  const uint32_t xcd = cu / cus_per_xcd_;
  const uint64_t per_line = l1_line_ / kSegmentBytes, lines_per_l2 = l2_line_ / l1_line_;
  uint64_t last_line = ~0ull, mergeable = ~0ull, wanted[kMaxSegments];
  uint32_t wants = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint64_t line = segments[i] / per_line;
    if (line == last_line) continue;  // still in the look-up pipeline's hand: a hit
    last_line = line;
    if (l1_access(cu, line)) continue;
    ++n_.l1_read_req;
    const uint64_t l2_line = line / lines_per_l2;
    if (l2_line == mergeable) {  // the other half of the line just asked for: usually one L2 request for both
      mergeable = ~0ull;
      if (lane_bytes <= 4 || unmerged_period_ == 0 || ++unmerged_phase_ % unmerged_period_ != 0) continue;
      ++n_.l2_halves;
    } else {
      mergeable = l2_line;
    }
    const uint64_t place = physical(l2_line);
    l2_[xcd].prefetch(place);
    arrivals_[xcd].prefetch(place);
    if (infinity_.present()) infinity_.prefetch(place);
    wanted[wants++] = l2_line;
  }
  n_.l2_reads += wants;
  Level deepest = Level::l1;
  for (uint32_t i = 0; i < wants; ++i) deepest = std::max(deepest, l2_access(xcd, wanted[i], 0, true));
  return deepest;
}

Level Hierarchy::load(uint32_t cu, const WaveAccess& a) {
  uint64_t segments[kMaxSegments];
  const uint32_t n = a.contiguous ? look_ups_contiguous(a.address[0], a.bytes, segments)
                                  : look_ups(a.address, a.exec, a.bytes, segments);
  n_.l1_lookups += n;
  n_.l1_accesses += accesses(a.bytes);
  n_.l1_reads += accesses(a.bytes);
  l1_cycles_[cu] += a.contiguous ? contiguous_load_cycles(a.bytes) : scattered_load_cycles(a.address, a.exec, a.bytes);
  return load_segments(cu, segments, n, a.bytes);
}

// Requests in a row to one line: the first one looks it up, the others find it where the first has left it.
void Hierarchy::write_line(uint32_t xcd, const Written& w) {
  if (w.requests == 0) return;
  l2_access(xcd, w.line, w.sectors, false);
  n_.l2_hits += w.requests - 1;
  channel(xcd, w.line) += w.requests - 1;
}

// What a streaming store writes to a line that the L2 does not hold goes on to memory, together with the request that
// follows when it writes the line's other sectors.
void Hierarchy::stream(uint32_t xcd, uint64_t line, uint8_t sectors, Written* passing) {
  if (passing->requests && line == passing->line && !(passing->sectors & sectors)) {
    ++n_.l2_hits;
    passing->sectors |= sectors;
    return;
  }
  pass_through(passing);
  if (l2_[xcd].holds(physical(line))) {
    l2_access(xcd, line, sectors, false);
    return;
  }
  ++n_.l2_misses;
  n_.l2_evicts += l2_[xcd].take_oldest(physical(line));
  *passing = {line, sectors, 1};
}

void Hierarchy::pass_through(Written* passing) {
  if (passing->requests) write_back(physical(passing->line), passing->sectors);
  passing->requests = 0;
}

// The vL1D writes through, without allocating: neighbouring look-ups of one 64-byte segment leave as one request.
Level Hierarchy::store(uint32_t cu, const WaveAccess& a) {
  const uint32_t xcd = cu / cus_per_xcd_;
  uint64_t segments[kMaxSegments];
  const uint32_t n = a.contiguous ? look_ups_contiguous(a.address[0], a.bytes, segments)
                                  : look_ups(a.address, a.exec, a.bytes, segments);
  n_.l1_lookups += n;
  n_.l1_accesses += accesses(a.bytes);
  n_.l1_writes += accesses(a.bytes);
  l1_cycles_[cu] += std::max(n, 1u);
  const uint64_t per_line = l2_line_ / kSegmentBytes;
  for (uint32_t i = 0; i < n; i += 2) l2_[xcd].prefetch(physical(segments[i] / per_line));
  Written last;
  for (uint32_t i = 0; i < n; ++i) {
    if (i > 0 && segments[i] == segments[i - 1]) continue;
    ++n_.l1_write_req;
    ++n_.l2_writes;
    const uint64_t line = segments[i] / per_line;
    const auto sectors = static_cast<uint8_t>(touched_sectors(a, segments[i]) << 2 * (segments[i] % per_line));
    if (a.streaming) {
      stream(xcd, line, sectors, &last);
    } else if (last.requests && line == last.line) {
      last.sectors |= sectors;
      ++last.requests;
    } else {
      write_line(xcd, last);
      last = {line, sectors, 1};
    }
  }
  if (a.streaming)
    pass_through(&last);
  else
    write_line(xcd, last);
  return Level::l2;
}

// Atomics are done by the L2. Lanes that hit one address leave the vL1D one after the other (recorded: 64 lanes to one
// address are 64 requests); distinct addresses of a segment travel together.
Level Hierarchy::atomic(uint32_t cu, const WaveAccess& a) {
  const uint32_t xcd = cu / cus_per_xcd_;
  struct Segment {
    uint64_t number;
    uint32_t requests;
    uint8_t sectors;
  };
  Segment segments[64];
  uint32_t n = 0;
  uint64_t seen[64];
  uint32_t repeats[64], lanes = 0;
  for (uint64_t rest = a.exec; rest; rest &= rest - 1) {
    const uint64_t address = a.address[std::countr_zero(rest)], number = address / kSegmentBytes;
    uint32_t repeat = 1;
    for (uint32_t i = 0; i < lanes; ++i) {
      if (seen[i] == address) {
        repeat = ++repeats[i];
        break;
      }
    }
    if (repeat == 1) {
      seen[lanes] = address;
      repeats[lanes++] = 1;
    }
    uint32_t s = 0;
    while (s < n && segments[s].number != number) ++s;
    if (s == n) segments[n++] = {number, 0, 0};
    segments[s].requests = std::max(segments[s].requests, repeat);
    segments[s].sectors |= static_cast<uint8_t>(1u << (address / kSectorBytes & 1));
  }
  Level deepest = Level::l2;
  uint64_t requests = 0;
  const uint64_t per_line = l2_line_ / kSegmentBytes;
  for (uint32_t s = 0; s < n; ++s) {
    requests += segments[s].requests;
    const auto dirty = static_cast<uint8_t>(segments[s].sectors << 2 * (segments[s].number % per_line));
    const uint64_t line = segments[s].number / per_line;
    deepest = std::max(deepest, l2_access(xcd, line, dirty, true));
    n_.l2_hits += segments[s].requests - 1;  // the line is there now
    channel(xcd, line) += segments[s].requests - 1;
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

Level Hierarchy::access(uint32_t cu, const WaveAccess& a) {
  awaited_ = {latency_[static_cast<size_t>(Level::l1)], Level::l1};
  switch (a.kind) {
    case Access::load:
      return load(cu, a);
    case Access::store:
      return store(cu, a);
    default:
      return atomic(cu, a);
  }
}

Level Hierarchy::scalar(uint32_t cu, uint64_t address, uint32_t bytes) {
  Level deepest = Level::l1;
  for (uint64_t line = address / kScalarLine; line <= (address + bytes - 1) / kScalarLine; ++line) {
    ++n_.scalar_requests;
    if (scalar_[cu / kCusPerScalarCache].access(line).hit) {
      ++n_.scalar_hits;
      continue;
    }
    ++n_.scalar_misses;
    ++n_.l2_reads;
    deepest = std::max(deepest, l2_access(cu / cus_per_xcd_, line / (l2_line_ / kScalarLine), 0, true));
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

uint64_t Hierarchy::fabric_read_bytes() const {
  const MemoryCounts& n = n_;
  return n.fabric_reads_128b * 128 + (n.fabric_reads - n.fabric_reads_128b - n.fabric_reads_32b) * 64 +
         n.fabric_reads_32b * 32;
}

uint64_t Hierarchy::fabric_write_bytes() const {
  return n_.fabric_writes_64b * 64 + (n_.fabric_writes - n_.fabric_writes_64b) * 32;
}

void Hierarchy::counters(std::map<std::string, double>* out) const {
  auto& c = *out;
  const MemoryCounts& n = n_;
  const auto set = [&](const char* name, uint64_t v) { c[name] = static_cast<double>(v); };
  set("TCP_TOTAL_CACHE_ACCESSES", n.l1_lookups);
  set("TCP_TOTAL_ACCESSES", n.l1_accesses);
  set("TCP_TOTAL_READ", n.l1_reads);
  set("TCP_TOTAL_WRITE", n.l1_writes);
  set("TCP_TOTAL_ATOMIC_WITH_RET", n.l1_atomics_ret);
  set("TCP_TOTAL_ATOMIC_WITHOUT_RET", n.l1_atomics_noret);
  set("TCP_TCC_READ_REQ", n.l1_read_req);
  set("TCP_TCC_WRITE_REQ", n.l1_write_req);
  set("TCP_TCC_ATOMIC_WITH_RET_REQ", n.l1_atomic_ret_req);
  set("TCP_TCC_ATOMIC_WITHOUT_RET_REQ", n.l1_atomic_noret_req);
  set("TCC_READ", n.l2_reads);
  set("TCC_WRITE", n.l2_writes);
  set("TCC_ATOMIC", n.l2_atomics);
  set("TCC_REQ", n.l2_reads + n.l2_writes + n.l2_atomics);
  set("TCC_HIT", n.l2_hits);
  set("TCC_MISS", n.l2_misses);
  set("TCC_NORMAL_EVICT", n.l2_evicts);
  set("TCC_NORMAL_WRITEBACK", n.l2_writebacks);
  set("TCC_ALL_TC_OP_WB_WRITEBACK", n.l2_flush_writebacks);
  set("TCC_WRITEBACK", n.l2_writebacks + n.l2_flush_writebacks);
  set("SQC_DCACHE_REQ", n.scalar_requests);
  set("SQC_DCACHE_HITS", n.scalar_hits);
  set("SQC_DCACHE_MISSES", n.scalar_misses);
  const std::string ea = arch_ == Arch::gfx90a ? "TCC_EA_" : "TCC_EA0_";
  set((ea + "RDREQ").c_str(), n.fabric_reads);
  set((ea + "RDREQ_32B").c_str(), n.fabric_reads_32b);
  set((ea + "WRREQ").c_str(), n.fabric_writes);
  set((ea + "WRREQ_64B").c_str(), n.fabric_writes_64b);
  if (arch_ == Arch::gfx942) set("TCC_BUBBLE", n.fabric_reads_128b);
  c["FETCH_SIZE"] = static_cast<double>(fabric_read_bytes()) / 1024;  // KiB, as the profiler's derived counters
  c["WRITE_SIZE"] = static_cast<double>(fabric_write_bytes()) / 1024;
}

}  // namespace hipsynth
