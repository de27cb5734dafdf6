"""Square tiles through the LDS where lanes load along one axis and store along the other one: both then run along
memory. It makes transposes bound by the memory."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import find_transposed_loads
from hipsynth.tuning.optimize.transformations.transformation import Transformation

SIDES = (32, 64)  # of a tile, in work-items


def is_transposition(view: KernelView) -> bool:
    """Whether the kernel loads along one axis what it stores along the other one."""
    try:
        find_transposed_loads(view.program, view.kernel, view.block)
    except NotUnderstood:
        return False
    return True


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    fresh = view.plan in (TransformationPlan(), TransformationPlan(transpose=view.plan.transpose))
    if (
        not view.kernel.independent
        or not fresh
        or not has_distinct_pointers(view.program, view.kernel)
        or not is_transposition(view)
    ):
        return
    for side in SIDES:
        if view.extent(0) >= side and view.extent(1) >= side:
            yield TransformationPlan(transpose=side)


TRANSFORMATION = Transformation(
    helps=("vl1d", "latency", "l2", "hbm", "infinity", "fabric"),
    counter="TCP_TCC_WRITE_REQ",
    list_plans=list_plans,
    is_evident=lambda view, plan: not view.plan.transpose,
)
