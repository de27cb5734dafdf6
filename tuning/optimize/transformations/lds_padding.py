"""Padding of LDS arrays that hold rows, whose columns otherwise lie in one bank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if not view.plan.pad and any(pad_rows(view.program, view.kernel, view.plan)):
        yield replace(view.plan, pad=True)


def pad_rows(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """One more element in each row of LDS arrays, so that a column lies in different banks.

    Of arrays that are declared `name[rows][width]` or `name[rows * width]`, and used as `name[...][...]` or
    `name[... * width + ...]` alone: then no address depends on the row's length otherwise.
    """
    tokens = program.tokens
    for i in range(kernel.first, kernel.last):
        if tokens[i].text != "__shared__":
            continue
        end = next(j for j in range(i, kernel.last) if tokens[j].text == ";")
        for start, stop in split_at(tokens, i, end, ","):
            name = next((j for j in range(start, stop - 1) if tokens[j + 1].text == "["), stop)
            ends = _brackets(tokens, name + 1)
            if name == stop or ends[-1] + 1 != stop:
                continue
            uses = [j for j in range(end, kernel.last) if tokens[j].text == tokens[name].text]
            if len(ends) == 2 and all(_is_element(tokens, j, 2) for j in uses):
                yield Edit(tokens[ends[1]].start, tokens[ends[1]].start, " + 1")
            elif len(ends) == 1:
                yield from _pad_flat(tokens, name, uses)


def _is_element(tokens: Sequence[Token], at: int, dimensions: int) -> bool:
    return len(_brackets(tokens, at + 1)) == dimensions and tokens[at - 1].text != "&"


def _pad_flat(tokens: Sequence[Token], name: int, uses: Sequence[int]) -> list[Edit]:
    """The edits of an array of one dimension that holds rows; none if it does not."""
    factors = split_at(tokens, name + 2, find_closing(tokens, name + 1), "*")
    if len(factors) != 2 or factors[1][1] - factors[1][0] != 1:
        return []
    width = tokens[factors[1][0]].text
    places = [_find_width(tokens, j, width) if _is_element(tokens, j, 1) else -1 for j in uses]
    if not uses or -1 in places:
        return []
    return [Edit(tokens[at].start, tokens[at].end, f"({width} + 1)") for at in (factors[1][0], *places)]


def _find_width(tokens: Sequence[Token], at: int, width: str) -> int:
    """The token of the row's length in `name[row * width + ...]`; -1 if the subscript has another form."""
    terms = split_at(tokens, at + 2, find_closing(tokens, at + 1), "+")
    rows = [(a, b) for a, b in terms if any(token.text == width for token in tokens[a:b])]
    if len(rows) != 1 or len(terms) < 2:
        return -1
    a, b = rows[0]
    factors = split_at(tokens, a, b, "*")
    return b - 1 if len(factors) == 2 and tokens[b - 1].text == width and b - factors[1][0] == 1 else -1


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
