"""Vectorised access: a lane executes neighbouring work-items together, whose loads and stores the compiler merges into
wide ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.jam import can_jam
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    axis = view.plan.lanes
    if not view.kernel.independent or view.plan.aggregate or view.plan.split or not can_jam(view, axis):
        return
    for factor in (2, 4, 8):
        if view.extent(axis) >= 64 * factor:
            yield replace(view.base, axis=axis, coarsen=factor, adjacent=True, jam=True, rows=1, restrict=True)


TRANSFORMATION = Transformation((), "SQ_INSTS_VMEM", list_plans)
