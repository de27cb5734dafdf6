"""Kernels that number their work-items by constants that stand for a coordinate, such as `int tx = threadIdx.x;` and
`int bx = blockIdx.x, col = bx * 16 + tx;`. The coordinates come in their place."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.source_changes.work_axes.numbered_kernel import NumberedKernel
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

_INTEGERS = frozenset({"const", "int", "unsigned", "size_t", "int64_t", "long", "uint32_t", "int32_t"})


def list_numbered(
    program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape
) -> Iterator[NumberedKernel]:
    """The program with coordinates in place of the constants that stand for them; raises NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    names = dict(_find_coordinates(body))
    if not names:
        raise NotUnderstood("no constants that stand for coordinates")
    edits = [*_edit_declarations(body, names), *_edit_uses(body, names)]
    yield NumberedKernel(edit_text(program.unit.text, edits), grid, block)


def _find_coordinates(body: Body) -> Iterator[tuple[int, str]]:
    """Local constants whose value is a coordinate, by the offsets of their declarations."""
    for place, (start, end) in body.constants.items():
        words = [token.text for token in body.tokens[start:end]]
        if len(words) == 3 and words[0] in COORDINATES and words[1] == "." and words[2] in AXES:
            yield place, "".join(words)


def _edit_declarations(body: Body, names: dict[int, str]) -> Iterator[Edit]:
    """The statements without these constants."""
    for statement in _list_simple(body):
        parts = split_at(body.tokens, statement.start, statement.end - 1, ",")
        places = [_find_declared(body, part) for part in parts]
        if not names.keys() & set(places):
            continue
        if not names.keys() >= set(places):
            raise NotUnderstood("a statement that declares something else, too")
        start, end = body.tokens[statement.start].start, body.tokens[statement.end - 1].end
        text = body.program.unit.text
        while text[end : end + 1] in (b" ", b"\n"):
            end += 1
        yield Edit(start, end, "")


def _edit_uses(body: Body, names: dict[int, str]) -> Iterator[Edit]:
    """The uses of these constants, which must be in values of integer constants: there they make the same number."""
    values = [range(*span) for place, span in body.constants.items() if _is_integer(body, place)]
    for i in range(body.kernel.first, body.kernel.last):
        place = body.local(body.tokens[i])
        if place in names and body.tokens[i].start != place:
            if not any(i in value for value in values):
                raise NotUnderstood("a coordinate outside of the work-item's number")
            yield Edit(body.tokens[i].start, body.tokens[i].end, names[place])


def _is_integer(body: Body, place: int) -> bool:
    """Whether the statement that declares a variable begins with the type of an integer."""
    first, at = body.find_declared_type(place)
    end = next(i for i in range(first, at + 1) if body.tokens[i].start in body.locals)
    return {token.text for token in body.tokens[first:end]} <= _INTEGERS


def _list_simple(body: Body) -> Iterator[Statement]:
    for statement in parse_statements(body.tokens, body.kernel.first, body.kernel.last):
        yield from (inner for inner in statement.inner() if inner.kind == "simple")


def _find_declared(body: Body, span: Span) -> int:
    """The offset of the variable that a part of a statement declares; -1 for none."""
    return next((body.tokens[i].start for i in range(*span) if body.tokens[i].start in body.locals), -1)
