"""Kernels whose groups run over a row in strides of their size: each element of the row gets a work-item of its own.

`for (int col = threadIdx.x; col < n; col += blockDim.x) { ... }` becomes `if (col < n) { ... }` with groups along x.
Those that were along x, one for each row, go along y.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_constants import find_constants, read_number
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.launch_shape import has_flat_launches, read_shape_component
from hipsynth.tuning.optimize.source_changes.integer_types import IntegerTypes
from hipsynth.tuning.optimize.source_changes.launch_numbers import LaunchNumbers
from hipsynth.tuning.optimize.source_changes.work_axes.numbered_kernel import NumberedKernel
from hipsynth.tuning.optimize.transformation_plan import Shape

ROW_GROUPS = 4  # of a row: how many there are is not known here
_ITEM = "blockIdx.x * blockDim.x + threadIdx.x"


def list_numbered(
    program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape
) -> Iterator[NumberedKernel]:
    """The program with a work-item for each iteration of the kernel's loop in strides; raises NotUnderstood."""
    if kernel.template or not has_flat_launches(program, kernel):
        raise NotUnderstood("a template, or groups along several axes")
    body = Body(program, kernel)
    body.check_plain()
    loop = _find_loop(body, block)
    start, bound, _ = split_at(program.tokens, *loop.head, ";")
    edits = [*_edit_loop(body, loop, start, bound), *_edit_rows(body, loop)]
    host = LaunchNumbers(IntegerTypes(body)).write((bound[0] + 2, bound[1]))
    if host is None:
        raise NotUnderstood("a bound that the host does not know")
    for launch in kernel.launches:
        passed = zip((each.name for each in kernel.parameters), launch.arguments, strict=True)
        count = host.format(**{name: value if value.isidentifier() else f"({value})" for name, value in passed})
        rows = read_shape_component(program, launch.grid, 0)
        size = read_shape_component(program, launch.block, 0)
        if find_constants(program).get(size, read_number(size)) != block[0]:
            raise NotUnderstood("groups whose size the source does not tell")
        rest = "".join(f", {part}" for part in launch.rest)
        shape = f"dim3(({count} + {block[0] - 1}) / {block[0]}, {rows}), {size}{rest}"
        text = f"{kernel.name}<<<{shape}>>>({', '.join(launch.arguments)});"
        edits.append(Edit(launch.start, launch.end, text))
    changed = edit_text(program.unit.text, edits)
    yield NumberedKernel(changed, (ROW_GROUPS, grid[0], 1), block)


def _find_loop(body: Body, block: Shape) -> Statement:
    """The one loop in strides, after which the kernel does nothing."""
    statements = parse_statements(body.tokens, body.kernel.first, body.kernel.last)
    last = statements[-1]
    parts = split_at(body.tokens, *last.head, ";") if last.kind == "for" else []
    if len(parts) != 3:
        raise NotUnderstood("no loop at the end")
    texts = ["".join(token.text for token in body.tokens[slice(*part)]) for part in parts]
    name = body.tokens[parts[1][0]].text
    strides = (f"{name}+=blockDim.x", f"{name}+={block[0]}")
    if not texts[0].endswith(f"{name}=threadIdx.x") or not texts[1].startswith(f"{name}<") or texts[2] not in strides:
        raise NotUnderstood("no loop in strides")
    if any(part.kind == "jump" for part in last.inner()):
        raise NotUnderstood("a jump out of the loop")
    return last


def _edit_loop(body: Body, loop: Statement, start: tuple[int, int], bound: tuple[int, int]) -> Iterator[Edit]:
    tokens, unit = body.tokens, body.program.unit
    declared = text_between(unit, tokens, start[0], start[1] - 3)
    condition = text_between(unit, tokens, *bound)
    first, last = tokens[loop.start].start, tokens[loop.head[1]].end
    yield Edit(first, last, f"{declared} {_ITEM};\n  if ({condition})")


def _edit_rows(body: Body, loop: Statement) -> Iterator[Edit]:
    """The number of the group goes along y; raises NotUnderstood for other coordinates."""
    tokens = body.tokens
    for i in range(body.kernel.first, body.kernel.last):
        if tokens[i].text not in COORDINATES or loop.head[0] <= i < loop.head[1]:
            continue
        if [token.text for token in tokens[i : i + 3]] != ["blockIdx", ".", "x"]:
            raise NotUnderstood("another coordinate")
        yield Edit(tokens[i + 2].start, tokens[i + 2].end, "y")
