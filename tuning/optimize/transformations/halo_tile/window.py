"""Finds arrays of which each work-item reads a window around its own place: stencils and convolutions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.polynomials import Polynomial, add_polynomials, multiply_polynomials, times_of
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import Shape
from hipsynth.tuning.optimize.transformations.halo_tile.affine import AXIS_NAMES, AffineReader
from hipsynth.tuning.optimize.transformations.halo_tile.load_guards import find_guards, is_skip, same_guards
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import (
    Condition,
    Definition,
    TiledLoop,
    make_reader,
)

Range = tuple[int, int]  # the least and the largest value
MOST_HALO = 16  # elements that a window reaches along an axis
LEAST_LOADS = 3  # of a window: with fewer, staging costs as much as it saves


@dataclass(frozen=True)
class WindowLoad:
    """Reads of one element of a window: tokens [start, end) of `pointer[...]`; `offsets`: from the work-item's own
    element along x and y, as polynomials of loops' variables."""

    span: tuple[int, int]
    offsets: tuple[Polynomial, Polynomial]


@dataclass(frozen=True)
class Window:
    """What a work-item reads of an array. `reach`: the least and the largest offset along x and y; the first load tells
    where the work-item's own element is; `guards`: conditions on the element under which it is read, as written for
    the first load."""

    pointer: str
    type: str
    loads: tuple[WindowLoad, ...]
    reach: tuple[Range, Range]
    guards: tuple[Condition, ...] = ()

    @property
    def halo(self) -> tuple[int, int]:
        return self.reach[0][1] - self.reach[0][0], self.reach[1][1] - self.reach[1][0]


@dataclass(frozen=True)
class WindowKernel:
    """A kernel with windows. `statements`: what it does for a work-item; `constants`: what these define; `variables`:
    of its loops, with the values that they take; `upper`: the conditions that bound a work-item's number from above,
    the others bound it from below.
    """

    tiling: TiledLoop
    windows: tuple[Window, ...]
    statements: tuple[Statement, ...]
    constants: tuple[Definition, ...]
    variables: dict[int, Range]
    upper: frozenset[Condition]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of the tile."""
        return (0, 1) if 1 in self.tiling.indices.values() else (0,)


def find_windows(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> WindowKernel:
    """Raises NotUnderstood where the kernel reads no windows."""
    return _WindowFinder(program, kernel, block).find()


class _WindowFinder:
    def __init__(self, program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> None:
        self.kernel, self.body, self.tokens = kernel, Body(program, kernel), program.tokens
        self.reader = make_reader(program, kernel, block)
        self.tiling = self.reader.tiling

    def find(self) -> WindowKernel:
        self.reader.read_before(parse_statements(self.tokens, self.kernel.first, self.kernel.last))
        tiling = self.tiling
        statements = (*([tiling.loop] if tiling.loop.end else []), *tiling.after)
        parts = [part for statement in statements for part in statement.inner()]
        skips = sum(is_skip(self.tokens, part) for part in parts)
        if not statements or sum(part.kind == "jump" for part in parts) > skips:
            raise NotUnderstood("a jump, or nothing that is done")
        self._move_variables(statements)
        variables = dict(self._find_ranges(statements))
        self.affine = AffineReader(self.body, tiling, frozenset(variables))
        upper = frozenset(c for c in tiling.conditions if c.axes and self._bounds_above(c))
        windows = tuple(self._find_windows(statements, variables))
        if not windows:
            raise NotUnderstood("no array of which work-items read windows")
        return WindowKernel(tiling, windows, statements, tuple(self._list_constants(statements)), variables, upper)

    def _list_constants(self, statements: tuple[Statement, ...]) -> Iterator[Definition]:
        """The local constants that the statements define."""
        for place, value in sorted(self.body.constants.items()):
            if statements[0].start <= value[0] < statements[-1].end:
                first, at = self.body.find_declared_type(place)
                words = itertools.takewhile(lambda t: t.start not in self.body.locals, self.tokens[first : at + 1])
                kind = " ".join(token.text for token in words)
                yield Definition(place, kind, self.tokens[at].text, value, frozenset({0, 1}))

    def _move_variables(self, statements: tuple[Statement, ...]) -> None:
        """Variables that are changed are declared for each work-item, as are those that depend on its number."""
        span = (statements[0].start, statements[-1].end)
        changed = self.body.changed(span)
        self.tiling.definitions = [
            replace(local, axes=frozenset({0, 1})) if local.place in changed else local
            for local in self.tiling.definitions
        ]

    def _find_ranges(self, statements: tuple[Statement, ...]) -> Iterator[tuple[int, Range]]:
        """The variables of `for (int j = 0; j < 7; ++j)`, with numbers that are known."""
        numbers = AffineReader(self.body, self.tiling)
        loops = (part for statement in statements for part in statement.inner() if part.kind == "for")
        for loop in loops:
            parts = split_at(self.tokens, *loop.head, ";")
            if len(parts) != 3:
                continue
            (a, b), (c, d), (e, f) = parts
            equals = next((i for i in range(a, b) if self.tokens[i].text == "="), -1)
            place = self.tokens[equals - 1].start
            sign = self.tokens[c + 1].text
            name = self.tokens[c].text
            stepped = [t.text for t in self.tokens[e:f]] in ([name, "++"], ["++", name])
            inside = (loop.head[1] + 1, loop.end)
            if equals < 0 or place not in self.body.locals or not stepped or sign not in ("<", "<="):
                continue
            if self.body.local(self.tokens[c]) != place or place in self.body.changed(inside):
                continue
            try:
                ends = [numbers.read(span) for span in ((equals + 1, b), (c + 2, d))]
            except NotUnderstood:
                continue
            if all(set(value) <= {()} for value in ends):
                first, last = (value.get((), 0) for value in ends)
                yield place, (first, last - (sign == "<"))

    def _bounds_above(self, condition: Condition) -> bool:
        """Whether a condition that must hold bounds a work-item's number from above; if not, from below."""
        signs = [i for i in range(*condition.span) if self.tokens[i].text in ("<", "<=", ">", ">=")]
        if len(signs) != 1 or len(condition.axes) != 1:
            raise NotUnderstood("a condition of another kind")
        (at,), (axis,) = signs, condition.axes
        left, right = self.affine.read((condition.span[0], at)), self.affine.read((at + 1, condition.span[1]))
        factor = times_of(add_polynomials(left, right, -1), AXIS_NAMES[axis])
        if set(factor) != {()} or abs(factor[()]) != 1:
            raise NotUnderstood("a condition that is not linear")
        above = (self.tokens[at].text in ("<", "<=")) == (factor[()] > 0)
        return above != condition.negated

    # --- loads -------------------------------------------------------------------------------------------------------

    def _find_windows(self, statements: tuple[Statement, ...], variables: dict[int, Range]) -> Iterator[Window]:
        first = self.kernel.first
        for parameter in self.kernel.parameters:
            named = [i for i in range(first, self.kernel.last) if self._names(i, parameter.name)]
            written = any(self.body.assigns(i, self.kernel.last) for i in named)
            if not parameter.base or written or any(self.tokens[i + 1].text != "[" for i in named) or not named:
                continue
            try:
                window = self._make_window(parameter.name, parameter.base, named, variables)
                if window is not None:
                    yield replace(window, guards=self._read_guards(statements, window))
            except NotUnderstood:
                continue

    def _read_guards(self, statements: tuple[Statement, ...], window: Window) -> tuple[Condition, ...]:
        """The guards of a window. Raises NotUnderstood where its loads have different ones."""
        guards = [find_guards(self.affine, statements, load.span[0]) for load in window.loads]
        offsets = [load.offsets for load in window.loads]
        if not same_guards(self.affine, list(zip(guards, offsets, strict=True))):
            raise NotUnderstood("loads of one window under different conditions")
        return tuple(guards[0])

    def _names(self, at: int, name: str) -> bool:
        return self.tokens[at].text == name and self.body.local(self.tokens[at]) < 0

    def _make_window(self, pointer: str, kind: str, named: list[int], variables: dict[int, Range]) -> Window | None:
        loads: list[WindowLoad] = []
        middle: Polynomial = {}
        pitch: Polynomial = {}
        for at in named:
            close = find_closing(self.tokens, at + 1)
            if self.tokens[close + 1].text in (".", "["):
                return None
            place = self.affine.read((at + 2, close))
            rows = times_of(place, AXIS_NAMES[1])
            if times_of(place, AXIS_NAMES[0]) != {(): 1}:
                return None
            if not loads:
                middle = {
                    names: n for names, n in place.items() if not any(v == f"@{p}" for v in names for p in variables)
                }
                pitch = rows
            if rows != pitch:
                return None
            loads.append(WindowLoad((at, close + 1), _split_offset(add_polynomials(place, middle, -1), pitch)))
        reach = tuple(_range_of([load.offsets[axis] for load in loads], variables) for axis in (0, 1))
        window = Window(pointer, kind, tuple(loads), (reach[0], reach[1]))
        sizes = [r[1] - r[0] for r in reach]
        elements = (sizes[0] + 1) * (sizes[1] + 1)
        return window if max(sizes) <= MOST_HALO and elements >= LEAST_LOADS and sum(sizes) > 0 else None


def _split_offset(offset: Polynomial, pitch: Polynomial) -> tuple[Polynomial, Polynomial]:
    """An offset as elements along x and rows along y."""
    mark = next((names for names in sorted(pitch, key=len, reverse=True) if names), None)
    if mark is None:
        if pitch:
            raise NotUnderstood("rows of a length that is a number")
        return offset, {}
    rows: dict[tuple[str, ...], int] = {}
    for names, factor in offset.items():
        rest = list(names)
        if not Counter(mark) - Counter(rest):
            for name in mark:
                rest.remove(name)
            if factor % pitch[mark]:
                raise NotUnderstood("an offset of another kind")
            rows[tuple(rest)] = factor // pitch[mark]
    return add_polynomials(offset, multiply_polynomials(rows, pitch), -1), rows


def _range_of(offsets: list[Polynomial], variables: dict[int, Range]) -> Range:
    ranges = {f"@{place}": ends for place, ends in variables.items()}
    low, high = [], []
    for offset in offsets:
        ends = [0, 0]
        for names, factor in offset.items():
            if len(names) > 1 or (names and names[0] not in ranges):
                raise NotUnderstood("an offset that is not known")
            values = ranges[names[0]] if names else (1, 1)
            both = sorted(factor * value for value in values)
            ends = [ends[0] + both[0], ends[1] + both[1]]
        low.append(ends[0])
        high.append(ends[1])
    return min(low), max(high)
