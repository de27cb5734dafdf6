"""A row per group, wavefront or part of one: its lanes share the loops of one work-item, so that neighbours read
neighbouring addresses where each lane walked along a row of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.split_loops.first_places import FIRST_OF_LANES
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import LANE, LANES, WAVE
from hipsynth.tuning.optimize.transformations.split_loops.shared_loops import split_edits
from hipsynth.tuning.optimize.transformations.transformation import MEMORY, Transformation

LANES_OF_AN_ITEM = (64, 256, 16, 4, 1024)
GROUP = 256  # lanes, at least
FEW_ITEMS = 4096  # work-items below which wavefronts of one each do not fill a device, and groups of one may


def can_split(view: KernelView, lanes: int) -> bool:
    """Whether the kernel has a loop that lanes can share."""
    try:
        split_edits(Body(view.program, view.kernel), lanes)
    except NotUnderstood:
        return False
    return True


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    rewritten = view.plan.jam or view.plan.private or view.plan.extremes or view.plan.lanes or view.plan.coarsen > 1
    if (
        not view.kernel.independent
        or view.plan.aggregate
        or rewritten
        or view.plan.split
        or not has_distinct_pointers(view.program, view.kernel)
        or not can_split(view, LANES_OF_AN_ITEM[0])
    ):
        return
    few = math.prod(view.extent(axis) for axis in range(3)) <= FEW_ITEMS
    for lanes in LANES_OF_AN_ITEM:
        if lanes <= WAVE or (few and can_split(view, lanes)):
            yield replace(view.plan, shape=(max(GROUP, lanes), 1, 1), split=lanes, restrict=True)


TRANSFORMATION = Transformation(
    helps=MEMORY,
    counter="TCP_TOTAL_CACHE_ACCESSES",
    list_plans=list_plans,
    is_planned=lambda plan: bool(plan.split),
    edit_body=lambda program, kernel, plan: split_edits(Body(program, kernel), plan.split),
    helper=LANES + FIRST_OF_LANES,
    parameter=(f"const unsigned {LANE}", LANE),
)
