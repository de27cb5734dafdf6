"""Unrolling of innermost loops: fewer branches and address computations, more loads in flight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, parse_statements
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import LOOPS, Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if "for" in view.words and not view.kernel.fixed:
        for factor in (2, 4, 8):
            yield replace(view.plan, unroll=factor)


def unroll_loops(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> list[Edit]:
    """`#pragma unroll` before each innermost `for` that has no pragma."""
    tokens = program.tokens
    edits = []
    fors = [i for i in range(kernel.first, kernel.last) if tokens[i].text == "for"]
    for number, i in enumerate(fors):
        before = program.unit.text[: tokens[i].start].rstrip().rsplit(b"\n", 1)[-1].strip()
        inner = number + 1 < len(fors) and fors[number + 1] < _extent(tokens, i, kernel.last)
        if not inner and not before.startswith(b"#"):
            edits.append(Edit(tokens[i].start, tokens[i].start, f"\n#pragma unroll {plan.unroll}\n  "))
    return edits


def _extent(tokens: Sequence[Token], at: int, last: int) -> int:
    """Where the loop at an index ends; the end of the body if that is not understood."""
    try:
        return next(iter(parse_statements(tokens, at, last))).end
    except NotUnderstood:
        return last


TRANSFORMATION = Transformation(
    helps=LOOPS,
    counter="SQ_INSTS_SALU",
    list_plans=list_plans,
    is_planned=lambda plan: bool(plan.unroll),
    edit_body=unroll_loops,
)
