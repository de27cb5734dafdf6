"""Writes a kernel whose groups compute tiles of results, and its launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import Shape
from hipsynth.tuning.optimize.transformations.lds_tile import LANES
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.staged_source import StagedTile, StagedWriter
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import StagedLoad, find_tiled_loop

_CASTS = r"(?:\(float\)|\(double\)|static_cast<\w+>|__half2float|__bfloat162float)?"
_LOADED = rf"{_CASTS}\(?@\)?"
# Statements that change nothing where all that is loaded is zero.
_ADDS_PRODUCT = re.compile(
    rf"\w+\+={_LOADED}\*{_LOADED};|(\w+)=(?:fmaf?|__fmaf_rn)\({_LOADED},{_LOADED},\1\);|(\w+)=\2\+{_LOADED}\*{_LOADED};"
)


def edit_kernel(program: ParsedProgram, kernel: KernelDefinition, tile: Shape, block: Shape) -> list[Edit]:
    """The edits of a kernel and its launches. Raises NotUnderstood."""
    loop = find_tiled_loop(program, kernel, block)
    widths = LANES * tile[0], LANES * tile[1]
    return list(_TileWriter(program, kernel, loop, widths, (LANES, LANES), tile[2], tile[:2]).edits())


@dataclass(frozen=True)
class _TileWriter(StagedWriter):
    """`each`: results of a lane along x and y."""

    each: tuple[int, int]

    # --- parts -------------------------------------------------------------------------------------------------------

    def _list_names(self) -> Iterable[str]:
        return ("across", "down", "step", "item", "lane")

    def _lane(self, axis: int) -> str:
        return "threadIdx.x" if axis == self.tiling.fast_axis else "threadIdx.y"

    def _list_result_loops(self) -> list[tuple[str, int]]:
        return [("down", self.each[1]), ("across", self.each[0])]

    def _result_index(self, axis: int) -> str:
        return f"{self._lane(axis)} + {LANES} * {'down' if axis else 'across'}"

    def _tile(self, load: StagedLoad) -> StagedTile:
        # Lanes that store along the loop would meet in one bank without the additional element.
        padding = " + 1" if load.along_loop else ""
        width = f"{self.widths[load.axis]}{padding}"
        return StagedTile(load, self._tile_names[load], load.type, str(self.depth), width, loop_first=True)

    # --- the kernel --------------------------------------------------------------------------------------------------

    def _write_kernel(self) -> str:
        body = self._write_shared() + self._write_arrays() + self._write_loop() + self._write_results(self.tiling.sums)
        shape = f"{self.widths[0]} x {self.widths[1]}"
        each = f"{self.each[0]} x {self.each[1]}"
        return (
            f"// A group computes {shape} results, a lane {each} of them; what they share is loaded once.\n"
            f"{self._write_head()} {{\n" + indent_lines("\n".join(body), 2) + "\n}"
        )

    def _write_arrays(self) -> list[str]:
        lines = [self._tile(load).declaration for load in self.tiling.loads]
        lines.append(f"const int lane = threadIdx.y * {LANES} + threadIdx.x;")
        for local in self.tiling.sums:
            array = f"{local.type} {local.name}[{self.each[1]}][{self.each[0]}]"
            lines += self._write_sum(local, array, self._text(local.value), self._list_result_loops())
        return lines

    def _write_iterations(self, first: str, bound: str) -> list[str]:
        iteration = [
            *([] if self._adds_products() else [f"if ({first} + step >= {bound}) break;"]),
            *self._write_loops(self._list_result_loops(), self._write_steps(first)),
        ]
        return self._write_loops([("step", self.depth)], iteration)

    def _list_replacements(self, span: tuple[int, int]) -> Iterator[Edit]:
        """Loads read the tile, sums are those of one result."""
        tokens = self.program.tokens
        for load in self.tiling.loads:
            length = load.span[1] - load.span[0]
            for a in load.places:
                if span[0] <= a < span[1]:
                    text = self._tile(load).at("step", self._result_index(load.axis))
                    yield Edit(tokens[a].start, tokens[a + length - 1].end, text)
        yield from self._list_sums(span, [local.place for local in self.tiling.sums])

    def _write_steps(self, first: str) -> list[str]:
        """The statements of an iteration of the original loop, for one result."""
        tiling, variable = self.tiling, self.tiling.variable
        lines = []
        loaded = [range(a, a + load.span[1] - load.span[0]) for load in tiling.loads for a in load.places]
        computing = [s for s in tiling.steps if not self._only_subscripts(s)]
        used = [i for s in computing for i in range(s.start, s.end) if not any(i in local for local in loaded)]
        if any(tiling.body.local(self.program.tokens[i]) == variable.place for i in used):
            lines.append(f"const {variable.type.removeprefix('const ')} {variable.name} = {first} + step;")
        for statement in computing:
            span = (statement.start, statement.end)
            lines.append(self._rewrite(span, {}, self._list_replacements(span)))
        return lines

    def _adds_products(self) -> bool:
        """Whether iterations beyond the end, for which zeros are loaded, change nothing."""
        for statement in self.tiling.steps:
            if self._only_subscripts(statement):
                continue
            marks = self._mark_loads(statement.start, statement.end)
            if not _ADDS_PRODUCT.fullmatch("".join(marks)):
                return False
        return True
