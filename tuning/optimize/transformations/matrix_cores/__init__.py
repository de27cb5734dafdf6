"""Matrix cores: wavefronts add products of matrices with matrix instructions, from tiles in the LDS, in the precision
of the original. It makes a product bound by the matrix cores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.matrix_cores.matrix_source import find_operands
from hipsynth.tuning.optimize.transformations.matrix_cores.product_sums import SUM_TYPES
from hipsynth.tuning.optimize.transformations.transformation import Transformation

# Results of a group along x and y, and iterations of the loop that are staged at a time; those with most reuse first.
TILES: tuple[Shape, ...] = ((128, 128, 16), (64, 64, 16), (64, 32, 16), (32, 32, 32))
MANY_GROUPS = 512  # about two for each compute unit of a large device: with fewer of them, latency shows


def find_depth(view: KernelView) -> int:
    """How many times the iterations of TILES are staged: twice those of operands of 16 bits; 0 where the kernel has no
    sums that matrix instructions can add."""
    try:
        return 1 if find_operands(view.program, view.kernel, view.block) in SUM_TYPES else 2
    except NotUnderstood:
        return 0


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    fresh = view.plan in (TransformationPlan(), TransformationPlan(matrix=view.plan.matrix))
    if not view.kernel.independent or not fresh or not has_distinct_pointers(view.program, view.kernel):
        return
    times = find_depth(view)
    if not times:
        return
    fitting = [tile for tile in TILES if all(view.extent(axis) >= tile[axis] for axis in (0, 1))]
    # Those that fill the device, the largest first; then the others, the smallest first.
    for tile in sorted(fitting, key=lambda tile: max(0, MANY_GROUPS - _count_groups(view, tile))):
        yield TransformationPlan(matrix=(tile[0], tile[1], times * tile[2]))


def _count_groups(view: KernelView, tile: Shape) -> int:
    return view.grid[2] * math.prod(-(-view.extent(axis) // tile[axis]) for axis in (0, 1))


def list_half_products(program: ParsedProgram, blocks: Mapping[str, Shape]) -> dict[str, str]:
    """The kernels that add products of halves which matrix instructions multiply as they are -> the type of these."""
    operands = {}
    for kernel in program.kernels:
        try:
            operands[kernel.name] = find_operands(program, kernel, blocks.get(kernel.name, (1, 1, 1)))
        except NotUnderstood:
            continue
    return {name: kind for name, kind in operands.items() if kind not in SUM_TYPES}


def is_evident(view: KernelView, plan: TransformationPlan) -> bool:
    """Whether a plan has the first tile that is offered."""
    return view.plan.matrix is None and plan == next(list_plans(view), None)


TRANSFORMATION = Transformation(
    helps=("vl1d", "valu", "latency", "l2", "issue", "hbm", "infinity", "fabric", "lds"),
    counter="SQ_INSTS_MFMA",
    list_plans=list_plans,
    is_evident=is_evident,
)
