// The simulated device: the steps of a launch.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/counters.h"
#include "core/device_impl.h"
#include "core/sharing.h"
#include "core/waits.h"
#include "dispatch/labels_first.h"
#include "execute/atomics.h"
#include "timing/model.h"
#include "timing/uncertainty.h"

namespace hipsynth {

namespace {

// Of launches that are compared with each other first: as of a corpus (simulator/limits.py).
constexpr SamplingOptions kCoarse{2, 1'800'000};

constexpr uint32_t kSystemSgprs = 5;  // at most: three work-group ids, an unused one and the scratch offset

std::vector<uint64_t> shape_of(const Launch& l) {
  return {l.module->serial(), l.kernel->entry, l.grid.x,  l.grid.y,     l.grid.z,
          l.block.x,          l.block.y,       l.block.z, l.dynamic_lds};
}

}  // namespace

Device::Device(Arch arch, const Spec& spec, const DeviceOptions& options)
    : impl_(std::make_unique<Impl>(arch, spec, options)) {}
Device::~Device() = default;
Memory& Device::memory() { return impl_->memory; }
Arch Device::arch() const { return impl_->arch; }
const Spec& Device::spec() const { return impl_->spec; }
const InstructionTally* Device::tally() const { return impl_->tally.get(); }

void Device::observe_launches(uint32_t sampling_units, bool lines) {
  impl_->options.sampling_units = sampling_units;
  impl_->tally = lines && impl_->options.count ? std::make_unique<InstructionTally>() : nullptr;
}

bool Device::sample_coarsely(bool coarse) { return impl_->sample_coarsely(coarse); }
void Device::reset() { impl_->reset(); }
void Device::forget(const Module& module) { impl_->forget(module.serial()); }

void Device::empty_l2() {
  if (impl_->hierarchy && impl_->options.keep_l2) impl_->hierarchy->empty_l2();
}

bool Device::decided_by_data(const Module& module, const KernelInfo& kernel) {
  Launch launch;
  launch.module = &module;
  launch.kernel = &kernel;
  impl_->traits_of(launch);
  return is_decided_by_data(impl_->program(module), kernel);
}

Observed Device::observe(const Launch& launch, const SharingOptions& options, Sharing* out) {
  Impl& m = *impl_;
  LaunchPlan plan = plan_launch(m.arch, m.spec, launch, m.runtime);
  m.check_code(launch, &plan);
  const KernelTraits& traits = m.traits_of(launch);
  KernelSlice slice(m.program(*launch.module), *launch.kernel);
  return hipsynth::observe(m.context(launch, plan, &slice, nullptr), traits, slice, launch, plan, m.waves, options,
                           out);
}

void Device::Impl::reset_caches() {
  repeats = {};
  if (options.count) hierarchy = std::make_unique<Hierarchy>(arch, spec, options.keep_l2, memory.moved());
}

void Device::Impl::reset() {
  reset_caches();
  constexpr uint32_t kMostWaves = 40;  // per CU, for any architecture
  host =
      std::make_unique<HostServices>(memory, static_cast<uint32_t>(spec.topology.cus) * kMostWaves, options.host_calls);
}

bool Device::Impl::sample_coarsely(bool coarse) {
  if (coarse == usual.has_value()) return coarse;
  if (!coarse) {
    options.sampling_units = usual->units;
    options.sample_above = usual->exact_work;
    usual.reset();
  } else {
    if (!hierarchy || budget.limited() || options.sampling_units == 0) return false;
    if (options.sampling_units <= kCoarse.units && options.sample_above <= kCoarse.exact_work) return false;
    usual = SamplingOptions{options.sampling_units, options.sample_above};
    options.sampling_units = std::min(options.sampling_units, kCoarse.units);
    options.sample_above = std::min(options.sample_above, kCoarse.exact_work);
  }
  reset_caches();
  return true;
}

// Sets up the host services that the kernel's hidden arguments refer to.
void Device::Impl::offer_services(const KernelInfo& kernel) {
  for (const KernelArg& arg : kernel.args) {
    if (arg.kind == "hidden_hostcall_buffer") runtime.host_buffer = host->buffer();
    if (arg.kind == "hidden_heap_v1") runtime.heap = host->heap();
  }
}

const Program& Device::Impl::program(const Module& module) {
  std::unique_ptr<Program>& p = programs[module.serial()];
  if (!p) p = make_program(module, spec, options.exact_sums);
  return *p;
}

// Rejects a kernel that can reach instructions that cannot execute or that name registers it does not have. Stores the
// registers that it uses in the plan.
void Device::Impl::check_code(const Launch& launch, LaunchPlan* plan) {
  const Program& p = program(*launch.module);
  const auto [at, fresh] = reached.try_emplace({launch.module->serial(), plan->entry});
  if (fresh) at->second = reach(p, plan->entry);
  const Reach& r = at->second;
  const std::string name = "kernel " + launch.kernel->name;
  if (!r.refused.empty()) {
    std::string list;
    for (const std::string& line : r.refused) list += "\n  " + line;
    throw SimError(Reason::unsupported_opcode,
                   name + ": " + std::to_string(r.refused.size()) + " unsupported instruction form(s):" + list);
  }
  const uint32_t agprs = r.agprs == 0 ? 0 : plan->initial.accum_offset + r.agprs;
  // Which functions a pointer leads to is not known: that one needs more registers proves nothing.
  const uint32_t certain =
      std::max(r.certain_vgprs, r.certain_agprs == 0 ? 0 : plan->initial.accum_offset + r.certain_agprs);
  if (certain > plan->rows) {
    throw SimError(Reason::bad_code_object, name + " uses " + std::to_string(certain) +
                                                " vector registers, its descriptor allots " +
                                                std::to_string(plan->rows));
  }
  plan->initial.rows = std::max({plan->rows, r.any_vgprs, plan->initial.accum_offset + r.any_agprs});
  plan->sgprs = std::clamp(r.sgprs, plan->system_sgpr + kSystemSgprs, uint32_t{kScalarRegs});
  if (r.indexed) return;
  plan->vgprs = std::max(r.vgprs, 1u);  // at least v0, which holds the work-item id
  plan->agprs = r.agprs;
  if (!r.images && r.any_vgprs == 0) plan->initial.rows = std::max(plan->vgprs, agprs);
}

Context Device::Impl::context(const Launch& launch, const LaunchPlan& plan, KernelSlice* slice, Footprint* out) {
  const Program& p = program(*launch.module);
  return {.arch = arch,
          .program = p,
          .kernel = *launch.kernel,
          .memory = memory,
          .bank_costs = bank_costs,
          .host = *host,
          .steps = values ? p.steps.data() : slice->steps().data(),
          .model = &functional,
          .footprint = out,
          .latency = latencies_of(spec),
          .jump_cycles = static_cast<uint32_t>(spec.issue.branch_cycles - spec.issue.wave_cycles),
          .scratch_lane_bytes = plan.scratch_lane_bytes,
          .scratch_base = plan.scratch_lane_bytes ? runtime.scratch(1) : 0,
          .clock = clock,
          .realtime_ticks = spec.clock.realtime_mhz / spec.clock.core_mhz,
          .strict_bounds = options.strict_bounds,
          .lds_fill = options.lds_fill};
}

// `out`: where accesses are recorded, or null. `count`: whether the memory hierarchy is modelled if the device does it.
// `proven`: an earlier equal dispatch has been counted or run, so that its decisive loads are known to read the same.
Execution Device::Impl::execute(const Launch& launch, const LaunchPlan& plan, Footprint* out, bool count,
                                const Repeat* proven) {
  if (options.exact_sums) begin_exact_sums();
  const KernelKey key{launch.module->serial(), launch.kernel->entry};
  const bool functional_run = !count || !hierarchy;
  KernelSlice& slice = slices.try_emplace(key, program(*launch.module), *launch.kernel).first->second;
  Context initial = context(launch, plan, &slice, out);
  if (tally && !functional_run) {
    tally->begin(launch, initial.program, *hierarchy);
    initial.tally = tally.get();
  }
  accesses.clear();
  if (options.races && !functional_run) initial.accesses = &accesses;
  const PreparedLaunch prepared{.launch = launch,
                                .plan = plan,
                                .spec = spec,
                                .context = initial,
                                .limits = {options.max_wave_instructions,
                                           options.cpu_seconds,
                                           proven ? ~0ull : most_work,
                                           {options.one_in, options.which},
                                           options.poll},
                                .slice = slice,
                                .waits = traits_of(launch).waits,
                                .waves = waves,
                                .freedom = functional_run ? freedom(launch, proven) : Freedom::none,
                                .printf_buffer = reinterpret_cast<uint8_t*>(runtime.printf_buffer),
                                .spent = &spent,
                                .duration_error = [&](const Execution& e) {
                                  return duration_error(spec, timed_work(launch, plan, e), e.sampling.error);
                                }};
  Execution e = chooser().execute(prepared, count ? hierarchy.get() : nullptr);
  if (initial.tally) tally->end(e.executed);
  instructions = e.counts.wave_instructions;
  if (budget.limited()) instruction_ns = price_of(issue_counts(prepared.context.program, e.executed));
  clock += e.counts.wave_instructions * kCyclesPerInstruction;
  return e;
}

// What the timing model takes from an execution.
Work Device::Impl::timed_work(const Launch& launch, const LaunchPlan& plan, const Execution& e) {
  Work work = work_of(plan, issue_counts(program(*launch.module), e.executed), e.counts, hierarchy.get());
  const double long_groups = e.lives.groups.working_share(), longest = e.lives.groups.longest_share();
  // If each long group has a CU of its own, the dispatch ends with the longest; else short ones make room for others.
  const bool apart = work.groups * long_groups <= spec.topology.cus;
  work.working_groups = work.groups * (apart ? longest : long_groups);
  work.working_waves = work.waves * e.lives.waves.working_share() * (apart ? longest / long_groups : 1);
  return work;
}

// Fills counters, duration and details of a dispatch from the events of its execution.
void Device::Impl::count_and_time(const Launch& launch, const LaunchPlan& plan, const Execution& e, Dispatch* d) {
  const Program& p = program(*launch.module);
  const Work work = timed_work(launch, plan, e);
  if (!options.counters) {
    d->duration_ns = estimate(spec, work).duration_ns;
    return;
  }
  count_instructions(p, e.counts, e.executed, &d->counters);
  if (hierarchy) {
    hierarchy->join_halves(estimate(spec, work).halves_apart);
    hierarchy->counters(&d->counters);
    const MemoryCounts& n = hierarchy->counts();
    d->traffic = {static_cast<double>(n.hbm_read_bytes), static_cast<double>(n.hbm_write_bytes),
                  static_cast<double>(n.infinity_hits)};
  }
  derive_counters(&d->counters);
  const KernelInfo& k = *launch.kernel;
  d->registers = {static_cast<double>(k.vgprs), static_cast<double>(k.agprs), static_cast<double>(k.sgprs),
                  static_cast<double>(plan.lds_bytes), static_cast<double>(plan.scratch_lane_bytes)};
  d->occupancy = {.peak_waves = static_cast<double>(e.peak_waves)};
  time_dispatch(spec, plan, work, d);
  if (d->sampling.strategy != Strategy::exact) {
    d->sampling.error["Duration"] = duration_error(spec, work, d->sampling.error);
    d->sampling.error.erase(kMemoryBytes);
  }
}

const KernelTraits& Device::Impl::traits_of(const Launch& launch) {
  program(*launch.module);
  const auto [at, fresh] = traits.try_emplace({launch.module->serial(), launch.kernel->entry});
  if (fresh) at->second = mark_decisive_loads(programs[launch.module->serial()].get(), *launch.kernel);
  return at->second;
}

// The record of an execution, from which text and sampling are moved.
Dispatch Device::Impl::record(const Launch& launch, const LaunchPlan& plan, Execution* e) {
  Dispatch d;
  d.grid = launch.grid;
  d.block = launch.block;
  d.printf_output = std::move(e->text.output);
  d.printf_errors = std::move(e->text.errors);
  d.out_of_bounds = e->out_of_bounds.count;
  d.out_of_bounds_at = e->out_of_bounds.instruction;
  d.first_race = accesses.take();
  d.first_unfenced = accesses.take_unfenced();
  d.first_out_of_bounds = std::move(e->out_of_bounds.first);
  d.sampling = std::move(e->sampling);
  d.treatment.coarse = usual && d.sampling.strategy == Strategy::sampled;
  count_and_time(launch, plan, *e, &d);
  return d;
}

// Counts a dispatch; remembers it in `repeat` unless that is null.
Dispatch Device::Impl::run(const Launch& launch, const LaunchPlan& plan, Repeat* repeat) {
  footprint.clear();
  Counted counted = repeats.begin(repeat, chooser().memory_of(launch), hierarchy.get());
  const uint64_t start = clock;
  Execution e = execute(launch, plan, repeat ? &footprint : nullptr, true);
  if (!repeat) {
    repeats.end(nullptr, {}, footprint, hierarchy.get());
    return record(launch, plan, &e);
  }
  bool own_memory_written = footprint.forget({plan.kernarg, plan.kernarg_bytes});
  own_memory_written |= footprint.forget(runtime.block());
  counted.cycles = clock - start;
  counted.work = simulation_work(e.counts, hierarchy ? hierarchy->counts() : MemoryCounts{});
  bool keeps = !own_memory_written && e.out_of_bounds.count == 0 && e.text.output.empty() && e.text.errors.empty();
  const Sampling sampling = e.sampling;
  Dispatch d = record(launch, plan, &e);
  // A repetition is not the device's first dispatch.
  const bool first = std::exchange(counted.before.first, false) && hierarchy && !hierarchy->first_as_later();
  keeps &= !first || sampling.strategy != Strategy::sampled;
  Counted* kept = repeats.end(keeps ? repeat : nullptr, std::move(counted), footprint, hierarchy.get());
  if (!kept) return d;
  kept->dispatch = d;
  if (first) {
    hierarchy->set_counts(hierarchy->counts_if_later());
    kept->dispatch.sampling = sampling;
    kept->dispatch.counters.clear();
    count_and_time(launch, plan, e, &kept->dispatch);
  }
  repeat->apart = e.apart;
  if (repeat->seen > 1) Repeats::take_fingerprints(repeat);
  return d;
}

Freedom Device::Impl::freedom(const Launch& launch, const Repeat* proven) {
  const KernelTraits& kernel = traits_of(launch);
  if (!kernel.repeatable || kernel.ordered || launch.cooperative) return Freedom::none;
  return freedom_of(program(*launch.module), *launch.kernel, proven != nullptr, proven && proven->apart);
}

// Runs a dispatch for its results and what it prints. `repeat`: see execute(), or null.
void Device::Impl::run_functionally(const Launch& launch, const LaunchPlan& plan, Repeat* repeat, Dispatch* d) {
  Execution e = execute(launch, plan, nullptr, false, repeat);
  if (repeat) repeat->apart |= e.apart;
  d->printf_output = std::move(e.text.output);
  d->printf_errors = std::move(e.text.errors);
}

Dispatch Device::Impl::reuse(const Launch& launch, const LaunchPlan& plan, Repeat* repeat, const Counted& counted) {
  Dispatch d = counted.dispatch;
  d.sampling.reused = 1;
  if (results_needed(d) && !Repeats::holds_results(*repeat)) {
    // Without the memory model waves run in another order.
    if (traits_of(launch).ordered) return run(launch, plan, repeat);
    const uint64_t before = clock;
    run_functionally(launch, plan, repeat, &d);
    clock = before;
    Repeats::take_fingerprints(repeat);
  }
  clock += counted.cycles;
  ++repeat->seen;
  repeats.reused(*repeat, counted, hierarchy.get());
  return d;
}

// What is known of equal dispatches; null if none of a kernel is looked for.
Repeat* Device::Impl::find_repeat(const Launch& launch, const LaunchPlan& plan) {
  if (!options.reuse || options.keep_l2 || tally || !traits_of(launch).repeatable) return nullptr;
  return &repeats.find(launch, plan, plan.scratch_lane_bytes ? runtime.scratch(1) : 0, memory.layout());
}

Dispatch Device::Impl::run_or_reuse(const Launch& launch, const LaunchPlan& plan) {
  Repeat* found = find_repeat(launch, plan);
  if (!found) return run(launch, plan, nullptr);
  Repeat& repeat = *found;
  for (const Extents* pages : {&repeat.decisive, &repeat.touched}) {
    for (const Extent& e : *pages) compared += 2 * e.bytes;  // before the launch and after it
  }
  const Counted* counted = repeats.match(repeat, chooser().memory_of(launch), hierarchy.get());
  return counted ? reuse(launch, plan, &repeat, *counted) : run(launch, plan, &repeat);
}

// Whether the kernel's slice can be counted alone, before the whole kernel runs for its results.
bool Device::Impl::counts_apart(const Launch& launch) {
  if (!options.values || !hierarchy || asked.sampling_units == 0 || !traits_of(launch).repeatable) return false;
  const KernelKey key{launch.module->serial(), launch.kernel->entry};
  KernelSlice& slice = slices.try_emplace(key, program(*launch.module), *launch.kernel).first->second;
  return is_pure(slice.steps(), *launch.kernel);
}

// Calls `execute` with a limit on the work of each execution, pays for it, and returns the price in ns.
double Device::Impl::pay(double limit_ns, ShapeHistory* shape, const std::function<Dispatch()>& execute, Dispatch* d) {
  spent = {};
  compared = instructions = 0;
  instruction_ns = shape->instruction_ns;
  most_work = static_cast<uint64_t>(limit_ns / std::max(instruction_ns, kPrices.modelled));
  const auto settle = [&](double more_ns) {
    most_work = ~0ull;
    const double ns = more_ns + static_cast<double>(spent.instructions) * instruction_ns +
                      static_cast<double>(spent.modelled) * kPrices.modelled +
                      static_cast<double>(compared) * kPrices.compared;
    budget.spend(ns);
    return ns;
  };
  try {
    *d = execute();
  } catch (const SimError&) {
    settle(limit_ns);
    throw;
  }
  shape->instruction_ns = instruction_ns;
  if (instructions > 0) shape->running_ns = static_cast<double>(instructions) * instruction_ns;
  return settle(0);
}

// Whether a failed launch is left as it is: it exceeds the budget, or works on what another one did not compute.
bool Device::Impl::gives_up(const SimError& error) const {
  return error.reason == Reason::over_budget || (budget.results_lost && error.reason != Reason::time_limit);
}

// Counts a launch; false if that was given up. A large grid is sampled, which computes no results; so only the slice is
// counted where possible, and the kernel runs later for its results. `*intact`: whether memory is as before.
bool Device::Impl::count_within_budget(const Launch& launch, const LaunchPlan& plan, Counting how, Dispatch* d,
                                       bool* intact) {
  ShapeHistory& shape = histories[shape_of(launch)];
  *intact = how == Counting::first && counts_apart(launch);
  const Fineness fineness = budget.fineness(asked, *intact);
  options.sampling_units = how == Counting::first ? fineness.units : 0;
  options.sample_above = fineness.sample_above;
  values = options.values && !*intact;
  double ns = 0;
  bool done = true;
  budget.spend(kPrices.launch);
  try {
    const auto execute = [&] { return *intact ? run(launch, plan, nullptr) : run_or_reuse(launch, plan); };
    ns = pay(budget.counting_limit_ns(), &shape, execute, d);
  } catch (const SimError& error) {
    if (!gives_up(error)) throw;
    done = false;
  }
  values = options.values;
  shape.too_long = !done;
  if (!done) {
    reset_caches();
    return false;
  }
  d->treatment.results = !*intact && d->sampling.strategy == Strategy::exact;
  d->treatment.coarse = fineness.coarse && d->sampling.strategy == Strategy::sampled;
  (hierarchy && !d->sampling.reused ? d->treatment.counting_ns : d->treatment.running_ns) = ns;
  if (how == Counting::again && !d->sampling.reused) budget.spend_on_repeats(ns);
  if (!d->sampling.reused) shape.counting_ns = ns;
  shape.exact = d->sampling.strategy == Strategy::exact;
  ++shape.counted;
  shape.last = *d;
  shape.last.printf_output.clear();
  shape.last.printf_errors.clear();
  return true;
}

void Device::Impl::run_if_affordable(const Launch& launch, const LaunchPlan& plan, Dispatch* d) {
  ShapeHistory& shape = histories[shape_of(launch)];
  const double room = spendable_ns(budget, histories, *launch.module, options.budget_s, shape.running_ns);
  if (!budget.may_run(shape) || room <= shape.running_ns) return;
  const double before = budget.left_ns();
  budget.spend(kPrices.launch);
  Dispatch ran;
  const auto execute = [&] {
    run_functionally(launch, plan, nullptr, &ran);
    return ran;
  };
  try {
    d->treatment.running_ns = pay(room, &shape, execute, &ran);
  } catch (const SimError& error) {
    if (!gives_up(error)) throw;
    shape.running_ns = std::numeric_limits<double>::infinity();
    d->treatment.running_ns = before - budget.left_ns();
    return;
  }
  d->treatment.results = true;
  d->printf_output = std::move(ran.printf_output);
  d->printf_errors = std::move(ran.printf_errors);
}

Dispatch Device::Impl::launch_within_budget(const Launch& launch, const LaunchPlan& plan) {
  ShapeHistory& shape = histories[shape_of(launch)];
  Counting how = budget.counting(shape);
  if (!is_settled(histories, *launch.module, *launch.kernel)) {
    how = budget.left_ns() > 0 ? Counting::first : Counting::none;
  } else if (spendable_ns(budget, histories, *launch.module, options.budget_s, shape.counting_ns) <=
             shape.counting_ns) {
    how = Counting::none;
  }
  Dispatch d;
  bool intact = true;
  const double before = budget.left_ns();
  const bool counted = how != Counting::none && count_within_budget(launch, plan, how, &d, &intact);
  if (!counted) {
    const double tried_ns = before - budget.left_ns();
    d = shape.last;
    d.grid = launch.grid;
    d.block = launch.block;
    d.sampling.reused = shape.counted > 0;
    d.treatment = {.counted = shape.counted > 0, .results = false, .counting_ns = tried_ns};
  }
  if (!d.treatment.results && intact && options.values) run_if_affordable(launch, plan, &d);
  budget.results_lost |= options.values && !d.treatment.results;
  return d;
}

Dispatch Device::launch(const Launch& launch) {
  Impl& m = *impl_;
  if (!launch.module || !launch.kernel) throw SimError(Reason::bad_launch, "launch without a kernel");
  m.offer_services(*launch.kernel);
  LaunchPlan plan = plan_launch(m.arch, m.spec, launch, m.runtime);
  m.check_code(launch, &plan);
  if (m.budget.limited()) return m.launch_within_budget(launch, plan);
  if (m.options.per_kernel == 0) return m.run_or_reuse(launch, plan);
  Impl::Shape& shape = m.shapes[shape_of(launch)];
  if (shape.counted < m.options.per_kernel) {
    ++shape.counted;
    return shape.last = m.run_or_reuse(launch, plan);
  }
  Dispatch d = shape.last;
  d.sampling.reused = 1;
  if (m.results_needed(d)) m.run_functionally(launch, plan, Repeats::require_proven(m.find_repeat(launch, plan)), &d);
  return d;
}

}  // namespace hipsynth
