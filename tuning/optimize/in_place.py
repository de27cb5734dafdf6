"""Edits within a kernel's body that leave its work-items where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.source.tokens import closing
from hipsynth.tuning.optimize.program import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood, statements

# Functions that have an approximation by the hardware's instructions, called `__NAME`.
FAST = frozenset({"expf", "exp10f", "logf", "log2f", "log10f", "sinf", "cosf", "tanf", "powf", "sincosf"})


def fast_calls(program: ParsedProgram, kernel: KernelDefinition) -> Iterator[Edit]:
    """Calls of approximations instead of exact functions."""
    tokens = program.tokens
    for i in range(kernel.first, kernel.last):
        if tokens[i].text in FAST and tokens[i + 1].text == "(" and tokens[i - 1].text not in (".", "::"):
            yield Edit(tokens[i].start, tokens[i].start, "__")


def padding(program: ParsedProgram, kernel: KernelDefinition) -> Iterator[Edit]:
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
        close = closing(tokens, at)
        if close < 0:
            break
        ends.append(close)
        at = close + 1
    return ends


def unrolled(program: ParsedProgram, kernel: KernelDefinition, factor: int) -> list[Edit]:
    """`#pragma unroll` before each innermost `for` that has no pragma."""
    tokens = program.tokens
    edits = []
    fors = [i for i in range(kernel.first, kernel.last) if tokens[i].text == "for"]
    for number, i in enumerate(fors):
        before = program.unit.text[: tokens[i].start].rstrip().rsplit(b"\n", 1)[-1].strip()
        inner = number + 1 < len(fors) and fors[number + 1] < _extent(tokens, i, kernel.last)
        if not inner and not before.startswith(b"#"):
            edits.append(Edit(tokens[i].start, tokens[i].start, f"\n#pragma unroll {factor}\n  "))
    return edits


def _extent(tokens: Sequence[Token], at: int, last: int) -> int:
    """Where the loop at an index ends; the end of the body if that is not understood."""
    try:
        return next(iter(statements(tokens, at, last))).end
    except NotUnderstood:
        return last
