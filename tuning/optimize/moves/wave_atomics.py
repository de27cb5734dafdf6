"""One atomic addition per wavefront and address, where each lane wants the place that its own would have given it: a
queue, a compaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.aggregate import aggregated
from hipsynth.tuning.optimize.moves.view import KernelView
from hipsynth.tuning.optimize.plan import TransformationPlan
from hipsynth.tuning.optimize.privatise import TYPES


def options(view: KernelView) -> Iterator[TransformationPlan]:
    bases = {one.base for one in view.kernel.parameters if one.base and not one.constant}
    if view.plan.aggregate or view.plan.jam or view.kernel.fixed or not bases & (TYPES.keys() - {"float"}):
        return
    if any(aggregated(view.program, view.kernel)):
        yield replace(view.plan, aggregate=True)
