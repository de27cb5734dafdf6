"""Writes a kernel whose groups load the windows of their work-items once, and its launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.polynomials import Polynomial
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.halo_tile.window import (
    Window,
    WindowKernel,
    WindowLoad,
    find_windows,
)
from hipsynth.tuning.optimize.transformations.lds_tile.group_source import GroupWriter, indent_lines
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import Condition

LANES = {1: (256, 1), 2: (64, 4)}  # of a group, by the number of axes
MOST_LDS = 32 << 10  # bytes: two groups of 256 lanes on a compute unit
_BYTES = {"double": 8, "char": 1, "unsigned char": 1, "uint8_t": 1, "half": 2, "__half": 2, "short": 2}
_STAGING, _RESULTS = {-1: "staging"}, {-1: "results"}  # what a text is for, among the numbers of work-items


def tile_shape(kernel: WindowKernel, each: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Results of a group along x and y, and its lanes; `each`: results of a lane."""
    lanes = LANES[len(kernel.axes)]
    return (lanes[0], lanes[1] * each) if lanes[1] > 1 else (lanes[0] * each, 1), lanes


def count_bytes(kernel: WindowKernel, each: int) -> int:
    """Bytes of LDS of a group."""
    (width, height), _ = tile_shape(kernel, each)
    return sum((width + w.halo[0]) * (height + w.halo[1]) * _BYTES.get(w.type, 4) for w in kernel.windows)


def edit_windows(program: ParsedProgram, kernel: KernelDefinition, each: int, block: Shape) -> list[Edit]:
    """The edits of a kernel and its launches. Raises NotUnderstood."""
    windowed = find_windows(program, kernel, block)
    widths, lanes = tile_shape(windowed, each)
    return list(_WindowWriter(program, kernel, windowed.tiling, widths, lanes, windowed).edits())


@dataclass(frozen=True)
class _WindowWriter(GroupWriter):
    source: WindowKernel

    def edits(self) -> Iterator[Edit]:
        names = {f"{window.pointer}_tile" for window in self.source.windows}
        if self.has_names(["column", "line", "item", *names]):
            raise NotUnderstood("names that the new code uses")
        yield Edit(self.kernel.start, self.kernel.end, self._write_kernel())
        yield from self._launch_edits()

    def _write_kernel(self) -> str:
        body = self._write_shared()
        for window in self.source.windows:
            body += self._write_staging(window)
        body += ["__syncthreads();", *self._write_results()]
        shape = " x ".join(str(self.widths[axis]) for axis in self.source.axes)
        return (
            f"// A group computes {shape} results; what their windows share is loaded once, with its halo.\n"
            f"{self._write_head()} {{\n" + indent_lines("\n".join(body), 2) + "\n}"
        )

    # --- the tile ----------------------------------------------------------------------------------------------------

    def _write_staging(self, window: Window) -> list[str]:
        """Lanes load the elements that some work-item of the group reads."""
        width, height = (size + halo for size, halo in zip(self.widths, window.halo, strict=True))
        first = window.loads[0]
        if len(self.source.axes) == 1:
            array, loops = f"[{width}]", [self._write_for("column", 0, width)]
        else:
            array, loops = (
                f"[{height}][{width}]",
                [self._write_for("line", 1, height), self._write_for("column", 0, width)],
            )
        places = self._named(first.span).union(*(self._named(guard.span) for guard in window.guards))
        shared = {local.place for local in self._shared_definitions}
        names = ("column", "line")
        indices = {
            axis: f"static_cast<int>(blockIdx.{AXES[axis]} * {self.widths[axis]} + {names[axis]})"
            f"{_signed(window.reach[axis][0])}"
            for axis in (0, 1)
        }
        value = _drop_zeros(self._rewrite(first.span, {**indices, **_STAGING}))
        use = {**indices, **_STAGING}
        inside = [_drop_zeros(line) for line in self._write_definitions(places, use, shared, self.source.constants)]
        target = f"{window.pointer}_tile" + ("[column]" if len(self.source.axes) == 1 else "[line][column]")
        guards = [_drop_zeros(self._write_condition(guard, use)) for guard in window.guards]
        needed = " &&\n    ".join([*self._write_needed(window), *guards])
        inside.append(f"if ({needed})\n  {target} = {value};" if needed else f"{target} = {value};")
        lines = [f"__shared__ {window.type} {window.pointer}_tile{array};"]
        for depth, loop in enumerate(loops):
            lines.append(" " * (2 * depth) + loop + (" {" if depth + 1 == len(loops) else ""))
        return [*lines, *(indent_lines(text, 2 * len(loops)) for text in inside), " " * (2 * len(loops) - 2) + "}"]

    def _write_for(self, name: str, axis: int, size: int) -> str:
        return f"for (int {name} = threadIdx.{AXES[axis]}; {name} < {size}; {name} += {self.lanes[axis]})"

    def _write_needed(self, window: Window) -> Iterator[str]:
        """Conditions under which a work-item of the group reads the element of a line and column."""
        for condition in self._bounding_conditions():
            (axis,) = condition.axes
            name, halo, width = ("column", "line")[axis], window.halo[axis], self.widths[axis]
            if condition in self.source.upper:  # of the work-items that read it, the first one
                item = f"max({name} - {halo}, 0)" if halo else name
            else:
                item = f"min({name}, {width - 1})" if halo else name
            index = {axis: f"static_cast<int>(blockIdx.{AXES[axis]} * {width} + {item})"}
            yield self._substitute(condition, index)
        for axis, name in self._item_names.items():
            if axis in self.source.axes:
                item = f"max({('column', 'line')[axis]} - {window.halo[axis]}, 0)"
                yield f"blockIdx.{AXES[axis]} * {self.widths[axis]} + {item} < {name}"

    def _bounding_conditions(self) -> list[Condition]:
        return [condition for condition in self.tiling.conditions if condition.axes]

    def _substitute(self, condition: Condition, index: Mapping[int, str]) -> str:
        """A condition in which the names of a work-item's numbers are replaced by what they stand for."""
        text = self._write_condition(condition, index)
        tokens = self.program.tokens
        for local in reversed(self.tiling.definitions):
            if local.axes and local.place in self._close_over(self._named(condition.span)):
                plain = local.value in self.tiling.indices
                value = self._rewrite(local.value, index) if plain else f"({self._rewrite(local.value, index)})"
                words = {t.text for t in tokens[condition.span[0] : condition.span[1]]}
                if local.name not in words:
                    raise NotUnderstood("a condition on numbers that are made of others")
                text = _replace_word(text, local.name, value)
        return text

    # --- the results -------------------------------------------------------------------------------------------------

    def _write_results(self) -> list[str]:
        """The statements of the kernel for each result of a lane, which read the tiles."""
        items = {0: "threadIdx.x", 1: "threadIdx.y"}
        loops: list[str] = []
        axis = self.source.axes[-1]
        if self.widths[axis] > self.lanes[axis]:
            items[axis] = "item"
            loops = ["#pragma unroll", self._write_for("item", axis, self.widths[axis]) + " {"]
        indices = {a: f"blockIdx.{AXES[a]} * {self.widths[a]} + {items[a]}" for a in (0, 1)}
        statements = self.source.statements
        span = (statements[0].start, statements[-1].end)
        places = self._named(span)
        for condition in self.tiling.conditions:
            places |= self._named(condition.span)
        shared = {local.place for local in self._shared_definitions}
        use = {**indices, **_RESULTS, -2: items[0], -3: items[1]}
        early = {p for condition in self._bounding_conditions() for p in self._named(condition.span)}
        lines = self._write_definitions(early, use, shared)
        conditions = " && ".join(self._conditions_of(set(self.source.axes), indices))
        written = shared | self._close_over(early)
        inside = [*self._write_definitions(places, use, written), self._dedent(self._rewrite(span, use), span[0])]
        if conditions:
            lines += [f"if ({conditions}) {{", *(indent_lines(text, 2) for text in inside), "}"]
        else:
            lines += inside
        return [*loops, *(indent_lines(line, 2) for line in lines), "}"] if loops else lines

    def _rewrite(self, span: tuple[int, int], indices: Mapping[int, str], others: Iterable[Edit] = ()) -> str:
        """As for all groups; for results, loads of windows are replaced, and in a tile loops have not begun."""
        use = indices.get(-1, "")
        edits = list(others)
        if use == "results":
            loads = ((window, load) for window in self.source.windows for load in window.loads)
            edits += [
                self._tile_edit(window, load, indices)
                for window, load in loads
                if span[0] <= load.span[0] and load.span[1] <= span[1]
            ]
        elif use == "staging":
            for i in range(*span):
                if self.tiling.body.local(self.program.tokens[i]) in self.source.variables:
                    edits.append(Edit(self.program.tokens[i].start, self.program.tokens[i].end, "0"))
        return super()._rewrite(span, indices, edits)

    def _dedent(self, text: str, first: int) -> str:
        """A text of several lines as if the token that it begins with began its line."""
        before = (
            self.program.unit.text[: self.program.tokens[first].start].rsplit(b"\n", 1)[-1].decode(errors="replace")
        )
        margin = before[: len(before) - len(before.lstrip())]
        return "\n".join(line.removeprefix(margin) for line in text.splitlines())

    def _tile_edit(self, window: Window, load: WindowLoad, indices: Mapping[int, str]) -> Edit:
        tokens = self.program.tokens
        places = [
            f"[{indices[-2 - axis]}{self._write_offset(load.offsets[axis], -window.reach[axis][0])}]"
            for axis in reversed(self.source.axes)
        ]
        text = f"{window.pointer}_tile{''.join(places)}"
        return Edit(tokens[load.span[0]].start, tokens[load.span[1] - 1].end, text)

    def _write_offset(self, offset: Polynomial, more: int) -> str:
        """` + j + 1` of an offset; loops' variables by their names."""
        text, number = "", more
        for names, factor in offset.items():
            if not names:
                number += factor
                continue
            name = self._name_of(int(names[0].removeprefix("@")))
            text += f" {'+' if factor > 0 else '-'} {name}" + (f" * {abs(factor)}" if abs(factor) > 1 else "")
        return text + _signed(number)

    def _name_of(self, place: int) -> str:
        return next(token.text for token in self.program.tokens if token.start == place)


def _drop_zeros(text: str) -> str:
    """A subscript without the zeros that stand for variables of loops."""
    return re.sub(r"(?<!\w)\((\w+)\)", r"\1", re.sub(r" [+-] 0\b(?!\.)", "", text))


def _signed(number: int) -> str:
    return f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""


def _replace_word(text: str, word: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(word)}\b", lambda _: new, text)
