#include "memory/access_timing.h"

#include <algorithm>

namespace hipsynth {
namespace {

uint64_t u64(double value) { return static_cast<uint64_t>(value); }

// Core clock cycles per byte at a bandwidth; 0 if there is no such unit.
double cycles_per_byte(const Spec& spec, double gbps) { return gbps > 0 ? spec.clock.core_mhz / 1000 / gbps : 0; }

}  // namespace

AccessTiming::AccessTiming(const Spec& spec, Hierarchy& hierarchy)
    : hierarchy_(hierarchy),
      round_cycles_(u64(spec.interleave.round_cycles)),
      lines_in_flight_(u64(spec.interleave.lines_in_flight)),
      smem_cycles_(u64(spec.issue.smem_latency_cycles)),
      latency_{0, u64(spec.vl1d.latency_cycles), u64(spec.l2.latency_cycles),
               u64(spec.fabric.infinity_cache_latency_cycles), u64(spec.hbm.latency_cycles)},
      read_cycles_per_byte_(cycles_per_byte(spec, spec.hbm.read_gbps)),
      write_cycles_per_byte_(cycles_per_byte(spec, spec.hbm.write_gbps)),
      fabric_cycles_per_byte_(cycles_per_byte(spec, spec.fabric.infinity_cache_gbps)),
      look_ups_(u64(spec.topology.cus)),
      ports_(u64(spec.topology.cus)) {}

void AccessTiming::set_round(uint64_t round) {
  cycle_ = round * round_cycles_;
  hierarchy_.set_cycle(cycle_);
}

uint64_t AccessTiming::next_issue_round(uint32_t cu) {
  Port& p = ports_[cu];
  while (!p.misses_in_flight.empty() && p.misses_in_flight.front().return_cycle <= cycle_) {
    p.in_flight -= p.misses_in_flight.front().lines;
    p.misses_in_flight.pop_front();
  }
  uint64_t cycle = p.free;
  if (p.in_flight >= lines_in_flight_) cycle = std::max(cycle, p.misses_in_flight.front().return_cycle);
  return cycle / round_cycles_;
}

AccessTiming::Counts AccessTiming::read_counts(uint32_t cu) const {
  const MemoryCounts& n = hierarchy_.counts();
  return {hierarchy_.l1_cycles(cu), n.l1_read_req, n.hbm_read_bytes, n.hbm_write_bytes,
          n.fabric_reads + n.fabric_writes};
}

uint64_t AccessTiming::record_access(uint32_t cu, Level level) {
  const Counts now = read_counts(cu);
  Port& p = ports_[cu];
  vl1d_cycles_ = now.look_ups - look_ups_[cu];
  p.free = std::max(p.free, cycle_) + vl1d_cycles_;
  uint64_t back = p.free + latency_[static_cast<size_t>(level)];
  const uint64_t read = now.hbm_read - last_counts_.hbm_read, written = now.hbm_write - last_counts_.hbm_write;
  const auto start = static_cast<double>(cycle_);
  if (read + written) {
    hbm_free_ = std::max(hbm_free_, start) + static_cast<double>(read) * read_cycles_per_byte_ +
                static_cast<double>(written) * write_cycles_per_byte_;
  }
  if (now.fabric != last_counts_.fabric && fabric_cycles_per_byte_ > 0) {
    fabric_free_ = std::max(fabric_free_, start) +
                   static_cast<double>(now.fabric - last_counts_.fabric) * 64 * fabric_cycles_per_byte_;
  }
  if (level >= Level::infinity) {
    const double queue = std::max(level == Level::hbm ? hbm_free_ : 0, fabric_free_);
    back = std::max(back, static_cast<uint64_t>(queue) + latency_[static_cast<size_t>(level)]);
  }
  const uint64_t misses = now.misses - last_counts_.misses;
  if (misses) {
    if (!p.misses_in_flight.empty()) back = std::max(back, p.misses_in_flight.back().return_cycle);
    p.in_flight += misses;
    p.misses_in_flight.push_back({back, misses});
  }
  look_ups_[cu] = now.look_ups;
  last_counts_ = now;
  constexpr double kMemory = 1.0 / 64;  // weight of a new value in the running mean
  typical_ += (static_cast<double>(back - cycle_) - typical_) * kMemory;
  return round_of(back);
}

uint64_t AccessTiming::scalar_return_round(Level level) const {
  const uint64_t below = level > Level::l1 ? latency_[static_cast<size_t>(level)] : 0;
  return round_of(cycle_ + std::max(smem_cycles_, below));
}

}  // namespace hipsynth
