#include "timing/model.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "counter_names.h"
#include "memory/coalescer.h"

namespace hipsynth {
namespace {

// The dispatch on one device: the load of each unit, in cycles of the core clock unless noted otherwise. Its time is
// computed twice, as if `groups` and `waves` did equal shares of the work: for all of them, and for the working ones
// alone, because those that leave at once make the average short but not the dispatch.
struct Model {
  const Spec& spec;
  const Work& work;
  double groups, waves;
  double unsure = 0;  // of the work-groups per CU, where their number is an estimate
  double tick_ns() const { return 1000.0 / spec.clock.core_mhz; }
  double cycles_of_bytes(double bytes, double gbps) const { return bytes / gbps / tick_ns(); }
};

// Units that share a resource or stall each other overlap imperfectly: the norm is the maximum if one dominates and up
// to n^(1/p) times that if n are equal.
double norm(double p, std::initializer_list<double> parts) {
  const double largest = std::max(parts);
  if (largest <= 0) return 0;
  double sum = 0;
  for (const double part : parts) sum += std::pow(std::max(part, 0.0) / largest, p);
  return largest * std::pow(sum, 1 / p);
}

// With G equal groups on N CUs the busiest CU gets ceil(G / N) of them; a CU's work is spread over as many SIMDs as it
// has resident waves, at most all.
double groups_of_busiest_cu(const Model& m) {
  return std::max(1.0, std::ceil(m.groups / m.spec.topology.cus - m.unsure));
}

double busiest_share(const Model& m) { return groups_of_busiest_cu(m) / m.groups; }

double resident_waves(const Model& m) {
  return std::min(m.waves, m.spec.topology.cus * m.work.groups_per_cu * m.work.waves_per_group);
}

double resident_waves_of_busiest_cu(const Model& m) {
  const double groups = std::min(groups_of_busiest_cu(m), m.work.groups_per_cu);
  return groups * std::min(m.waves / m.groups, m.work.waves_per_group);
}

double simds_used(const Model& m) {
  return std::clamp(resident_waves_of_busiest_cu(m), 1.0, m.spec.topology.simds_per_cu);
}

// Rounds of resident groups that the grid takes. Groups take unequal times, so half of a last, partly filled round
// overlaps with the previous one.
double residency_rounds(const Model& m) {
  const double full = m.waves / resident_waves(m);
  return (full + std::ceil(full)) / 2;
}

// Issue: all waves' instructions of one kind, on one SIMD (vector) or one CU (scalar, LDS) of the busiest CU.

// The core clock drops if arithmetic draws much power. Time is still counted in cycles of the nominal clock, so an
// instruction takes longer under such load; `lost` is the difference that busy-cycle counters do not see.
struct Arithmetic {
  double valu = 0, matrix = 0;  // nominal cycles of all waves together
  double lost = 0;              // of these, cycles lost to the lower clock
  double dependent = 0;         // more cycles until an instruction of the same wave can use the results
  double total() const { return valu + matrix; }
};

Arithmetic arithmetic(const Model& m) {
  const Work& w = m.work;
  const auto slowdown = [&](double clock_mhz) { return m.spec.clock.core_mhz / clock_mhz; };
  const double full = w.valu_full * m.spec.issue.valu_cycles, packed = w.valu_packed * m.spec.issue.valu_cycles;
  const double wide = w.valu_f64 * m.spec.issue.f64_cycles + w.valu_int64_mul * m.spec.issue.int64_mul_cycles;
  const double trans = w.valu_trans * m.spec.issue.trans_cycles;
  Arithmetic a;
  a.valu = full * slowdown(m.spec.clock.vector_mhz) + packed * slowdown(m.spec.clock.packed_mhz) +
           wide * slowdown(m.spec.clock.f64_mhz) + trans;
  const auto behind = [&](double latency, double cycles) {
    return std::max(0.0, latency - cycles * slowdown(m.spec.clock.f64_mhz));
  };
  a.dependent = w.valu_f64 * behind(m.spec.issue.f64_latency_cycles, m.spec.issue.f64_cycles) +
                w.valu_int64_mul * behind(m.spec.issue.int64_mul_latency_cycles, m.spec.issue.int64_mul_cycles);
  a.matrix = w.mfma_cycles * slowdown(m.spec.clock.matrix_mhz);
  a.lost = a.total() - full - packed - wide - trans - w.mfma_cycles;
  return a;
}

double vector_issue(const Model& m) { return arithmetic(m).total() * busiest_share(m) / simds_used(m); }

double scalar_issue(const Model& m) {
  const double branches = m.work.jumps * m.spec.issue.scalar_branch_cycles;
  return ((m.work.salu + m.work.smem) * m.spec.issue.salu_cycles + branches) * busiest_share(m);
}

double lds_issue(const Model& m) {
  return m.work.lds_cycles * busiest_share(m) * m.spec.clock.core_mhz / m.spec.clock.lds_mhz;
}

// One wave's issue cycles, without overlap, as if each vector instruction used the result of the one before. A wave
// issues at most one instruction per issue.wave_cycles.
double own_issue(const Model& m) {
  const Work& w = m.work;
  const double others = w.salu + w.smem + w.vmem + w.lds + w.flow;
  const double jumps = w.jumps * (m.spec.issue.branch_cycles - m.spec.issue.wave_cycles);
  const Arithmetic a = arithmetic(m);
  return (a.total() + a.dependent + others * m.spec.issue.wave_cycles + jumps) / m.waves;
}

// One wave's waits on an otherwise idle device.

double vector_waits(const Model& m) {
  const Work& w = m.work;
  const double store = m.spec.l2.store_latency_cycles;
  return w.l1_waits * m.spec.vl1d.latency_cycles + w.l2_waits * m.spec.l2.latency_cycles +
         w.infinity_waits * m.spec.fabric.infinity_cache_latency_cycles + w.hbm_waits * m.spec.hbm.latency_cycles +
         (w.store_waits + w.store_tails) * store;
}

double scalar_waits(const Model& m) {
  const Work& w = m.work;
  return w.scalar_hit_waits * m.spec.issue.smem_latency_cycles + w.scalar_l2_waits * m.spec.l2.latency_cycles +
         w.scalar_infinity_waits * m.spec.fabric.infinity_cache_latency_cycles +
         w.scalar_hbm_waits * m.spec.hbm.latency_cycles;
}

double own_waits(const Model& m) {
  const double lds = m.work.lds_waits * m.spec.issue.lds_latency_cycles;
  return (vector_waits(m) + scalar_waits(m) + lds + m.work.barrier_cycles) / m.waves;
}

// Cycles from a group's slot becoming free to the first instruction of its last wave.
double group_start(const Model& m) {
  return m.spec.issue.wave_start_cycles + (m.work.waves_per_group - 1) * m.spec.issue.wave_launch_cycles;
}

// Cycles that the units of the memory path need for the whole dispatch.
struct MemoryPath {
  double round_trips = 0, dispatch = 0, vl1d = 0, l2 = 0, atomics = 0, infinity = 0, hbm = 0;
};

// Cycles at full rate for HBM reads and writes while waves run; lines flushed at the end come later.
double hbm_cycles(const Model& m) {
  const double later = m.spec.fabric.infinity_cache_gbps > 0 ? 0 : m.work.flushed_bytes;
  return m.cycles_of_bytes(m.work.hbm_read_bytes, m.spec.hbm.read_gbps) +
         m.cycles_of_bytes(m.work.hbm_write_bytes - later, m.spec.hbm.write_gbps);
}

MemoryPath memory_path(const Model& m) {
  const Work& w = m.work;
  MemoryPath p;
  p.round_trips = residency_rounds(m) * (group_start(m) + own_issue(m) + own_waits(m));
  p.dispatch = std::max(w.waves * m.spec.issue.dispatch_cycles, w.groups * m.spec.issue.group_dispatch_cycles) /
               m.spec.topology.xcds;
  p.vl1d = w.l1_cycles_busiest_cu;
  p.l2 =
      w.l2_requests_busiest_channel * m.spec.l2.cycles_per_request + w.l2_turns_busiest_channel * m.spec.l2.turn_cycles;
  p.atomics = w.atomics_busiest_line * m.spec.l2.same_line_atomic_ns / m.tick_ns();
  if (const double gbps = m.spec.fabric.infinity_cache_gbps; gbps > 0) {
    p.infinity = m.cycles_of_bytes(w.fabric_read_bytes + w.fabric_write_bytes - w.flushed_bytes, gbps);
  }
  p.hbm = hbm_cycles(m);
  return p;
}

// Units in a row work in parallel. But round trips get longer well before a unit is full: requests queue at the slowest
// of the units that all CUs share. Each CU has its own vL1D.
double memory_cycles(const Model& m, const MemoryPath& p) {
  const double overlap = m.spec.timing.overlap_norm;
  const double shared = norm(overlap, {p.l2, p.atomics, p.infinity, p.hbm});
  return norm(overlap, {p.vl1d, norm(m.spec.timing.queueing_norm, {p.round_trips, shared})});
}

// Cycles to write back lines that are still modified after the last wave. A profiled kernel ends when that is done,
// even where the counters no longer see it.
double write_back_cycles(const Model& m) {
  const double infinity = m.spec.fabric.infinity_cache_gbps;
  return m.cycles_of_bytes(m.work.flushed_bytes + m.work.left_bytes, infinity > 0 ? infinity : m.spec.hbm.write_gbps);
}

// Until the first wave runs and has its first answer, and again at the end, no unit works at full rate.
double ramp_cycles(const Model& m) {
  const Work& w = m.work;
  double deepest = 0;
  if (w.hbm_waits + w.scalar_hbm_waits > 0) {
    deepest = m.spec.hbm.latency_cycles;
  } else if (w.infinity_waits + w.scalar_infinity_waits > 0) {
    deepest = m.spec.fabric.infinity_cache_latency_cycles;
  }
  // A dispatch that reaches further than cached address translations begins by fetching new ones.
  const bool reaches = w.hbm_read_bytes + w.hbm_write_bytes > m.spec.hbm.translated_bytes;
  const double translations = reaches ? m.spec.hbm.translation_ns / m.tick_ns() : 0;
  return m.spec.issue.wave_start_cycles + deepest + translations;
}

// From the first wave's first answer to the last wave's end.
struct Body {
  double cycles = 0;
  MemoryPath path;
  double vector = 0, scalar = 0, lds = 0, waits = 0;
};

Body body_of(const Model& m) {
  Body b{0, memory_path(m), vector_issue(m), scalar_issue(m), lds_issue(m), 0};
  b.waits = residency_rounds(m) * (group_start(m) + own_waits(m));
  const double memory = memory_cycles(m, b.path), own = residency_rounds(m) * own_issue(m);
  const double work_time = own + norm(m.spec.timing.overlap_norm,
                                      {b.vector - own, b.scalar - own, b.lds - own, std::max(memory - own, b.waits)});
  // Waves start at a steady rate: this bounds the total time and adds nothing if another bound is larger.
  b.cycles = std::max(b.path.dispatch, work_time);
  return b;
}

}  // namespace

Work work_of(const LaunchPlan& plan, const IssueCounts& issue, const EngineCounts& engine, const Hierarchy* hierarchy) {
  const auto number = [](uint64_t n) { return static_cast<double>(n); };
  const auto rate = [&](Rate r) { return number(issue.valu_by_rate[static_cast<size_t>(r)]); };
  Work w;
  w.groups = number(plan.total_groups);
  w.waves_per_group = plan.occupancy.waves_per_group;
  w.groups_per_cu = plan.occupancy.groups_per_cu;
  w.waves = number(engine.waves);
  w.valu_full = rate(Rate::full) + rate(Rate::none);
  w.valu_packed = rate(Rate::packed);
  w.valu_trans = rate(Rate::trans);
  w.valu_f64 = rate(Rate::f64);
  w.valu_int64_mul = rate(Rate::int64_mul);
  w.mfma_cycles = number(issue.mfma_cycles);
  w.salu = number(issue.salu);
  w.smem = number(issue.smem);
  w.vmem = number(issue.vmem);
  w.lds = number(issue.lds);
  w.flow = number(issue.flow);
  w.jumps = number(engine.jumps);
  w.lds_cycles = number(engine.lds_idx_cycles);
  const auto waits = [&](uint64_t units) { return number(units) / EngineCounts::kWaitUnits; };
  const auto vector = [&](Level level) { return waits(engine.vm_waits[static_cast<int>(level)]); };
  const auto scalar = [&](Level level) { return waits(engine.smem_waits[static_cast<int>(level)]); };
  w.store_waits = vector(Level::none);
  w.l1_waits = vector(Level::l1);
  w.l2_waits = vector(Level::l2);
  w.infinity_waits = vector(Level::infinity);
  w.hbm_waits = vector(Level::hbm);
  w.scalar_hit_waits = scalar(Level::none) + scalar(Level::l1);
  w.scalar_l2_waits = scalar(Level::l2);
  w.scalar_infinity_waits = scalar(Level::infinity);
  w.scalar_hbm_waits = scalar(Level::hbm);
  w.lds_waits = waits(engine.lds_waits);
  w.barriers = number(engine.barriers);
  w.store_tails = number(engine.store_tails);
  w.barrier_cycles = number(engine.barrier_cycles);
  if (!hierarchy) return w;
  const MemoryCounts& n = hierarchy->counts();
  w.l1_cycles_busiest_cu = number(n.l1_cycles_max);
  w.l2_requests_busiest_channel = number(n.l2_channel_max);
  // Requests arrive in random order: the probability that one of two consecutive requests reads and the other writes
  // follows from their shares.
  if (const double reads = number(n.l2_reads), writes = number(n.l2_writes + n.l2_atomics); reads + writes > 0) {
    w.l2_turns_busiest_channel =
        w.l2_requests_busiest_channel * 2 * reads * writes / ((reads + writes) * (reads + writes));
  }
  w.atomics_busiest_line = number(n.same_address_atomics_max);
  w.fabric_read_bytes = number(hierarchy->fabric_read_bytes());
  w.fabric_write_bytes = number(hierarchy->fabric_write_bytes());
  w.hbm_read_bytes = number(n.hbm_read_bytes);
  w.hbm_write_bytes = number(n.hbm_write_bytes);
  w.flushed_bytes = number(n.flushed_bytes);
  w.left_bytes = number(n.left_bytes);
  return w;
}

double handover_ns(const Spec& spec, double modified_bytes) {
  constexpr double kKilobyte = 1024;
  const double each = modified_bytes / kKilobyte / spec.topology.xcds;
  return std::min(each, spec.fabric.handover_kb) * spec.fabric.handover_ns_per_kb;
}

Timing estimate(const Spec& spec, const Work& work) {
  const Model all{spec, work, work.groups, work.waves};
  constexpr double kUnsure = 0.05;
  const Model working{spec, work, work.working_groups, work.working_waves, kUnsure};
  const Body of_all = body_of(all), of_working = work.working_groups > 0 ? body_of(working) : of_all;
  const bool uneven = of_working.cycles > of_all.cycles;
  const Model& m = uneven ? working : all;
  const auto& [body, path, vector, scalar, lds, waits] = uneven ? of_working : of_all;
  const Arithmetic spent = arithmetic(m);
  const double flush = write_back_cycles(m), ramp = ramp_cycles(m), launch = m.spec.issue.launch_ns;

  Timing t;
  t.limits.wave_cycles = group_start(all) + own_issue(all) + own_waits(all);
  t.busy_ns = (ramp + body + flush) * m.tick_ns();
  t.busy_cycles = ramp + body + flush - spent.lost * busiest_share(m) / simds_used(m);
  t.duration_ns = launch + t.busy_ns;
  t.halves_apart = std::pow(std::min(1.0, path.hbm / body), m.spec.timing.halves_apart);
  const double mfma_share = spent.total() > 0 ? spent.matrix / spent.total() : 0;
  const std::pair<Bound, double> parts[] = {{Bound::latency, waits},
                                            {Bound::dispatch, path.dispatch},
                                            {Bound::vl1d, path.vl1d},
                                            {Bound::l2, path.l2},
                                            {Bound::atomics, path.atomics},
                                            {Bound::infinity, path.infinity},
                                            {Bound::hbm, path.hbm},
                                            {Bound::valu, vector * (1 - mfma_share)},
                                            {Bound::mfma, vector * mfma_share},
                                            {Bound::salu, scalar},
                                            {Bound::lds, lds},
                                            {Bound::write_back, flush},
                                            {Bound::ramp, ramp}};
  Limits& l = t.limits;
  const auto bound = [&](Bound unit) -> double& { return l.bounds[static_cast<size_t>(unit)]; };
  bound(Bound::launch) = launch;
  for (const auto& [unit, cycles] : parts) {
    bound(unit) = cycles * m.tick_ns();
    if (bound(unit) > bound(l.bottleneck)) l.bottleneck = unit;
  }
  return t;
}

void time_dispatch(const Spec& spec, const LaunchPlan& plan, const Work& work, Dispatch* d) {
  const Timing t = estimate(spec, work);
  d->duration_ns = t.duration_ns;
  d->limits = t.limits;
  d->work = work;
  const double cus = spec.topology.cus;
  // Every CU that got a work-group counts as busy from the first wave to the last.
  d->counters[name_of(Counter::SQ_BUSY_CU_CYCLES)] = std::round(t.busy_cycles * std::min(work.groups, cus));
  const double waves = plan.occupancy.groups_per_cu * static_cast<double>(plan.occupancy.waves_per_group);
  if (!d->occupancy) d->occupancy.emplace();
  d->occupancy->groups_per_cu = plan.occupancy.groups_per_cu;
  d->occupancy->waves_per_cu = waves;
  d->occupancy->fraction = waves / (spec.topology.simds_per_cu * spec.topology.waves_per_simd);
  d->limited_by = plan.occupancy.limiter;
}

}  // namespace hipsynth
