#include "dispatch/strategy.h"

#include <algorithm>
#include <utility>

#include "core/hostcall.h"

namespace hipsynth {
namespace {

PrintfText take_text(const PreparedLaunch& p) {
  PrintfText text = read_printf(p.printf_buffer, RuntimeMemory::kPrintfBytes, p.launch.module->printf_formats());
  text.output += p.context.host.take_output();
  text.errors += p.context.host.take_errors();
  return text;
}

// Runs an engine to its end. Returns what the kernel printed; if the run throws, adds that to the error.
template <class AnyEngine>
PrintfText run(const PreparedLaunch& p, AnyEngine* engine) {
  try {
    engine->run();
  } catch (SimError& error) {
    PrintfText text = take_text(p);
    error.output = std::move(text.output);
    error.errors = std::move(text.errors);
    throw;
  }
  return take_text(p);
}

void begin(const PreparedLaunch& p, MemoryModel* memory, Context* c) {
  reset_printf(p.printf_buffer, RuntimeMemory::kPrintfBytes);
  memory->begin_dispatch();
  p.waves.prepare(p.plan.initial.rows);
  c->model = memory;
}

// Result of an execution that covered every work-group.
Execution whole_grid(const PreparedLaunch& p, const Context& c, const Engine& engine) {
  Execution e;
  e.executed = engine.executions();
  e.counts = c.counts;
  if (!engine.lives().empty()) e.lives = engine.lives().front();
  e.out_of_bounds = c.out_of_bounds;
  e.peak_waves = engine.peak_waves();
  e.sampling.groups_simulated = p.plan.total_groups;
  return e;
}

}  // namespace

// `peak_waves` is what fits on the device.
Execution ExactStrategy::execute_functionally(const PreparedLaunch& p) {
  reset_printf(p.printf_buffer, RuntimeMemory::kPrintfBytes);
  FunctionalEngine engine(p.context, p.limits, p.launch, p.plan, p.waves, p.freedom);
  Execution e;
  e.text = run(p, &engine);
  e.executed = engine.executions();
  e.counts = engine.counts();
  p.spent->instructions += e.counts.wave_instructions;
  e.out_of_bounds = engine.out_of_bounds();
  e.apart = engine.apart();
  const Occupancy& o = p.plan.occupancy;
  const auto room = static_cast<uint64_t>(p.spec.topology.cus) * o.groups_per_cu;
  e.peak_waves = std::min(room, p.plan.total_groups) * o.waves_per_group;
  e.sampling.groups_simulated = p.plan.total_groups;
  return e;
}

std::optional<Execution> ExactStrategy::execute(const PreparedLaunch& p) {
  if (!hierarchy_ && p.freedom != Freedom::none) return execute_functionally(p);
  const auto memory =
      hierarchy_ ? std::make_unique<CountedMemory>(p.spec, *hierarchy_) : std::make_unique<MemoryModel>();
  Context c = p.context;
  c.steps = steps_;
  begin(p, memory.get(), &c);
  Engine engine(c, p.spec, p.limits, p.launch, p.plan, p.waves);
  PrintfText text = run(p, &engine);
  memory->end_dispatch();
  p.spent->add(c.counts, hierarchy_ ? hierarchy_->counts() : MemoryCounts{});
  Execution e = whole_grid(p, c, engine);
  e.text = std::move(text);
  return e;
}

std::optional<Execution> SampledStrategy::execute(const PreparedLaunch& p) {
  CountedMemory memory(p.spec, hierarchy_);
  Context c = p.context;
  c.steps = steps_;
  if (!c.footprint) c.footprint = footprint_;
  begin(p, &memory, &c);
  Sampler sampler(c, memory, p.spec, options_, p.plan, p.slice, traces_);
  Engine engine(c, p.spec, p.limits, p.launch, p.plan, p.waves, &sampler);
  PrintfText text = run(p, &engine);
  p.spent->add(c.counts, hierarchy_.counts());
  if (sampler.stops()) return std::nullopt;
  memory.end_dispatch();
  Execution e = whole_grid(p, c, engine);
  e.text = std::move(text);
  e.lives = sampler.whole(engine.lives());
  if (!sampler.sampling()) return e;
  Extrapolation whole = extrapolate(sampler.finish(engine.runs()), c.program, &hierarchy_);
  e.executed = std::move(whole.executed);
  e.counts = whole.counts;
  e.sampling = {Strategy::sampled, whole.groups_simulated, 0, std::move(whole.error), 0};
  return e;
}

std::optional<Execution> ReplayedStrategy::execute(const PreparedLaunch& p) {
  CountedMemory memory(p.spec, hierarchy_);
  Context c = p.context;
  c.model = &memory;
  memory.begin_dispatch();
  p.waves.prepare(0);
  EngineLimits limits = p.limits;
  limits.wave_instructions = limits.most_work = ~0ull;  // instructions are counted, not executed
  std::optional<PartialReplay> part;
  if (groups_ < p.plan.total_groups) part.emplace(traces_, machine_of(p.spec, p.plan), groups_, p.plan.total_groups);
  Engine engine(c, p.spec, limits, p.launch, p.plan, p.waves);
  engine.replay(traces_, memory, part ? &*part : nullptr);
  engine.run();
  memory.end_dispatch();
  Execution e = whole_grid(p, c, engine);
  p.spent->modelled += traces_.work() * groups_;
  e.sampling.strategy = Strategy::replayed;
  e.sampling.groups_recorded = traces_.recorded;
  if (part) extrapolate(p, *part, engine, &e);
  return e;
}

// Takes the whole grid's counts instead of those of the part that was replayed.
void ReplayedStrategy::extrapolate(const PreparedLaunch& p, const PartialReplay& part, const Engine& engine,
                                   Execution* e) {
  Extrapolation whole = part.estimate(e->counts, std::move(e->executed), p.context.program, &hierarchy_);
  e->executed = std::move(whole.executed);
  e->counts = whole.counts;
  e->lives = {};
  if (!engine.lives().empty()) {
    const auto groups = static_cast<double>(p.plan.total_groups);
    e->lives.groups.add(engine.lives().front().groups, groups);
    e->lives.waves.add(engine.lives().front().waves, groups * p.plan.occupancy.waves_per_group);
  }
  e->sampling = {Strategy::sampled, whole.groups_simulated, traces_.recorded, std::move(whole.error), 0};
}

}  // namespace hipsynth
