#include "core/spec.h"

#include <algorithm>

namespace hipsynth {

const std::vector<std::string>& spec_keys() {
  static const std::vector<std::string> keys = {
      "topology.xcds",
      "topology.cus",
      "topology.simds_per_cu",
      "topology.waves_per_simd",
      "topology.vgprs_per_simd",
      "topology.vgpr_granule",
      "topology.sgprs_per_simd",
      "topology.workgroups_per_cu",
      "clock.core_mhz",
      "clock.memory_mhz",
      "clock.vector_mhz",
      "clock.f64_mhz",
      "clock.matrix_mhz",
      "clock.realtime_mhz",
      "lds.bytes_per_cu",
      "lds.banks",
      "lds.allocation_granule",
      "scalar.bytes",
      "scalar.line_bytes",
      "scalar.ways",
      "scalar.cus",
      "vl1d.bytes",
      "vl1d.line_bytes",
      "vl1d.ways",
      "vl1d.hashed",
      "vl1d.latency_cycles",
      "vl1d.bytes_per_cycle",
      "l2.bytes",
      "l2.line_bytes",
      "l2.ways",
      "l2.dirty_ways",
      "l2.hashed",
      "l2.scattered_page_bytes",
      "l2.channels",
      "l2.interleave_bytes",
      "l2.bytes_per_cycle_per_channel",
      "l2.latency_cycles",
      "l2.cycles_per_request",
      "l2.turn_cycles",
      "l2.store_latency_cycles",
      "l2.transfer_latency_cycles",
      "l2.unmerged_pair_period",
      "l2.same_line_atomic_ns",
      "fabric.read_request_bytes",
      "fabric.write_back_at_end",
      "fabric.infinity_cache_bytes",
      "fabric.infinity_cache_ways",
      "fabric.infinity_cache_gbps",
      "fabric.infinity_cache_latency_cycles",
      "hbm.bytes",
      "hbm.peak_gbps",
      "hbm.read_gbps",
      "hbm.write_gbps",
      "hbm.latency_cycles",
      "issue.valu_cycles",
      "issue.f64_cycles",
      "issue.trans_cycles",
      "issue.int64_mul_cycles",
      "issue.salu_cycles",
      "issue.smem_latency_cycles",
      "issue.lds_latency_cycles",
      "issue.wave_cycles",
      "issue.dispatch_cycles",
      "issue.group_dispatch_cycles",
      "issue.wave_launch_cycles",
      "issue.wave_start_cycles",
      "issue.launch_ns",
      "issue.chained_launch_ns",
      "issue.event_ns",
      "host.copy_ns",
      "interleave.groups_per_round",
      "interleave.round_cycles",
      "interleave.lines_in_flight",
      "timing.halves_apart",
      "timing.overlap_norm",
      "timing.queueing_norm",
  };
  return keys;
}

void check_spec(const SpecTable& spec) {
  std::string wrong;
  for (const std::string& key : spec_keys()) {
    if (!spec.count(key)) wrong += "\n  missing: " + key;
  }
  for (const auto& [key, value] : spec) {
    if (std::find(spec_keys().begin(), spec_keys().end(), key) == spec_keys().end()) wrong += "\n  unknown: " + key;
  }
  if (!wrong.empty()) throw SimError("bad_spec", "architecture table does not fit the simulator core:" + wrong);
  if (spec.at("topology.xcds") < 1 || spec.at("topology.cus") < spec.at("topology.xcds"))
    throw SimError("bad_spec", "architecture table: no compute units");
}

}  // namespace hipsynth
