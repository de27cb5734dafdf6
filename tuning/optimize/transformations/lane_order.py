"""Lanes along another axis of the grid, where neighbours along that axis read neighbouring addresses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import MOST_GROUPS, KernelView
from hipsynth.tuning.optimize.transformations.transformation import MEMORY, Transformation
from hipsynth.tuning.optimize.transformations.unit_strides import count_unit_strides


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.kernel.independent or view.plan.split:
        return
    for axis in view.axes:
        if axis == view.plan.lanes or view.extent(axis) < 16 or axis == 0:
            continue
        for along, across in ((64, 1), (64, 4), (16, 16)):
            if -(-view.extent(0) // across) > MOST_GROUPS:
                continue
            shape = [1, 1, 1]
            shape[axis], shape[0] = along, across
            yield replace(
                view.base,
                shape=(shape[0], shape[1], shape[2]),
                lanes=axis,
                coarsen=1,
                jam=False,
                adjacent=False,
                rows=1,
            )


def runs_along_memory(view: KernelView, plan: TransformationPlan) -> bool:
    """Whether more accesses are to neighbouring elements along the plan's axis than along that of the lanes now. Of
    the shapes for an axis, the first one is enough."""
    strides = count_unit_strides(view)
    first = next(other for other in list_plans(view) if other.lanes == plan.lanes)
    return plan == first and strides[plan.lanes] > strides[view.plan.lanes]


TRANSFORMATION = Transformation(MEMORY, "TCP_TOTAL_CACHE_ACCESSES", list_plans, runs_along_memory)
