"""Padding of two-dimensional LDS arrays, whose columns otherwise lie in one bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.plan.pad and any(pad_rows(view.program, view.kernel, view.plan)):
        yield replace(view.plan, pad=True)


def pad_rows(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """One more element in each row of two-dimensional LDS arrays, so that a column lies in different banks.

    Only of arrays that are used as `name[...][...]` alone: then no address depends on the row's length.
    """
    tokens = program.tokens
    for i in range(kernel.first, kernel.last):
        if tokens[i].text != "__shared__":
            continue
        name = next((j for j in range(i, kernel.last) if tokens[j + 1].text in ("[", ";", "=", "(")), -1)
        ends = _brackets(tokens, name + 1)
        if name < 0 or len(ends) != 2 or tokens[ends[1] + 1].text != ";":
            continue
        uses = [j for j in range(ends[1], kernel.last) if tokens[j].text == tokens[name].text]
        if all(len(_brackets(tokens, j + 1)) == 2 and tokens[j - 1].text != "&" for j in uses):
            yield Edit(tokens[ends[1]].start, tokens[ends[1]].start, " + 1")


def _brackets(tokens: Sequence[Token], at: int) -> list[int]:
    """The closing brackets of the subscripts that begin at an index."""
    ends = []
    while tokens[at].text == "[":
        close = find_closing(tokens, at)
        if close < 0:
            break
        ends.append(close)
        at = close + 1
    return ends


TRANSFORMATION = Transformation(
    helps=("lds",),
    counter="SQ_LDS_BANK_CONFLICT",
    list_plans=list_plans,
    is_planned=lambda plan: plan.pad,
    edit_body=pad_rows,
)
