"""Kernels that number their work-items along three axes get one flat number, of which `flat_number` takes the digits.

`x = blockIdx.x * blockDim.x + threadIdx.x`, the same for y, and `blockIdx.z`, below `width`, `height` and `depth`, are
digits of a number below width * height * depth. The depth is what the launch has along z, as the kernel calls it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_constants import find_constants
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.launch_shape import read_shape_component
from hipsynth.tuning.optimize.transformation_plan import Shape
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import find_indices


@dataclass(frozen=True)
class _PlaneBound:
    """The condition on both coordinates: its statement, whether those that meet it return, and both extents."""

    statement: Statement
    negated: bool
    extents: tuple[str, str]


def write_flat(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> str:
    """The program with a flat number in the kernel, whose launches are still those of three axes; raises
    NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    names = {axis: (span, _find_name(body, span)) for span, axis in find_indices(body, block)}
    if names.keys() != {0, 1} or len(kernel.launches) != 1:
        raise NotUnderstood("no coordinates along x and y")
    statements = parse_statements(program.tokens, kernel.first, kernel.last)
    number = choose_free_name("item", program.text)
    bound = _find_bound(body, statements, (names[0][1], names[1][1]), block)
    width, height = bound.extents
    depth = _write_count(program, kernel, 2)
    values = (f"{number} % {width}", f"{number} / {width} % {height}")
    start = program.tokens[kernel.first].start
    edits = [Edit(start, start, f"const int {number} = blockIdx.x * blockDim.x + threadIdx.x;\n  ")]
    edits += [_replace_tokens(body, names[axis][0], values[axis]) for axis in (0, 1)]
    sign = ">=" if bound.negated else "<"
    edits.append(_replace_tokens(body, bound.statement.head, f"{number} {sign} {width} * {height} * {depth}"))
    for i in range(kernel.first, kernel.last):
        if [token.text for token in program.tokens[i : i + 3]] == ["blockIdx", ".", "z"]:
            edits.append(_replace_tokens(body, (i, i + 3), f"{number} / ({width} * {height})"))
    return edit_text(program.unit.text, edits)


def _replace_tokens(body: Body, span: Span, text: str) -> Edit:
    return Edit(body.tokens[span[0]].start, body.tokens[span[1] - 1].end, text)


def _find_name(body: Body, span: Span) -> int:
    """The variable whose value is all of an expression, by its declaration."""
    tokens, at = body.tokens, span[0] - 2
    if tokens[at].start not in body.locals or tokens[at + 1].text != "=" or tokens[span[1]].text not in (";", ","):
        raise NotUnderstood("a coordinate that is not a variable of its own")
    return tokens[at].start


def _find_bound(body: Body, statements: tuple[Statement, ...], places: tuple[int, int], block: Shape) -> _PlaneBound:
    """The condition on both coordinates, or on x alone where each row has groups of its own."""
    tokens = body.tokens
    for statement in (inner for each in statements for inner in each.inner()):
        if statement.kind != "if" or len(statement.parts) != 1:
            continue
        negated = body.only_returns(statement.parts[0])
        extents: dict[int, str] = {}
        parts = split_at(tokens, *statement.head, "||" if negated else "&&")
        for start, end in parts:
            if tokens[start + 1].text == (">=" if negated else "<"):
                text = text_between(body.program.unit, tokens, start + 2, end)
                extents[body.local(tokens[start])] = text if re.fullmatch(r"\w+", text) else f"({text})"
        if len(extents) == len(parts) == 1 and block[1] == 1:
            extents[places[1]] = _write_count(body.program, body.kernel, 1)
        if len(extents) >= len(parts) and extents.keys() == set(places):
            return _PlaneBound(statement, negated, (extents[places[0]], extents[places[1]]))
    raise NotUnderstood("no bound of both coordinates")


def _write_count(program: ParsedProgram, kernel: KernelDefinition, axis: int) -> str:
    """The launch's number of groups along an axis, as the kernel calls it. Raises NotUnderstood if it does not know."""
    (launch,) = kernel.launches
    called = dict(zip(launch.arguments, (parameter.name for parameter in kernel.parameters), strict=True))
    constants = find_constants(program)
    names = []
    for factor in re.split(r"\s*\*\s*", read_shape_component(program, launch.grid, axis)):
        if factor not in called and factor not in constants and not factor.isdecimal():
            raise NotUnderstood("a number of groups that the kernel does not know")
        names.append(called.get(factor, factor))
    return " * ".join(names)
