"""A tile of work-items in the registers of each lane: what a row of them shares and what a column shares is loaded once
for all, and loops are unrolled so that loads overlap. The tile makes a product of matrices bound by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.jam import can_jam
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

TILES = ((4, 4), (2, 4), (4, 8), (2, 2))  # along x, along y
SHAPES: tuple[Shape, ...] = ((64, 4, 1), (16, 16, 1), (32, 8, 1))
UNROLL = 4


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    plan = view.plan
    other = plan.split or plan.private or plan.lanes or "for" not in view.words
    if (
        not view.kernel.independent
        or view.plan.aggregate
        or other
        or not {0, 1} <= set(view.axes)
        or not can_jam(view, 0, 1)
    ):
        return
    for x, y in TILES:
        for shape in SHAPES:
            if view.extent(0) >= x * shape[0] and view.extent(1) >= y * shape[1] and math.prod(shape) <= 1024:
                jammed = replace(plan, shape=shape, axis=0, coarsen=x, rows=y, adjacent=False, jam=True, restrict=True)
                yield replace(jammed, unroll=plan.unroll or UNROLL)


TRANSFORMATION = Transformation(("vl1d", "valu", "latency", "l2", "issue"), "TCP_TOTAL_CACHE_ACCESSES", list_plans)
