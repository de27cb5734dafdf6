"""Unroll and jam over work-items: a lane executes several together, so that what they share is loaded once and their
loads overlap. The loops around are shared, which is an interchange of the loop over work-items with those inside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.jam.jammed_body import jammed
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

FACTORS = (2, 4, 8)


def can_jam(view: KernelView, *axes: int) -> bool:
    """Whether several work-items along these axes can be executed together."""
    try:
        jammed(view.program, view.kernel, dict.fromkeys(axes, 2))
    except NotUnderstood:
        return False
    return True


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.kernel.independent or view.plan.aggregate or view.plan.split:
        return
    for axis in view.axes:
        if can_jam(view, axis):
            for factor in FACTORS:
                if view.extent(axis) >= 2 * factor:
                    base = replace(
                        view.base, axis=axis, coarsen=factor, adjacent=False, rows=1, jam=True, restrict=True
                    )
                    yield base
                    if view.plan.shape is None and axis != view.plan.lanes:
                        flat = [1, 1, 1]
                        flat[view.plan.lanes] = 256
                        yield replace(base, shape=(flat[0], flat[1], flat[2]))


TRANSFORMATION = Transformation((), "TCP_TOTAL_CACHE_ACCESSES", list_plans)
