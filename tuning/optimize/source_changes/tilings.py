"""The tilings that the transformations offer for a kernel whose source was changed so that they apply."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import TRANSFORMATIONS
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView

PRODUCTS = ("matrix_cores", "lds_tile")
MOST_OF_EACH = 2


def list_tilings(
    program: ParsedProgram, name: str, bottleneck: str, grid: Shape, block: Shape, kinds: Sequence[str] = PRODUCTS
) -> Iterator[tuple[str, TransformationPlan]]:
    """The first plans of each kind of tiling for a kernel, with the kind."""
    kernel = next(kernel for kernel in program.kernels if kernel.name == name)
    view = KernelView(program, kernel, TransformationPlan(), bottleneck, grid, block)
    for kind in kinds:
        plans = itertools.islice(TRANSFORMATIONS[kind].list_plans(view), MOST_OF_EACH)
        yield from ((kind, plan) for plan in plans)


def write_tilings(
    program: ParsedProgram, name: str, block: Shape, tilings: Iterator[tuple[str, TransformationPlan]], why: str
) -> Iterator[SourceChange]:
    """The program with each tiling."""
    for kind, plan in tilings:
        try:
            text = emit_program(program, {name: plan}, {name: block})
        except NotUnderstood:
            continue
        yield SourceChange(name, text, f"{why} ({kind})")
