"""Kernels whose groups are numbered along other axes than the work-items in them, such as a row for each group.

`row = blockIdx.x, column = threadIdx.x` or `row = blockIdx.x * blockDim.y + threadIdx.y`: the axes of the grid are
exchanged, and an axis along which there is one group gets its number, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit, edit_text
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.launch_shape import has_one_group, read_shape_component
from hipsynth.tuning.optimize.source_changes.work_axes.numbered_kernel import NumberedKernel
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

_TIGHT = frozenset({"*", "/", "%", "-", ".", "]", ")"})  # beside an operand that then needs brackets


@dataclass
class _Coordinates:
    """Where a kernel names coordinates: tokens of `blockIdx` with its axis, in sums with a place in the group (the
    axis of which is then given) or alone, and of `threadIdx` alone."""

    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    groups: list[tuple[int, int]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)

    def list_group_axes(self) -> list[int]:
        """The axes of the grid that the kernel uses."""
        return sorted({axis for _, axis, *_ in [*self.pairs, *self.groups]})


def list_numbered(
    program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape
) -> Iterator[NumberedKernel]:
    """The program with the grid's axes in each other order that gives every work-item a number along x and y; raises
    NotUnderstood."""
    body = Body(program, kernel)
    body.check_plain()
    coordinates = _read_coordinates(body, block)
    used = coordinates.list_group_axes()
    alone = {axis for _, axis in coordinates.places}
    unused = [axis for axis in range(3) if axis not in used]
    if not has_one_group(program, kernel, unused) or alone & {axis for *_, axis in coordinates.pairs}:
        raise NotUnderstood("groups that the kernel does not tell apart, or one place in two sums")
    for image in itertools.permutations(range(3), len(used)):
        to = dict(zip(used, image, strict=True))
        if (image == tuple(used) and not alone) or alone & set(image):
            continue
        if all(to[axis] == inside for _, axis, inside in coordinates.pairs):
            turned = [1, 1, 1]
            for axis, other in to.items():
                turned[other] = grid[axis]
            text = _write_program(body, coordinates, to)
            yield NumberedKernel(text, (turned[0], turned[1], turned[2]), block)


def _read_coordinates(body: Body, block: Shape) -> _Coordinates:
    tokens, coordinates, at = body.tokens, _Coordinates(), body.kernel.first
    while at < body.kernel.last:
        if tokens[at].text not in COORDINATES:
            at += 1
        elif (pair := _match_pair(body, at, block)) is not None:
            coordinates.pairs.append(pair[1])
            at += pair[0]
        elif tokens[at].text in ("blockIdx", "threadIdx") and tokens[at + 2].text in AXES:
            alone = coordinates.groups if tokens[at].text == "blockIdx" else coordinates.places
            alone.append((at, AXES.index(tokens[at + 2].text)))
            at += 3
        else:
            raise NotUnderstood("a coordinate of another kind")
    return coordinates


def _match_pair(body: Body, at: int, block: Shape) -> tuple[int, tuple[int, int, int]] | None:
    """`blockIdx.a * blockDim.b + threadIdx.b` in any order: its length, the token `blockIdx`, a and b."""
    tokens = body.tokens
    for a, b in itertools.product(range(3), range(3)):
        group, size, place = ["blockIdx", ".", AXES[a]], ["blockDim", ".", AXES[b]], ["threadIdx", ".", AXES[b]]
        for factor in (size, [str(block[b])]):
            for product in ([*group, "*", *factor], [*factor, "*", *group]):
                for words in ([*product, "+", *place], [*place, "+", *product]):
                    if [token.text for token in tokens[at : at + len(words)]] == words:
                        return len(words), (at + words.index("blockIdx"), a, b)
    return None


def _write_program(body: Body, coordinates: _Coordinates, to: dict[int, int]) -> str:
    tokens = body.tokens
    edits = []
    for at, axis, *_ in [*coordinates.pairs, *coordinates.groups]:
        edits.append(Edit(tokens[at + 2].start, tokens[at + 2].end, AXES[to[axis]]))
    for at, axis in coordinates.places:
        x = AXES[axis]
        number = f"blockIdx.{x} * blockDim.{x} + threadIdx.{x}"
        is_tight = tokens[at - 1].text in _TIGHT or tokens[at + 3].text in _TIGHT - {"]", ")"}
        edits.append(Edit(tokens[at].start, tokens[at + 2].end, f"({number})" if is_tight else number))
    edits += [_edit_launch(body, launch, to) for launch in body.kernel.launches]
    return edit_text(body.program.unit.text, edits)


def _edit_launch(body: Body, launch: LaunchStatement, to: dict[int, int]) -> Edit:
    counts = ["1", "1", "1"]
    for axis, other in to.items():
        counts[other] = read_shape_component(body.program, launch.grid, axis)
    rest = "".join(f", {part}" for part in launch.rest)
    shape = f"dim3({', '.join(counts)}), {launch.block}{rest}"
    text = f"{body.kernel.name}{launch.template}<<<{shape}>>>({', '.join(launch.arguments)});"
    return Edit(launch.start, launch.end, text)
