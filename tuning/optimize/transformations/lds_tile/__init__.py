"""Tiles in the LDS: a group computes a tile of results, each lane several of them in registers, and what the loop over
the common dimension reads is loaded once per group. It makes a product of matrices bound by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import TiledLoop, find_tiled_loop
from hipsynth.tuning.optimize.transformations.transformation import Transformation

LANES = 16  # of a group along each of x and y
# Results of a lane along x and y, and iterations of the loop that are staged at a time; those with most reuse first.
TILES: tuple[Shape, ...] = ((8, 8, 8), (4, 8, 16), (8, 4, 16), (4, 4, 16), (2, 2, 32), (1, 1, 32))
MANY_GROUPS = 1024  # about three for each compute unit of a large device: with fewer of them, latency shows


def find_loop(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> TiledLoop | None:
    """The loop of a kernel whose loads a group can share; None if it has none."""
    try:
        return find_tiled_loop(program, kernel, block)
    except NotUnderstood:
        return None


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    fresh = view.plan in (TransformationPlan(), TransformationPlan(tile=view.plan.tile))
    if not view.kernel.independent or not fresh or not has_distinct_pointers(view.program, view.kernel):
        return
    if find_loop(view.program, view.kernel, view.block) is None:
        return
    fitting = [tile for tile in TILES if all(view.extent(axis) >= LANES * tile[axis] for axis in (0, 1))]
    # Those that fill the device, the largest first; then the others, the smallest first.
    for tile in sorted(fitting, key=lambda tile: max(0, MANY_GROUPS - _count_groups(view, tile))):
        yield TransformationPlan(tile=tile)


def _count_groups(view: KernelView, tile: Shape) -> int:
    return view.grid[2] * math.prod(-(-view.extent(axis) // (LANES * tile[axis])) for axis in (0, 1))


def is_evident(view: KernelView, plan: TransformationPlan) -> bool:
    """Whether a plan has the first tile that is offered."""
    return view.plan.tile is None and plan == next(list_plans(view), None)


TRANSFORMATION = Transformation(
    helps=("vl1d", "valu", "latency", "l2", "issue", "hbm", "infinity", "fabric"),
    counter="TCP_TOTAL_CACHE_ACCESSES",
    list_plans=list_plans,
    is_evident=is_evident,
)
