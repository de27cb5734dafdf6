"""Matrix cores: wavefronts add products of matrices with matrix instructions, from tiles in the LDS, in the precision
of the original. It makes a product bound by the matrix cores."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hipsynth.tuning.optimize.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.hints import passes_distinct_pointers
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.matrix_cores.matrix_source import check_product
from hipsynth.tuning.optimize.transformations.transformation import Transformation

# Results of a group along x and y, and iterations of the loop that are staged at a time; those with most reuse first.
TILES: tuple[Shape, ...] = ((128, 128, 16), (64, 64, 16), (64, 32, 16), (32, 32, 32))
MANY_GROUPS = 512  # about two for each compute unit of a large device: with fewer of them, latency shows


def has_product(view: KernelView) -> bool:
    """Whether the kernel has sums that matrix instructions can add."""
    try:
        check_product(view.program, view.kernel, TILES[0], view.block)
    except NotUnderstood:
        return False
    return True


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    fresh = view.plan in (TransformationPlan(), TransformationPlan(matrix=view.plan.matrix))
    if not view.kernel.independent or not fresh or not passes_distinct_pointers(view) or not has_product(view):
        return
    fitting = [tile for tile in TILES if all(view.extent(axis) >= tile[axis] for axis in (0, 1))]
    # Those that fill the device, the largest first; then the others, the smallest first.
    for tile in sorted(fitting, key=lambda tile: max(0, MANY_GROUPS - _count_groups(view, tile))):
        yield TransformationPlan(matrix=tile)


def _count_groups(view: KernelView, tile: Shape) -> int:
    return view.grid[2] * math.prod(-(-view.extent(axis) // tile[axis]) for axis in (0, 1))


def is_evident(view: KernelView, plan: TransformationPlan) -> bool:
    """Whether a plan has the first tile that is offered."""
    return view.plan.matrix is None and plan == next(list_plans(view), None)


TRANSFORMATION = Transformation(
    helps=("vl1d", "valu", "latency", "l2", "issue", "hbm", "infinity", "fabric", "lds"),
    counter="SQ_INSTS_MFMA",
    list_plans=list_plans,
    is_evident=is_evident,
)
