"""Thread coarsening: a lane executes several work-items one after the other, a group's width apart, so that accesses
stay coalesced and fewer waves are launched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import WORK, Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.kernel.independent or view.plan.split or view.plan.jam:
        return
    for axis in view.axes:
        for factor in (2, 4, 8, 16):
            if view.extent(axis) >= 2 * factor:
                yield replace(view.base, axis=axis, coarsen=factor, adjacent=False, rows=1)


TRANSFORMATION = Transformation(WORK, "SQ_WAVES", list_plans)
