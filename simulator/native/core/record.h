// Names of all parts of a dispatch record, shared by the runtime's JSON and the Python binding.
#pragma once

#include "core/dispatch.h"

namespace hipsynth {

template <class Visitor, class Part>
void visit_numbers(Visitor& v, const Part& part) {
  for (const Field<Part>& field : Part::kFields) v.number(field.name, part.*field.member);
}

template <class Visitor, class Part>
void visit_means(Visitor& v, const Part& part) {
  for (const Field<Part>& field : Part::kFields) v.mean(field.name, part.*field.member);
}

template <class Visitor>
void visit(Visitor& v, const Limits& limits) {
  v.text("bottleneck", kBoundNames[static_cast<size_t>(limits.bottleneck)]);
  v.number("wave_cycles", limits.wave_cycles);
  v.part("bounds", [&](Visitor& bounds) {
    for (size_t i = 0; i < kBoundNames.size(); ++i) bounds.number(kBoundNames[i], limits.bounds[i]);
  });
}

// Visits every part of a dispatch, or of the sum of several dispatches, by its name in a kernel record. Over several
// dispatches a `number` is summed; a `mean` is passed as the sum and reported as the mean. `part` takes a function that
// visits a nested object.
template <class Visitor>
void visit(Visitor& v, const Dispatch& d) {
  v.shape("grid", d.grid);
  v.shape("block", d.block);
  v.number("duration_ns", d.duration_ns);
  v.numbers("counters", d.counters);
  if (d.registers) v.part("registers", [&](Visitor& part) { visit_means(part, *d.registers); });
  if (d.occupancy) {
    v.part("occupancy", [&](Visitor& part) {
      visit_means(part, *d.occupancy);
      part.text("limited_by", kLimiterNames[static_cast<size_t>(d.limited_by)]);
    });
  }
  if (d.limits) v.part("limits", [&](Visitor& part) { visit(part, *d.limits); });
  if (d.work) v.part("work", [&](Visitor& part) { visit_numbers(part, *d.work); });
  if (d.traffic) v.part("traffic", [&](Visitor& part) { visit_numbers(part, *d.traffic); });
  v.part("sampling", [&](Visitor& part) {
    part.text("strategy", kStrategyNames[static_cast<size_t>(d.sampling.strategy)]);
    part.count("groups_simulated", d.sampling.groups_simulated);
    part.count("groups_recorded", d.sampling.groups_recorded);
    part.numbers("error", d.sampling.error);
    part.count("reused", d.sampling.reused);
  });
}

}  // namespace hipsynth
