// The simulated device: state that outlives a dispatch, and the path of one launch.
#include <algorithm>

#include "core/counters.h"
#include "core/engine.h"
#include "core/hostcall.h"
#include "core/launch.h"
#include "core/reach.h"
#include "core/slice.h"
#include "core/spec.h"
#include "core/state.h"
#include "timing/model.h"

namespace hipsynth {

struct Device::Impl {
  Arch arch;
  SpecTable spec;
  DeviceOptions options;
  Memory memory;
  RuntimeMemory runtime;
  std::unique_ptr<HostServices> host;
  std::unique_ptr<Hierarchy> hierarchy;
  std::map<uint64_t, std::unique_ptr<Program>> programs;  // by module serial number
  WavePool waves;
  uint64_t clock = 0;

  std::map<std::pair<uint64_t, uint32_t>, Reach> reached;  // by module serial number and entry

  Impl(Arch a, const SpecTable& s, const DeviceOptions& o)
      : arch(a), spec(s), options(o), memory(o.memory_bytes), runtime(memory) {
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
    if (r.indexed) return;
    plan.vgprs = std::max(r.vgprs, 1u);  // the work-item id
    plan.agprs = r.agprs;
  }
  const std::vector<Step>& deciding(const Program& p, const KernelInfo& kernel) {
    std::vector<Step>& steps = deciding_[{p.module->serial(), kernel.entry}];
    if (steps.empty()) steps = deciding_steps(p, kernel);
    return steps;
  }

 private:
  std::map<std::pair<uint64_t, uint32_t>, std::vector<Step>> deciding_;  // by module and kernel
};

Device::Device(Arch arch, const SpecTable& spec, const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(arch, spec, options)) {}
Device::~Device() = default;
Memory& Device::memory() { return impl_->memory; }
Arch Device::arch() const { return impl_->arch; }
const SpecTable& Device::spec() const { return impl_->spec; }

void Device::reset() { impl_->reset(); }

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
  c.host = m.host.get();
  c.scratch_lane_bytes = plan.scratch_lane_bytes;
  c.scratch_base = plan.scratch_lane_bytes ? m.runtime.scratch(1) : 0;
  c.clock = m.clock;
  c.strict_bounds = m.options.strict_bounds;
  auto* printf_buffer = reinterpret_cast<uint8_t*>(m.runtime.printf_buffer);
  reset_printf(printf_buffer, RuntimeMemory::kPrintfBytes);
  if (m.hierarchy) m.hierarchy->begin_dispatch();
  m.waves.prepare(plan.rows);
  std::unique_ptr<Sampler> sampler;
  if (m.hierarchy && m.options.sample_stretches > 0) {
    sampler =
        std::make_unique<Sampler>(c, m.spec, m.options, plan, [&] { return m.deciding(*c.program, *launch.kernel); });
  }
  Engine engine(c, m.spec, m.options, launch, plan, m.waves, sampler.get());
  PrintfText printed;
  const auto take_text = [&] {
    printed = read_printf(printf_buffer, RuntimeMemory::kPrintfBytes, launch.module->printf_formats());
    printed.output += m.host->take_output();
    printed.errors += m.host->take_errors();
  };
  try {
    engine.run();
  } catch (SimError& error) {
    take_text();
    error.output = printed.output;
    error.errors = printed.errors;
    throw;
  }
  take_text();
  if (m.hierarchy) m.hierarchy->end_dispatch();
  m.clock += c.counts.wave_instructions * 4;

  Dispatch d;
  d.kernel = launch.kernel->name;
  d.grid = launch.grid;
  d.block = launch.block;
  d.printf_output = printed.output;
  d.printf_errors = printed.errors;
  d.strays = c.strays;
  d.first_stray = c.first_stray;
  std::vector<Executed> executions = engine.executions();
  const bool sampled = sampler && sampler->sampling();
  if (!sampled) d.groups_simulated = plan.total_groups;
  if (sampled) executions = extrapolate(sampler->finish(engine.runs()), &c, &d);
  const IssueCounts issue = count_instructions(c, executions, &d.counters);
  const Work work = work_of(plan, issue, c.counts, m.hierarchy.get());
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
  d.details["waves.peak"] = static_cast<double>(engine.peak_waves());
  time_dispatch(m.spec, plan, work, &d);
  return d;
}

}  // namespace hipsynth
