"""Windows through the LDS: a group loads the part of an array that its work-items' windows cover once, with its halo.
For stencils and convolutions, whose neighbours read the same elements again and again."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.halo_tile.window import WindowKernel, find_windows
from hipsynth.tuning.optimize.transformations.halo_tile.window_source import MOST_LDS, count_bytes, tile_shape
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

EACH = (4, 2)  # results of a lane


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    fresh = view.plan in (TransformationPlan(), TransformationPlan(halo=view.plan.halo))
    if not view.kernel.independent or not fresh or not has_distinct_pointers(view.program, view.kernel):
        return
    windowed = _find(view)
    for each in EACH if windowed else ():
        assert windowed is not None
        widths, _ = tile_shape(windowed, each)
        fits = all(view.extent(axis) >= widths[axis] for axis in windowed.axes)
        if fits and count_bytes(windowed, each) <= MOST_LDS:
            yield TransformationPlan(halo=each)


def _find(view: KernelView) -> WindowKernel | None:
    try:
        return find_windows(view.program, view.kernel, view.block)
    except NotUnderstood:
        return None


TRANSFORMATION = Transformation(
    helps=("vl1d", "latency", "l2", "issue"),
    counter="TCP_TOTAL_CACHE_ACCESSES",
    list_plans=list_plans,
)
