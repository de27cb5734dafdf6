"""The grammar of mappings: steps that each permute the work-groups of any grid, and products of them.

Work-group number `id` of the dispatch order computes what work-group `mapping(id)` computed. A step leaves alone what
does not fit its pattern, such as the remainder of a grid that the number of chiplets does not divide, so every step is
a bijection for all grids by construction; docs/explanation/swizzle.md has the proofs, `proof` checks them.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hipsynth.core.kernel_record import Dim
from hipsynth.tuning.swizzle import index_expression as e
from hipsynth.tuning.swizzle.index_expression import Array, IndexExpression, Operand, evaluate_expression

Program = list[tuple[str, IndexExpression]]  # assignments, in order
CURVES = ("morton", "hilbert")
_X, _Y, _Z = map(e.name, "XYZ")
WHOLE = {"X": (_X, _Y * _Z), "X * Y": (_X * _Y, _Z)}  # planes that hold every grid: their width and height


@dataclass(frozen=True)
class Spread:
    """Deals runs of `run` consecutive groups to `parts` receivers that take turns: 0 deals one run to each.

    With one part for each XCD, neighbours in the old order meet in one XCD; with one for each CU, a CU walks through
    consecutive groups, as persistent (stream-K) kernels do. Swaps two digits of `id`.
    """

    parts: int
    run: int = 0

    @property
    def label(self) -> str:
        return f"spread({self.parts}{f', run {self.run}' if self.run else ''})"

    def program(self, id_: IndexExpression, n: IndexExpression, prefix: str) -> Program:
        """Lines that deal ids to the parts in turns, `run` consecutive ones at a time (0: equal shares); what remains
        stays."""
        parts, run = self.parts, self.run
        if run == 0:
            share = e.name(f"{prefix}share")
            dealt = id_ % parts * share + id_ // parts
            return [
                (f"{prefix}share", n // parts),
                (f"{prefix}id", e.select(id_.below(share * parts), dealt, id_)),
            ]
        block = parts * run
        dealt = id_ // block * block + id_ % parts * run + id_ % block // parts
        return [(f"{prefix}id", e.select(id_.below(n // block * block), dealt, id_))]


@dataclass(frozen=True)
class RowSpread:
    """A Spread within every row of the grid by itself. Where rows are a multiple of the XCDs long, it has the effect of
    a Spread of the whole grid for a few instructions, because rows and planes keep their places."""

    parts: int
    run: int = 0

    @property
    def label(self) -> str:
        return Spread(self.parts, self.run).label.replace("spread(", "spread along x(")

    def program(self, id_: IndexExpression, n: IndexExpression, prefix: str) -> Program:
        x = e.name(f"{prefix}x")
        *lines, (_, dealt) = Spread(self.parts, self.run).program(x, _X, prefix)
        return [(f"{prefix}x", id_ % _X), *lines, (f"{prefix}id", id_ - x + dealt)]

    def source(self, function: str, label: str) -> str:
        """The whole device function, for a mapping of this step alone."""
        lines = Spread(self.parts, self.run).program(e.name("x"), _X, "")
        return "\n".join(
            [
                f"// Which work-group computes what: {label}.",
                f"__device__ inline dim3 {function}() {{",
                "  const unsigned X = gridDim.x, x = blockIdx.x;",
                *(f"  const unsigned {text} = {e.expression_source(value)};" for text, value in lines),
                "  return dim3(id, blockIdx.y, blockIdx.z);",
                "}\n",
            ]
        )


@dataclass(frozen=True)
class Tile:
    """Walks a plane of `width` columns in groups of `rows` rows, and within a group in tiles of `columns` columns.

    `width`: "X", "X * Y", or a number of groups for programs that number tiles themselves. 0 rows or columns are all.
    `outer`: "rows", or "columns" to go through groups of columns first. `inner`: the order within a tile: "rows" (along
    a row first), "columns", "morton" or "hilbert"; curves need square tiles of a power of two, and walk incomplete
    tiles by rows.
    """

    rows: int
    columns: int
    outer: str = "rows"
    inner: str = "rows"
    width: str = "X"

    @property
    def label(self) -> str:
        size = f"{self.rows or 'all'} x {self.columns or 'all'}"
        more = "" if self.width == "X" else f", width {self.width}"
        return f"tile({size}, {self.outer} first, inside by {self.inner}{more})"

    def program(self, id_: IndexExpression, n: IndexExpression, prefix: str) -> Program:
        """Lines that walk the plane of work-groups tile by tile; ids outside the plane stay."""

        def at(text: str) -> IndexExpression:
            return e.name(prefix + text)

        flipped = self.outer == "columns"
        across, down = ("height", "width") if flipped else ("width", "height")
        groups, tiles = (self.columns, self.rows) if flipped else (self.rows, self.columns)
        group: IndexExpression = e.number(groups) if groups else at(down)
        tile: IndexExpression = e.number(tiles) if tiles else at(across)
        lines = self._tile_plane(at, id_, n)
        lines += [
            ("first", at("c") // (group * at(across)) * group),
            ("rest", at("c") - at("first") * at(across)),
            ("h", e.least(group, at(down) - at("first"))),
            ("tile", _divide_extent(at("rest"), at("h"), groups, tile) * tile),
            ("in", at("rest") - at("tile") * at("h")),
            ("w", e.least(tile, at(across) - at("tile"))),
        ]
        lines += self._place_in_tile(at, flipped)
        row, column = at("first") + at("i"), at("tile") + at("j")
        if flipped:
            row, column = column, row
        there = row * at("width") + column
        inside = id_.below(at("width") * at("height"))
        lines.append(("id", there if self.width in WHOLE else e.select(inside, there, id_)))
        return [(prefix + text, value) for text, value in lines]

    def _tile_plane(self, at: Any, id_: IndexExpression, n: IndexExpression) -> Program:
        """Width and height of the plane, and `c`, the group's number in it. What is behind the last complete row stays
        in its place; it is computed as if it were the last group in the plane."""
        if self.width in WHOLE:
            width, height = WHOLE[self.width]
            return [("width", width), ("height", height), ("c", id_)]
        return [
            ("width", e.least(int(self.width), n)),
            ("height", n // at("width")),
            ("c", e.least(id_, at("width") * at("height") - 1)),
        ]

    def _place_in_tile(self, at: Any, flipped: bool) -> Program:
        """The place (i, j) in a tile of h by w: i counts along the outer groups' direction."""
        if self.inner in CURVES:
            side = self.rows
            full = at("h").equals(side) & at("w").equals(side)
            lines, i, j = CURVE_PROGRAMS[self.inner](at, side)
            plain = at("in") // at("w"), at("in") % at("w")  # an incomplete tile
            return [*lines, ("i", e.select(full, i, plain[0])), ("j", e.select(full, j, plain[1]))]
        groups, tiles = (self.columns, self.rows) if flipped else (self.rows, self.columns)
        along = (self.inner == "rows") != flipped
        fast, slow, size, constant = ("j", "i", at("w"), tiles) if along else ("i", "j", at("h"), groups)
        return [(slow, _divide_extent(at("in"), size, constant)), (fast, at("in") - at(slow) * size)]


def _divide_extent(value: IndexExpression, size: IndexExpression, full: int, factor: Operand = 1) -> IndexExpression:
    """value // (factor * size), where size is nearly always `full`, a constant by which division is cheap."""
    if full == 0:
        return value // (size * factor)
    return e.select(size.equals(full), value // (_multiply_extent(full, factor)), value // (size * factor))


def _multiply_extent(full: int, factor: Operand) -> Operand:
    if isinstance(factor, IndexExpression):
        return factor if full == 1 else int(factor.value) * full if factor.op == "number" else factor * full
    return full * factor


def _morton_order(at: Any, side: int) -> tuple[Program, IndexExpression, IndexExpression]:
    bits = side.bit_length() - 1
    i: IndexExpression = e.number(0)
    j: IndexExpression = e.number(0)
    for bit in range(bits):
        j = j | ((at("in") >> (2 * bit) & 1) << bit)
        i = i | ((at("in") >> (2 * bit + 1) & 1) << bit)
    return [], i, j


def _hilbert_order(at: Any, side: int) -> tuple[Program, IndexExpression, IndexExpression]:
    """The usual construction, from the smallest square outwards: each level turns the square below and places it."""
    lines: Program = [("hx0", e.number(0)), ("hy0", e.number(0))]
    for level in range(side.bit_length() - 1):
        s, x, y = 1 << level, at(f"hx{level}"), at(f"hy{level}")
        right, low = at("in") >> (2 * level + 1) & 1, (at("in") >> (2 * level)) & 1
        up = right ^ low
        turned = up.equals(0)
        mirrored = turned & right.equals(1)
        fx, fy = e.select(mirrored, e.number(s - 1) - x, x), e.select(mirrored, e.number(s - 1) - y, y)
        lines += [
            (f"hx{level + 1}", e.select(turned, fy, fx) + right * s),
            (f"hy{level + 1}", e.select(turned, fx, fy) + up * s),
        ]
    last = side.bit_length() - 1
    return lines, at(f"hy{last}"), at(f"hx{last}")


CURVE_PROGRAMS = {"morton": _morton_order, "hilbert": _hilbert_order}


@dataclass(frozen=True)
class Formula:
    """A mapping in the user's own words, of which nothing is known."""

    text: str

    @property
    def label(self) -> str:
        return self.text

    @functools.cached_property
    def expression(self) -> IndexExpression:
        return e.parse_formula(self.text)

    def program(self, id_: IndexExpression, n: IndexExpression, prefix: str) -> Program:
        return [(f"{prefix}id", self.expression)]


Step = Spread | RowSpread | Tile | Formula


@dataclass(frozen=True)
class GroupMapping:
    """Steps, applied one after the other to the number in dispatch order; in grids other than `grids`, every group
    keeps its place, where these are given."""

    steps: tuple[Step, ...] = ()
    grids: tuple[Dim, ...] = ()

    @property
    def label(self) -> str:
        return ", then ".join(step.label for step in self.steps) or "as it is"

    def program(self) -> Program:
        """Lines of all steps, each of which has a prefix of its own for its variables, and of the choice by the grid.
        The last one is the result."""
        lines = self._list_steps()
        if not self.grids or not lines:
            return lines
        is_proven = functools.reduce(operator.or_, (_is_grid(grid) for grid in self.grids))
        return [*lines, ("chosen", e.select(is_proven, e.name(lines[-1][0]), e.name("id")))]

    def _list_steps(self) -> Program:
        lines: Program = []
        id_ = e.name("id")
        for position, step in enumerate(self.steps):
            prefix = f"s{position}_"
            lines += step.program(id_, e.name("n"), prefix)
            id_ = e.name(f"{prefix}id")
        return lines

    def numbers(self, grid: Dim, is_signed: bool = False) -> Array:
        """The group that each dispatched group computes, [groups], possibly out of range for a Formula; `is_signed`: in
        Triton."""
        return self.of(np.arange(grid[0] * grid[1] * grid[2], dtype=np.int64), grid, is_signed)

    def of(self, ids: Array, grid: Dim, is_signed: bool = False) -> Array:
        """The mapped ids, in the shape of `ids`, for a grid of work-groups."""
        if self.grids and grid not in self.grids:
            return ids  # the steps may even divide by zero there
        values = {"id": ids, "n": np.asarray(grid[0] * grid[1] * grid[2])}
        values |= {axis: np.asarray(size) for axis, size in zip("XYZ", grid, strict=True)}
        mapped = ids
        for text, value in self.program():
            mapped = values[text] = evaluate_expression(value, values, is_signed)
        return np.broadcast_to(mapped, ids.shape)

    @functools.cached_property
    def cost(self) -> int:
        """About how many instructions it adds to a wave."""
        if len(self.steps) == 1 and isinstance(self.steps[0], RowSpread):
            return 8
        return 16 + sum(e.expression_cost(value) for _, value in self.program())

    def source(self, function: str) -> str:
        """A HIP device function that returns the coordinates of the work-group to compute."""
        if len(self.steps) == 1 and isinstance(self.steps[0], RowSpread) and not self.grids:
            return self.steps[0].source(function, self.label)
        lines = [
            f"// Which work-group computes what: {self.label}.",
            f"__device__ inline dim3 {function}() {{",
            "  const unsigned X = gridDim.x, Y = gridDim.y, Z = gridDim.z, n = X * Y * Z;",
            *self._write_guard(),
            "  const unsigned id = (blockIdx.z * Y + blockIdx.y) * X + blockIdx.x;",
        ]
        program = self._list_steps()
        ending = self._coordinate_statements(program[-1][0] if program else "id")
        if "id" not in ending[0]:
            program = program[:-1]  # the number itself is not needed
        lines += [f"  const unsigned {text} = {e.expression_source(value)};" for text, value in program]
        if any(e.QUOTIENT in line for line in (*lines, *ending)):
            lines.insert(2, f"  {e.QUOTIENT_SOURCE}")
        return "\n".join([*lines, *ending, "}"]) + "\n"

    def _write_guard(self) -> list[str]:
        """The statement that leaves groups of other grids at their places."""
        tests = [" && ".join(f"{axis} == {size}u" for axis, size in zip("XYZ", grid, strict=True))
                 for grid in self.grids]  # fmt: skip
        if not tests:
            return []
        condition = tests[0] if len(tests) == 1 else " || ".join(f"({test})" for test in tests)
        return [
            "  // No group is lost or computed twice in these grids; in others all keep their places.",
            f"  if (!({condition})) return dim3(blockIdx.x, blockIdx.y, blockIdx.z);",
        ]

    def _coordinate_statements(self, last: str) -> list[str]:
        """Statements that return the coordinates of group `last`, without a division where the last step knows them."""
        final = self.steps[-1] if self.steps else None
        lines = []
        if isinstance(final, Tile) and final.width == "X":
            at = last.removesuffix("id")
            row, column = ("tile", "first") if final.outer == "columns" else ("first", "tile")
            i, j = ("j", "i") if final.outer == "columns" else ("i", "j")
            lines.append(f"  const unsigned column = {at}{column} + {at}{j}, row = {at}{row} + {at}{i};")
            lines.append("  if (Z == 1u) return dim3(column, row, 0u);")
            return [*lines, "  return dim3(column, row % Y, row / Y);"]
        lines.append(f"  if (n == X) return dim3({last}, 0u, 0u);")
        lines.append(f"  const unsigned row = {e.QUOTIENT}({last}, X), column = {last} - row * X;")
        lines.append("  if (Z == 1u) return dim3(column, row, 0u);")
        return [*lines, "  return dim3(column, row % Y, row / Y);"]


def _is_grid(grid: Dim) -> IndexExpression:
    """1 in a launch with this grid, else 0."""
    x, y, z = (e.name(axis).equals(size) for axis, size in zip("XYZ", grid, strict=True))
    return x & y & z


def distinct_tiles(grid: Dim, widths: tuple[str, ...]) -> Iterator[Tile]:
    """The tiles of the grammar that differ from each other on this grid."""
    for width in widths:
        across = grid[0] if width == "X" else grid[0] * grid[1] if width == "X * Y" else int(width)
        down = grid[0] * grid[1] * grid[2] // max(across, 1)
        if across < 2 or down < 2:
            continue
        yield Tile(0, 1, inner="columns", width=width)  # by columns
        for side in (2, 4, 8, 16, 32):
            if side < down:
                yield Tile(side, 1, inner="columns", width=width)  # groups of rows
            if side < across:
                yield Tile(0, side, width=width)  # groups of columns
            if side < down and side < across:
                yield Tile(side, side, width=width)
                yield Tile(side, side, outer="columns", inner="columns", width=width)
                if side < 32:
                    yield from (Tile(side, side, inner=curve, width=width) for curve in CURVES)


def candidate_mappings(grid: Dim, xcds: int, cus: int, widths: tuple[str, ...] = ()) -> list[GroupMapping]:
    """All mappings that are tried for a grid: spreads, tiles, and tiles after each spread. Without the identity."""
    n = grid[0] * grid[1] * grid[2]
    planes = ("X", *(("X * Y",) if grid[2] > 1 and grid[1] > 1 else ()), *widths)
    over_xcds = [Spread(xcds), *(Spread(xcds, run) for run in (2, 4, 8, 16, 32, 64, 128))] if xcds > 1 else []
    spreads: list[Step] = [spread for spread in (*over_xcds, Spread(cus)) if n >= 2 * spread.parts * max(spread.run, 1)]
    if grid[0] < n and xcds > 1:
        spreads += [
            RowSpread(spread.parts, spread.run) for spread in over_xcds if grid[0] >= 2 * xcds * max(spread.run, 1)
        ]
    shapes = list(distinct_tiles(grid, planes))
    firsts = [s for s in spreads if isinstance(s, Spread) and s.parts == xcds and s.run in (0, 8, 32)]
    mappings = [GroupMapping((spread,)) for spread in spreads] + [GroupMapping((tile,)) for tile in shapes]
    return mappings + [GroupMapping((first, tile)) for first in firsts for tile in shapes]
