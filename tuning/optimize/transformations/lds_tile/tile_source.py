"""Writes a kernel whose groups compute tiles of results, and its launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import text_between
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.lds_tile import LANES
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import GroupWriter, indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import (
    StagedLoad,
    find_tiled_loop,
)

_ZEROS = {"float": "0.0f", "double": "0.0", "int": "0", "unsigned": "0u"}
_CASTS = r"(?:\(float\)|\(double\)|static_cast<\w+>|__half2float|__bfloat162float)?"
_LOADED = rf"{_CASTS}\(?@\)?"
# Statements that change nothing where all that is loaded is zero.
_ADDS_PRODUCT = re.compile(
    rf"\w+\+={_LOADED}\*{_LOADED};|(\w+)=(?:fmaf?|__fmaf_rn)\({_LOADED},{_LOADED},\1\);|(\w+)=\2\+{_LOADED}\*{_LOADED};"
)
_NAMES = ("across", "down", "step", "item", "lane")  # of variables that the new code declares


def edit_kernel(program: ParsedProgram, kernel: KernelDefinition, tile: Shape, block: Shape) -> list[Edit]:
    """The edits of a kernel and its launches. Raises NotUnderstood."""
    loop = find_tiled_loop(program, kernel, block)
    widths = LANES * tile[0], LANES * tile[1]
    return list(_TileWriter(program, kernel, loop, widths, (LANES, LANES), tile).edits())


@dataclass(frozen=True)
class _TileWriter(GroupWriter):
    tile: Shape

    def edits(self) -> Iterator[Edit]:
        if self.has_names([*_NAMES, f"{self.tiling.variable.name}0"]):
            raise NotUnderstood("names that the new code uses")
        yield Edit(self.kernel.start, self.kernel.end, self._write_kernel())
        yield from self._launch_edits()

    # --- parts -------------------------------------------------------------------------------------------------------

    def _lane(self, axis: int) -> str:
        return "threadIdx.x" if axis == self.tiling.fast_axis else "threadIdx.y"

    def _count(self, axis: int) -> str:
        """The variable that counts the results of a lane along an axis."""
        return "across" if axis == 0 else "down"

    def _result_index(self, axis: int) -> str:
        """Where a result of a lane is in the tile."""
        return f"{self._lane(axis)} + {LANES} * {self._count(axis)}"

    # --- the kernel --------------------------------------------------------------------------------------------------

    def _write_kernel(self) -> str:
        body = self._write_shared() + self._write_arrays() + self._write_loop() + self._write_results()
        shape = f"{self.widths[0]} x {self.widths[1]}"
        each = f"{self.tile[0]} x {self.tile[1]}"
        return (
            f"// A group computes {shape} results, a lane {each} of them; what they share is loaded once.\n"
            f"{self._write_head()} {{\n" + indent_lines("\n".join(body), 2) + "\n}"
        )

    def _write_arrays(self) -> list[str]:
        depth = self.tile[2]
        lines = []
        for load, name in self._tile_names.items():
            # Lanes that store along the loop would meet in one bank without the additional element.
            padding = " + 1" if load.along_loop else ""
            lines.append(f"__shared__ {load.type} {name}[{depth}][{self.widths[load.axis]}{padding}];")
        lines.append(f"const int lane = threadIdx.y * {LANES} + threadIdx.x;")
        for local in self.tiling.sums:
            value = text_between(self.program.unit, self.program.tokens, *local.value)
            array = f"{local.type} {local.name}[{self.tile[1]}][{self.tile[0]}]"
            if re.fullmatch(r"0(\.0*)?f?|0u", value):
                lines.append(f"{array} = {{}};")
            else:
                lines += [f"{array};", *self._write_for_results([f"{local.name}[down][across] = {value};"])]
        return lines

    def _write_for_results(self, lines: Iterable[str]) -> list[str]:
        """Lines for each result of a lane."""
        return [
            "#pragma unroll",
            f"for (int down = 0; down < {self.tile[1]}; ++down)",
            "#pragma unroll",
            f"  for (int across = 0; across < {self.tile[0]}; ++across) {{",
            *(indent_lines(line, 4) for line in lines),
            "  }",
        ]

    def _write_loop(self) -> list[str]:
        tiling, depth = self.tiling, self.tile[2]
        variable = tiling.variable
        first = f"{variable.name}0"
        init = text_between(self.program.unit, self.program.tokens, *variable.value)
        bound = text_between(self.program.unit, self.program.tokens, *tiling.bound)
        lines = [f"for ({variable.type} {first} = {init}; {first} < {bound}; {first} += {depth}) {{"]
        for load in tiling.loads:
            lines += [indent_lines(line, 2) for line in self._write_staging(load, first, bound)]
        lines.append("  __syncthreads();")
        padded = self._adds_products()
        iteration = [
            *([] if padded else [f"if ({first} + step >= {bound}) break;"]),
            *self._write_for_results(self._write_steps(first)),
        ]
        lines += ["#pragma unroll", f"  for (int step = 0; step < {depth}; ++step) {{"]
        lines += [indent_lines(line, 4) for line in iteration]
        return [*lines, "  }", "  __syncthreads();", "}"]

    def _write_staging(self, load: StagedLoad, first: str, bound: str) -> list[str]:
        """Each lane of the group loads some elements of a tile."""
        depth, width, variable = self.tile[2], self.widths[load.axis], self.tiling.variable
        along, beside = f"item % {depth}", f"item / {depth}"
        if not load.along_loop:
            along, beside = f"item / {width}", f"item % {width}"
        indices = {load.axis: f"blockIdx.{AXES[load.axis]} * {width} + {beside}"}
        places = self._named(load.span)
        for condition in self.tiling.conditions:
            if condition.axes == {load.axis}:
                places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        inside = [
            f"const {variable.type.removeprefix('const ')} {variable.name} = {first} + {along};",
            *self._write_definitions(places, indices, shared),
        ]
        conditions = [*self._conditions_of({load.axis}, indices), f"{variable.name} < {bound}"]
        value = self._rewrite(load.span, indices)
        zero = _ZEROS.get(load.type, f"{load.type}{{}}")
        inside.append(f"{self._tile_names[load]}[{along}][{beside}] = {' && '.join(conditions)} ? {value} : {zero};")
        count = width * depth
        head = f"for (int item = lane; item < {count}; item += {LANES * LANES}) {{"
        return ["#pragma unroll", head, *(f"  {line}" for line in inside), "}"]

    def _list_replacements(self, span: tuple[int, int]) -> Iterator[Edit]:
        """Loads read the tile, sums are those of one result."""
        tokens = self.program.tokens
        for load, name in self._tile_names.items():
            length = load.span[1] - load.span[0]
            for a in load.places:
                if span[0] <= a < span[1]:
                    text = f"{name}[step][{self._result_index(load.axis)}]"
                    yield Edit(tokens[a].start, tokens[a + length - 1].end, text)
        yield from self._list_sums(span)

    def _list_sums(self, span: tuple[int, int]) -> Iterator[Edit]:
        sums = {local.place for local in self.tiling.sums}
        for i in range(*span):
            if self.tiling.body.local(self.program.tokens[i]) in sums:
                end = self.program.tokens[i].end
                yield Edit(end, end, "[down][across]")

    def _write_steps(self, first: str) -> list[str]:
        """The statements of an iteration of the original loop, for one result."""
        tiling, variable = self.tiling, self.tiling.variable
        statements = tiling.steps
        lines = []
        loaded = [range(a, a + load.span[1] - load.span[0]) for load in tiling.loads for a in load.places]
        computing = [s for s in statements if not self._only_subscripts(s)]
        used = [i for s in computing for i in range(s.start, s.end) if not any(i in local for local in loaded)]
        if any(tiling.body.local(self.program.tokens[i]) == variable.place for i in used):
            lines.append(f"const {variable.type.removeprefix('const ')} {variable.name} = {first} + step;")
        for statement in computing:
            span = (statement.start, statement.end)
            lines.append(self._rewrite(span, {}, self._list_replacements(span)))
        return lines

    def _only_subscripts(self, statement: Statement) -> bool:
        """Whether a statement declares only what the subscripts of staged loads are made of."""
        start, end = statement.start, statement.end
        declared = {local.place for local in self.tiling.definitions if start <= local.value[0] < end}
        loaded = [range(a, a + load.span[1] - load.span[0]) for load in self.tiling.loads for a in load.places]
        tokens = self.program.tokens
        for i in range(self.tiling.loop.head[1] + 1, self.tiling.loop.end):
            if start <= i < end or any(i in local for local in loaded):
                continue
            if self.tiling.body.local(tokens[i]) in declared:
                return False
        return bool(declared) and not any(start <= a < end for load in self.tiling.loads for a in load.places)

    def _adds_products(self) -> bool:
        """Whether iterations beyond the end, for which zeros are loaded, change nothing."""
        for statement in self.tiling.steps:
            if self._only_subscripts(statement):
                continue
            marks = self._mark_loads(statement.start, statement.end)
            if not _ADDS_PRODUCT.fullmatch("".join(marks)):
                return False
        return True

    def _mark_loads(self, start: int, end: int) -> Iterator[str]:
        """The words of a statement with a mark for each staged load."""
        lengths = {a: load.span[1] - load.span[0] for load in self.tiling.loads for a in load.places}
        at = start
        while at < end:
            yield "@" if at in lengths else self.program.tokens[at].text
            at += lengths.get(at, 1)

    def _write_results(self) -> list[str]:
        """What follows the loop, for each result of a lane."""
        tiling = self.tiling
        indices = {axis: f"blockIdx.{AXES[axis]} * {self.widths[axis]} + {self._result_index(axis)}" for axis in (0, 1)}
        span = (tiling.after[0].start, tiling.after[-1].end)
        places = self._named(span)
        for condition in tiling.conditions:
            places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        lines = self._write_definitions(places, indices, shared)
        conditions = self._conditions_of({0, 1}, indices)
        results = self._rewrite(span, indices, self._list_sums(span))
        lines += [f"if ({' && '.join(conditions)}) {{", indent_lines(results, 2), "}"] if conditions else [results]
        return self._write_for_results(lines)
