// The one place that names the parts of a dispatch: for the runtime's JSON and for the Python binding.
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

// Tells a visitor every part of a dispatch, or of the sum of several, by the name it has in a kernel record. Of several
// dispatches a `number` is their sum; a `mean` is given as the sum and wanted as their mean. `part` takes a function
// that visits a nested object.
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
  });
}

}  // namespace hipsynth
