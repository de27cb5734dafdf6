"""Writes what kernels have in common that stage the loads of a loop in the LDS: the tiles, the loop around them, and
what is done with each result."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import text_between
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.transformation_plan import AXES
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import GroupWriter, indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Definition, StagedLoad

ZEROS = {"float": "0.0f", "double": "0.0", "int": "0", "unsigned": "0u"}
_SEVERAL_WORDS = re.compile(r"\w+(?: \w+)+")  # types that have no `{}` behind them, such as `signed char`


def _write_zero(kind: str) -> str:
    return ZEROS.get(kind, f"static_cast<{kind}>(0)" if _SEVERAL_WORDS.fullmatch(kind) else f"{kind}{{}}")


ZERO = re.compile(r"0(\.0*)?f?|0u")


@dataclass(frozen=True)
class StagedTile:
    """The array in the LDS of a load: its declaration, and the subscripts of `along` the loop and `beside` it."""

    load: StagedLoad
    name: str
    type: str
    depth: str  # with its padding
    width: str
    loop_first: bool  # the first subscript is the one along the loop

    @property
    def declaration(self) -> str:
        return f"__shared__ {self.type} {self.at(self.depth, self.width)};"

    def at(self, along: str, beside: str) -> str:
        first, second = (along, beside) if self.loop_first else (beside, along)
        return f"{self.name}[{first}][{second}]"


@dataclass(frozen=True)
class StagedWriter(GroupWriter, ABC):
    """`depth`: iterations of the loop that are staged at a time."""

    depth: int

    def edits(self) -> Iterator[Edit]:
        if self.has_names([*self._list_names(), f"{self.tiling.variable.name}0"]):
            raise NotUnderstood("names that the new code uses")
        yield Edit(self.kernel.start, self.kernel.end, self._write_kernel())
        yield from self._launch_edits()

    # --- what differs ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _list_names(self) -> Iterable[str]:
        """The variables that the new code declares, "lane" among them: a lane's number in its group."""

    @abstractmethod
    def _write_kernel(self) -> str: ...

    @abstractmethod
    def _tile(self, load: StagedLoad) -> StagedTile: ...

    @abstractmethod
    def _write_iterations(self, first: str, bound: str) -> list[str]:
        """What is done with the tiles that are staged."""

    @abstractmethod
    def _list_result_loops(self) -> list[tuple[str, int]]:
        """The loops over the results of a lane, outermost first: (variable, count)."""

    @abstractmethod
    def _result_index(self, axis: int) -> str:
        """Where a result of a lane is among those of its group, along an axis."""

    def _staged_value(self, load: StagedLoad, value: str) -> str:
        """What is stored to a tile of an element that is loaded."""
        return value

    # --- parts -------------------------------------------------------------------------------------------------------

    @property
    def _subscript(self) -> str:
        """The subscripts of a result."""
        return "".join(f"[{name}]" for name, _ in self._list_result_loops())

    def _write_loops(self, loops: list[tuple[str, int]], lines: Iterable[str]) -> list[str]:
        """Lines inside unrolled loops."""
        heads: list[str] = []
        for depth, (name, count) in enumerate(loops):
            heads += ["#pragma unroll", f"{'  ' * depth}for (int {name} = 0; {name} < {count}; ++{name})"]
        by = 2 * (len(loops) - 1)
        heads[-1] += " {"
        return [*heads, *(indent_lines(line, by + 2) for line in lines), " " * by + "}"]

    def _write_sum(self, local: Definition, array: str, value: str, loops: list[tuple[str, int]]) -> list[str]:
        """The declaration of an array of sums, with the value that each begins with."""
        if ZERO.fullmatch(value):
            return [f"{array} = {{}};"]
        subscript = "".join(f"[{name}]" for name, _ in loops)
        return [f"{array};", *self._write_loops(loops, [f"{local.name}{subscript} = {value};"])]

    def _text(self, span: tuple[int, int]) -> str:
        return text_between(self.program.unit, self.program.tokens, *span)

    def _write_loop(self) -> list[str]:
        tiling = self.tiling
        variable, bound = tiling.variable, self._text(tiling.bound)
        first, init = f"{variable.name}0", self._text(variable.value)
        lines = [f"for ({variable.type} {first} = {init}; {first} < {bound}; {first} += {self.depth}) {{"]
        for load in tiling.loads:
            lines += [indent_lines(line, 2) for line in self._write_staging(load, first, bound)]
        lines.append("  __syncthreads();")
        lines += [indent_lines(line, 2) for line in self._write_iterations(first, bound)]
        return [*lines, "  __syncthreads();", "}"]

    def _write_staging(self, load: StagedLoad, first: str, bound: str) -> list[str]:
        """Each lane of the group loads some elements of a tile."""
        lanes = self.lanes[0] * self.lanes[1]
        definitions, value = self._stage(load, first, bound)
        store = f"{self._tile(load).at(*self._item_place(load))} = {value};"
        head = f"for (int item = lane; item < {self.widths[load.axis] * self.depth}; item += {lanes}) {{"
        return ["#pragma unroll", head, *(f"  {line}" for line in [*definitions, store]), "}"]

    def _item_place(self, load: StagedLoad) -> tuple[str, str]:
        """Where element `item` of a tile is, along the loop and beside it: neighbours are neighbours in memory."""
        if load.along_loop:
            return f"item % {self.depth}", f"item / {self.depth}"
        width = self.widths[load.axis]
        return f"item / {width}", f"item % {width}"

    def _stage(self, load: StagedLoad, first: str, bound: str) -> tuple[list[str], str]:
        """The declarations that the value of element `item` of a tile needs, and the value, zero beyond the ends."""
        width, variable = self.widths[load.axis], self.tiling.variable
        along, beside = self._item_place(load)
        indices = {load.axis: f"blockIdx.{AXES[load.axis]} * {width} + {beside}"}
        places = self._named(load.span)
        for condition in self.tiling.conditions:
            if condition.axes == {load.axis}:
                places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        definitions = [
            f"const {variable.type.removeprefix('const ')} {variable.name} = {first} + {along};",
            *self._write_definitions(places, indices, shared),
        ]
        conditions = [*self._conditions_of({load.axis}, indices), f"{variable.name} < {bound}"]
        value = self._staged_value(load, self._rewrite(load.span, indices))
        kind = self._tile(load).type
        return definitions, f"{' && '.join(conditions)} ? {value} : {_write_zero(kind)}"

    def _list_sums(self, span: tuple[int, int], places: Iterable[int]) -> Iterator[Edit]:
        """Sums are those of one result."""
        declared = set(places)
        for i in range(*span):
            if self.tiling.body.local(self.program.tokens[i]) in declared:
                end = self.program.tokens[i].end
                yield Edit(end, end, self._subscript)

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

    def _mark_loads(self, start: int, end: int, marks: Mapping[int, str] | None = None) -> Iterator[str]:
        """The words of a statement with a mark for each staged load; `marks`: by its first token, if it is not "@"."""
        lengths = {a: load.span[1] - load.span[0] for load in self.tiling.loads for a in load.places}
        at = start
        while at < end:
            yield (marks or {}).get(at, "@" if at in lengths else self.program.tokens[at].text)
            at += lengths.get(at, 1)

    def _write_results(self, sums: Iterable[Definition], single: Iterable[str] = ()) -> list[str]:
        """What follows the loop, for each result of a lane. `single`: declarations of variables of one result."""
        tiling = self.tiling
        indices = {axis: f"blockIdx.{AXES[axis]} * {self.widths[axis]} + {self._result_index(axis)}" for axis in (0, 1)}
        span = (tiling.after[0].start, tiling.after[-1].end)
        places = self._named(span)
        for condition in tiling.conditions:
            places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        lines = [*self._write_definitions(places, indices, shared), *single]
        conditions = self._conditions_of({0, 1}, indices)
        results = self._rewrite(span, indices, self._list_sums(span, [local.place for local in sums]))
        lines += [f"if ({' && '.join(conditions)}) {{", indent_lines(results, 2), "}"] if conditions else [results]
        return self._write_loops(self._list_result_loops(), lines)
