#include "timing/model.h"

#include <algorithm>
#include <cmath>

namespace hipsynth {
namespace {

struct Machine {
  const SpecTable& s;
  double at(const char* key) const { return s.at(key); }
  double ns_per_cycle() const { return 1000.0 / s.at("clock.core_mhz"); }
};

// The busiest CU's share of the work: with G equal groups on N CUs, one CU gets ceil(G / N).
double busiest_share(double groups, double cus) { return std::ceil(groups / cus) / groups; }

double valu_cycles(const Machine& m, const IssueCounts& i) {
  const auto n = [&](Rate r) { return static_cast<double>(i.valu_by_rate[static_cast<size_t>(r)]); };
  return (n(Rate::full) + n(Rate::none)) * m.at("issue.valu_cycles") + n(Rate::trans) * m.at("issue.trans_cycles") +
         n(Rate::f64) * m.at("issue.f64_cycles") + n(Rate::int64_mul) * m.at("issue.int64_mul_cycles");
}

// Cycles that one average wave spends waiting for answers, one dependent round trip after the other, plus its own
// issue.
double wave_cycles(const Machine& m, const TimingInput& in, double issue_cycles) {
  const EngineCounts& e = *in.engine;
  const double level[5] = {0, m.at("vl1d.latency_cycles"), m.at("l2.latency_cycles"),
                           m.at("fabric.infinity_cache_latency_cycles"), m.at("hbm.latency_cycles")};
  double cycles = static_cast<double>(e.lds_waits) * m.at("issue.lds_latency_cycles");
  for (int i = 0; i < 5; ++i) {
    cycles += static_cast<double>(e.vm_waits[i]) * level[i];
    cycles +=
        static_cast<double>(e.smem_waits[i]) * std::max(m.at("issue.smem_latency_cycles"), i > 1 ? level[i] : 0.0);
  }
  return (cycles + issue_cycles) / static_cast<double>(e.waves) + m.at("issue.wave_start_cycles");
}

std::map<std::string, double> memory_bounds(const Machine& m, const TimingInput& in) {
  std::map<std::string, double> ns;
  if (!in.hierarchy) return ns;
  const MemoryCounts& n = in.hierarchy->counts();
  ns["vl1d"] = static_cast<double>(n.l1_cycles_max) * m.ns_per_cycle();
  const double requests = static_cast<double>(n.l1_write_req + n.l1_atomic_ret_req + n.l1_atomic_noret_req);
  const double l2_bytes = static_cast<double>(n.l1_read_req) * m.at("vl1d.line_bytes") + requests * 64;
  ns["l2"] = l2_bytes / m.at("l2.gbps");
  ns["atomics"] = static_cast<double>(n.same_address_atomics_max) * m.at("l2.same_line_atomic_ns");
  if (m.at("fabric.infinity_cache_gbps") > 0) {
    ns["infinity"] = static_cast<double>(in.hierarchy->fabric_read_bytes() + in.hierarchy->fabric_write_bytes()) /
                     m.at("fabric.infinity_cache_gbps");
  }
  // A memory-side cache takes what it holds off the HBM's shoulders; writes drain to it and are counted as absorbed.
  const bool absorbs = m.at("fabric.infinity_cache_bytes") > 0 &&
                       static_cast<double>(n.hbm_write_bytes) < m.at("fabric.infinity_cache_bytes");
  ns["hbm"] = static_cast<double>(n.hbm_read_bytes) / m.at("hbm.read_gbps") +
              (absorbs ? 0 : static_cast<double>(n.hbm_write_bytes) / m.at("hbm.write_gbps"));
  return ns;
}

}  // namespace

void time_dispatch(const TimingInput& in, Dispatch* d) {
  const Machine m{*in.spec};
  const double cus = m.at("topology.cus"), simds = m.at("topology.simds_per_cu"), tick = m.ns_per_cycle();
  const auto groups = static_cast<double>(in.plan->total_groups);
  const double per_group = in.plan->occupancy.waves_per_group;
  const double share = busiest_share(groups, cus);
  // A lone small group cannot use all SIMDs of its CU.
  const double lanes_of_issue = std::min(simds, std::max(1.0, std::ceil(groups / cus) * per_group));
  std::map<std::string, double> ns = memory_bounds(m, in);
  const double valu = valu_cycles(m, *in.issue);
  ns["valu"] = valu * share / lanes_of_issue * tick;
  ns["mfma"] = static_cast<double>(in.issue->mfma_cycles) * share / lanes_of_issue * tick;
  ns["salu"] = static_cast<double>(in.issue->salu + in.issue->smem) * m.at("issue.salu_cycles") * share * tick;
  ns["lds"] = static_cast<double>(in.engine->lds_idx_cycles) * share * tick;
  ns["dispatch"] = groups * per_group / m.at("topology.xcds") * m.at("issue.wave_launch_cycles") * tick;
  const double issue_cycles =
      valu + static_cast<double>(in.issue->mfma_cycles) + 4.0 * static_cast<double>(in.issue->total - in.issue->vmem);
  const double chain = wave_cycles(m, in, issue_cycles);
  const double resident = std::min(groups, cus * in.plan->occupancy.groups_per_cu);
  const double turns = std::ceil(groups / resident * 4) / 4;  // the last turn's waves overlap with the one before
  ns["latency"] = turns * chain * tick;
  // Bounds overlap imperfectly: the p-norm is the maximum when one dominates, and more when several are close.
  const double p = m.at("timing.overlap_norm");
  double sum = 0, largest = 0;
  for (const auto& [unit, time] : ns) {
    d->details["bound." + unit] = time;
    sum += std::pow(time, p);
    if (time > largest) {
      largest = time;
      d->bottleneck = unit;
    }
  }
  d->duration_ns = m.at("issue.launch_ns") + std::pow(sum, 1 / p);
  // Every CU that got a work-group counts as busy from the first wave to the last.
  d->counters["SQ_BUSY_CU_CYCLES"] =
      std::round((d->duration_ns - m.at("issue.launch_ns")) / tick * std::min(groups, cus));
  d->details["bound.launch"] = m.at("issue.launch_ns");
  if (m.at("issue.launch_ns") > largest) d->bottleneck = "launch";
  d->details["occupancy.groups_per_cu"] = in.plan->occupancy.groups_per_cu;
  d->details["occupancy.waves_per_cu"] = in.plan->occupancy.groups_per_cu * per_group;
  d->details["occupancy.fraction"] =
      in.plan->occupancy.groups_per_cu * per_group / (simds * m.at("topology.waves_per_simd"));
  d->details["wave.latency_cycles"] = chain;
}

}  // namespace hipsynth
