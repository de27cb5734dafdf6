// The simulated device: state that outlives a dispatch, and the path of one launch.
#include <algorithm>

#include "core/counters.h"
#include "core/engine.h"
#include "core/hostcall.h"
#include "core/launch.h"
#include "core/reach.h"
#include "core/spec.h"
#include "core/state.h"
#include "core/waits.h"
#include "execute/bank_costs.h"
#include "sampling/slice.h"
#include "sampling/trace.h"
#include "timing/model.h"
#include "timing/uncertainty.h"

namespace hipsynth {

namespace {

// Beyond this expected error of a counter a sampled dispatch runs again in full, where that is no more than kRepeatable
// times the work up to which grids are not sampled at all.
constexpr double kTrusted = 0.02;
constexpr uint64_t kRepeatable = 10;
// Grids of long work-groups that all do the same are followed as a whole, up to this many times that work.
constexpr uint64_t kFollowable = 16;
// One work-group that is longer than this is not recorded.
constexpr uint64_t kMostRecorded = 5'000'000;  // wave instructions
// Grids that fill less than this part of the machine are not worth remembering the caches for.
constexpr uint64_t kWorthRepeating = 16;

constexpr const char* kRecorded = "groups.recorded";  // detail of a dispatch that was followed by what these did

constexpr uint32_t kSystemSgprs = 5;  // at most: three work-group ids, an unused one and the scratch offset

// Whether a kernel that ran in part may run again: what its instructions need is still as it was.
bool is_repeatable(const std::vector<Step>& deciding, const std::vector<Executed>& executions) {
  for (size_t i = 0; i < executions.size(); ++i) {
    const Step& s = deciding[i];
    const bool memory = s.action == Action::vector_memory || s.action == Action::scalar_memory;
    const bool writes = memory && s.inst->op->mem.kind != MemKind::load && s.inst->op->mem.kind != MemKind::time;
    if (executions[i].times && (s.action == Action::message || (writes && !s.idle_data))) return false;
  }
  return true;
}

// Which lines are dirty when a dispatch ends is left to chance: no reason to distrust all else.
bool is_end_state(const std::string& counter) {
  return counter == "TCC_ALL_TC_OP_WB_WRITEBACK" || counter == "TCC_NORMAL_WRITEBACK" || counter == "TCC_NORMAL_EVICT";
}

}  // namespace

struct Device::Impl {
  Arch arch;
  SpecTable spec;
  DeviceOptions options;
  Memory memory;
  RuntimeMemory runtime;
  std::unique_ptr<HostServices> host;
  std::unique_ptr<Hierarchy> hierarchy;
  std::map<uint64_t, std::unique_ptr<Program>> programs;  // by module serial number
  BankCosts bank_costs;
  WavePool waves;
  uint64_t clock = 0;

  std::map<std::pair<uint64_t, uint32_t>, Reach> reached;  // by module serial number and entry

  Impl(Arch a, const SpecTable& s, const DeviceOptions& o)
      : arch(a), spec(s), options(o), memory(o.memory_bytes, o.sample_stretches > 0), runtime(memory) {
    check_spec(spec);
    reset();
  }

  void reset() {
    if (options.count) hierarchy = std::make_unique<Hierarchy>(arch, spec);
    constexpr uint32_t kMostWaves = 40;  // per CU, of any architecture
    host = std::make_unique<HostServices>(memory, static_cast<uint32_t>(spec.at("topology.cus")) * kMostWaves,
                                          options.host_calls);
  }

  // The services that the kernel's hidden arguments name are made ready.
  void offer_services(const KernelInfo& kernel) {
    for (const KernelArg& arg : kernel.args) {
      if (arg.kind == "hidden_hostcall_buffer") runtime.host_buffer = host->buffer();
      if (arg.kind == "hidden_heap_v1") runtime.heap = host->heap();
    }
  }

  const Program& program(const Module& module) {
    std::unique_ptr<Program>& p = programs[module.serial()];
    if (!p) p = make_program(module, spec);
    return *p;
  }

  // Refuses a kernel that could reach what cannot run, or registers that it was not given, before it runs. Notes the
  // registers that it uses.
  void check_code(const Launch& launch, LaunchPlan& plan) {
    const Program& p = program(*launch.module);
    const auto [at, fresh] = reached.try_emplace({launch.module->serial(), plan.entry});
    if (fresh) at->second = reach(p, plan.entry);
    const Reach& r = at->second;
    const std::string name = "kernel " + launch.kernel->name;
    if (!r.refused.empty()) {
      std::string list;
      for (const std::string& line : r.refused) list += "\n  " + line;
      throw SimError("unsupported_opcode",
                     name + ": " + std::to_string(r.refused.size()) + " unsupported instruction form(s):" + list);
    }
    const uint32_t agprs = r.agprs == 0 ? 0 : plan.initial.accum_offset + r.agprs;
    if (std::max(r.vgprs, agprs) > plan.rows) {
      throw SimError("bad_code_object", name + " uses " + std::to_string(std::max(r.vgprs, agprs)) +
                                            " vector registers, its descriptor allots " + std::to_string(plan.rows));
    }
    plan.initial.rows = std::max({plan.rows, r.any_vgprs, plan.initial.accum_offset + r.any_agprs});
    plan.sgprs = std::clamp(r.sgprs, plan.system_sgpr + kSystemSgprs, uint32_t{kScalarRegs});
    if (r.indexed) return;
    plan.vgprs = std::max(r.vgprs, 1u);  // the work-item id
    plan.agprs = r.agprs;
    if (!r.images && r.any_vgprs == 0) plan.initial.rows = std::max(plan.vgprs, agprs);
  }
  const std::vector<Step>& deciding(const Program& p, const KernelInfo& kernel) {
    std::vector<Step>& steps = deciding_[{p.module->serial(), kernel.entry}];
    if (steps.empty()) steps = deciding_steps(p, kernel);
    return steps;
  }

  // How much of a dispatch runs: all of it, or a part when it is more work than `sample_above`. Long work-groups are
  // followed by their traces, where there are any, from the caches as they were before.
  struct Extent {
    uint64_t sample_above = ~0ull;
    std::function<const Traces*()> traces = [] { return nullptr; };
    const Hierarchy* before = nullptr;
  };
  std::vector<Executed> simulate(const Launch& launch, const LaunchPlan& plan, const Extent& extent, Context& c,
                                 Dispatch* d);
  std::vector<Executed> replay(const Launch& launch, const LaunchPlan& plan, const Traces& traces, Context& c,
                               Dispatch* d);
  std::optional<Traces> record(const Launch& launch, const LaunchPlan& plan, Context c);
  std::vector<Executed> simulate_well(const Launch& launch, const LaunchPlan& plan, Context& c, Dispatch* d);

 private:
  enum class Known : uint8_t { sampled_well, sampled_badly, followed };
  std::map<std::pair<uint64_t, uint32_t>, Known> known_;                 // by module and kernel, once it was large
  std::map<std::pair<uint64_t, uint32_t>, std::vector<Step>> deciding_;  // by module and kernel
};

Device::Device(Arch arch, const SpecTable& spec, const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(arch, spec, options)) {}
Device::~Device() = default;
Memory& Device::memory() { return impl_->memory; }
Arch Device::arch() const { return impl_->arch; }
const SpecTable& Device::spec() const { return impl_->spec; }

void Device::reset() { impl_->reset(); }

// Runs the work-groups, all or a sample of them; returns the executions of every instruction.
std::vector<Executed> Device::Impl::simulate(const Launch& launch, const LaunchPlan& plan, const Extent& extent,
                                             Context& c, Dispatch* d) {
  const Context fresh = c;
  const Traces* traces = nullptr;
  auto* printf_buffer = reinterpret_cast<uint8_t*>(runtime.printf_buffer);
  reset_printf(printf_buffer, RuntimeMemory::kPrintfBytes);
  if (hierarchy) hierarchy->begin_dispatch();
  waves.prepare(plan.initial.rows);
  std::unique_ptr<Sampler> sampler;
  if (hierarchy && options.sample_stretches > 0 && extent.sample_above < ~0ull) {
    DeviceOptions chosen = options;
    chosen.sample_above = extent.sample_above;
    const auto replays = [&] { return (traces = extent.traces()) != nullptr; };
    sampler =
        std::make_unique<Sampler>(c, spec, chosen, plan, [&] { return deciding(*c.program, *launch.kernel); }, replays);
  }
  Engine engine(c, spec, options, launch, plan, waves, sampler.get());
  const auto take_text = [&] {
    PrintfText text = read_printf(printf_buffer, RuntimeMemory::kPrintfBytes, launch.module->printf_formats());
    text.output += host->take_output();
    text.errors += host->take_errors();
    return text;
  };
  try {
    engine.run();
  } catch (SimError& error) {
    const PrintfText text = take_text();
    error.output = text.output;
    error.errors = text.errors;
    throw;
  }
  const PrintfText text = take_text();
  if (sampler && sampler->stops()) {
    c = fresh;
    *hierarchy = *extent.before;
    return replay(launch, plan, *traces, c, d);
  }
  d->printf_output = text.output;
  d->printf_errors = text.errors;
  d->details["waves.peak"] = static_cast<double>(engine.peak_waves());
  if (hierarchy) hierarchy->end_dispatch();
  if (sampler && sampler->sampling()) return extrapolate(sampler->finish(engine.runs()), &c, d);
  d->groups_simulated = plan.total_groups;
  return engine.executions();
}

// What all work-groups do, where that does not take too long and a few of them say so: alone, in a machine that does
// not remember them.
std::optional<Traces> Device::Impl::record(const Launch& launch, const LaunchPlan& plan, Context c) {
  const std::vector<Step>& steps = deciding(*c.program, *launch.kernel);
  if (!may_replay(steps, *launch.kernel)) return std::nullopt;
  c.hierarchy = nullptr;
  c.steps = steps.data();
  Recorder recorder(plan.occupancy.waves_per_group, static_cast<uint32_t>(spec.at("topology.xcds")));
  const auto run = [&](std::vector<uint64_t> groups) -> std::vector<GroupTrace> {
    DeviceOptions chosen = options;
    chosen.max_wave_instructions = std::min(options.max_wave_instructions, kMostRecorded * groups.size());
    recorder.begin(std::move(groups));
    Context alone = c;
    Engine engine(alone, spec, chosen, launch, plan, waves);
    engine.record(&recorder);
    try {
      engine.run();
    } catch (const SimError&) {
      return {};  // the dispatch itself will say why
    }
    return recorder.end(engine.runs());
  };
  std::optional<Traces> traces = trace_grid(plan.total_groups, run);
  if (traces) {
    traces->patterns = recorder.patterns();
    traces->fold_lds(latencies_of(spec).lds);
  }
  const bool affordable = traces && traces->work() <= kFollowable * options.sample_above / plan.total_groups;
  return affordable ? std::move(traces) : std::nullopt;
}

std::vector<Executed> Device::Impl::replay(const Launch& launch, const LaunchPlan& plan, const Traces& traces,
                                           Context& c, Dispatch* d) {
  hierarchy->begin_dispatch();
  waves.prepare(0);
  DeviceOptions chosen = options;
  chosen.max_wave_instructions = ~0ull;  // which are counted, not executed
  Engine engine(c, spec, chosen, launch, plan, waves);
  engine.replay(&traces);
  engine.run();
  hierarchy->end_dispatch();
  d->details["waves.peak"] = static_cast<double>(engine.peak_waves());
  d->sampled = true;
  d->details[kRecorded] = static_cast<double>(traces.recorded);
  d->groups_simulated = plan.total_groups;
  return engine.executions();
}

// A sample that may be far from the whole is followed by the whole, and later dispatches of its kernel are sampled only
// when they are much larger.
std::vector<Executed> Device::Impl::simulate_well(const Launch& launch, const LaunchPlan& plan, Context& c,
                                                  Dispatch* d) {
  const std::pair<uint64_t, uint32_t> key{launch.module->serial(), launch.kernel->entry};
  const auto known = known_.find(key);
  if (known != known_.end() && known->second != Known::followed) {
    const bool well = known->second == Known::sampled_well;
    return simulate(launch, plan, {.sample_above = options.sample_above * (well ? 1 : kRepeatable)}, c, d);
  }
  const uint64_t resident = plan.occupancy.groups_per_cu * static_cast<uint64_t>(spec.at("topology.cus"));
  std::unique_ptr<Hierarchy> before;
  if (hierarchy && options.sample_stretches > 0 && kWorthRepeating * plan.total_groups > resident) {
    before = std::make_unique<Hierarchy>(*hierarchy);
  }
  const Context fresh = c;
  std::optional<std::optional<Traces>> recorded;
  const auto traces = [&]() -> const Traces* {
    if (!recorded) recorded = before ? record(launch, plan, fresh) : std::nullopt;
    return *recorded ? &**recorded : nullptr;
  };
  Dispatch first = *d;
  std::vector<Executed> executions = simulate(launch, plan, {options.sample_above, traces, before.get()}, c, &first);
  if (first.sampled) {
    double worst = 0;
    for (const auto& [name, error] : first.error) worst = std::max(worst, is_end_state(name) ? 0 : error);
    const bool bad = worst > kTrusted, followed = first.details.contains(kRecorded);
    known_[key] = followed ? Known::followed : bad ? Known::sampled_badly : Known::sampled_well;
    const auto again = [&] {
      c = fresh;
      *hierarchy = *before;
    };
    if (const Traces* all = bad ? traces() : nullptr) {
      again();
      known_[key] = Known::followed;
      return replay(launch, plan, *all, c, d);
    }
    const bool affordable = simulation_work(c.counts, hierarchy->counts()) <= kRepeatable * options.sample_above;
    const std::vector<Step>& steps = deciding(*c.program, *launch.kernel);
    if (bad && affordable && before && is_repeatable(steps, executions)) {
      again();
      c.steps = steps.data();
      return simulate(launch, plan, {}, c, d);
    }
  }
  *d = std::move(first);
  return executions;
}

Dispatch Device::launch(const Launch& launch) {
  Impl& m = *impl_;
  if (!launch.module || !launch.kernel) throw SimError("bad_launch", "launch without a kernel");
  m.offer_services(*launch.kernel);
  LaunchPlan plan = plan_launch(m.arch, m.spec, launch, m.runtime);
  m.check_code(launch, plan);
  Context c;
  c.arch = m.arch;
  c.program = &m.program(*launch.module);
  c.kernel = launch.kernel;
  c.steps = m.options.values ? c.program->steps.data() : m.deciding(*c.program, *launch.kernel).data();
  c.memory = &m.memory;
  c.hierarchy = m.hierarchy.get();
  c.bank_costs = &m.bank_costs;
  c.host = m.host.get();
  c.scratch_lane_bytes = plan.scratch_lane_bytes;
  c.scratch_base = plan.scratch_lane_bytes ? m.runtime.scratch(1) : 0;
  c.clock = m.clock;
  c.realtime_ticks = m.spec.at("clock.realtime_mhz") / m.spec.at("clock.core_mhz");
  c.strict_bounds = m.options.strict_bounds;
  Dispatch d;
  d.kernel = launch.kernel->name;
  d.grid = launch.grid;
  d.block = launch.block;
  const std::vector<Executed> executions = m.simulate_well(launch, plan, c, &d);
  m.clock += c.counts.wave_instructions * 4;
  d.strays = c.strays;
  d.first_stray = c.first_stray;
  const Work work = work_of(plan, issue_counts(c, executions), c.counts, m.hierarchy.get());
  if (!m.options.counters) {
    d.duration_ns = estimate(m.spec, work).duration_ns;
    return d;
  }
  count_instructions(c, executions, &d.counters);
  if (m.hierarchy) {
    m.hierarchy->join_halves(estimate(m.spec, work).halves_apart);
    m.hierarchy->counters(&d.counters);
    const MemoryCounts& n = m.hierarchy->counts();
    d.details["hbm.read_bytes"] = static_cast<double>(n.hbm_read_bytes);
    d.details["hbm.write_bytes"] = static_cast<double>(n.hbm_write_bytes);
    d.details["infinity.hits"] = static_cast<double>(n.infinity_hits);
  }
  derive_counters(&d.counters);
  d.details["registers.vgpr"] = launch.kernel->vgprs;
  d.details["registers.agpr"] = launch.kernel->agprs;
  d.details["registers.sgpr"] = launch.kernel->sgprs;
  d.details["lds.bytes"] = plan.lds_bytes;
  d.details["scratch.bytes"] = plan.scratch_lane_bytes;
  d.details[std::string("occupancy.limited_by.") + plan.occupancy.limiter] = 1;
  time_dispatch(m.spec, plan, work, &d);
  if (d.sampled) {
    d.error["Duration"] = duration_error(m.spec, work, d.error);
    d.error.erase(kMemoryBytes);
  }
  return d;
}

}  // namespace hipsynth
