"""Kernels that compute the row and column of a result from one flat number: these become coordinates of the grid.

`row = i / n, col = i % n` with `if (i >= m * n) return;` become the numbers of a work-item along y and x, and the grid
m by n work-items. Of more digits (image, channel, row and column of a convolution), those on which all loads of the
loops depend go along z, those on which one of both kinds of loads depends along y, and the others along x.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.launch_shape import has_flat_launches
from hipsynth.tuning.optimize.source_changes.work_axes.number_parts import Digit, ExtentFactor, NumberPart, PartReader
from hipsynth.tuning.optimize.source_changes.work_axes.numbered_kernel import SIDE, NumberedKernel
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import find_indices

_PARAMETER = re.compile(r"\{\w+\}")


def list_numbered(
    program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape
) -> Iterator[NumberedKernel]:
    """The program with the digits of the kernel's flat number along the axes, if it has such; raises NotUnderstood."""
    if kernel.template or not has_flat_launches(program, kernel):
        raise NotUnderstood("a template, or a launch that is not flat")
    yield from write_numbered(program, kernel, grid, block)


def write_numbered(
    program: ParsedProgram, kernel: KernelDefinition, grid: Shape, block: Shape
) -> Iterator[NumberedKernel]:
    """The same for a kernel that is known to have a flat number, as if its launches were flat; raises NotUnderstood."""
    text = _FlatNumberWriter(Body(program, kernel), block).write()
    side = math.ceil(math.sqrt(grid[0] * block[0]) / SIDE)  # how many there are along each axis is not known here
    yield NumberedKernel(text, (side, side, 1), (SIDE, SIDE, 1))


@dataclass(frozen=True)
class _Bound:
    """The condition `number < total` or `number >= total`, and the factors of the total; `row < rows`, of the number's
    highest digit, says the same."""

    span: Span
    negated: bool
    total: tuple[ExtentFactor, ...]


@dataclass
class _FlatNumberWriter:
    body: Body
    block: Shape

    def write(self) -> str:
        """The changed program; raises NotUnderstood."""
        self.program, self.kernel, self.tokens = self.body.program, self.body.kernel, self.body.tokens
        self.body.check_plain()
        statements = parse_statements(self.tokens, self.kernel.first, self.kernel.last)
        self.simple = [inner for each in statements for inner in each.inner() if inner.kind == "simple"]
        self.start = self._find_number()
        self.number = next(self.tokens[i].start for i in range(*self.start.span) if self._declares(i))
        self.reader = PartReader(self.body, self.number)
        self.declared = dict(self._read_parts())
        bound = self._find_bound(statements)
        uses = list(self._find_uses(bound))
        places = list(dict.fromkeys(place for _, place in uses if place != self.number))
        if not places:
            raise NotUnderstood("no digits of the number")
        self.digits = self.reader.order_digits(places, self._resolve_total(bound.total, places))
        self.axes = self._choose_axes(statements)
        self.items = {axis: choose_free_name(f"item_{AXES[axis]}", self.program.text) for axis in (0, 1)}
        edits = [*self._edit_declarations(), self._edit_bound(bound)]
        last = max(self.tokens[self.declared[digit.place][1] - 1].start for digit in self.digits)
        for i, place in uses:
            if place == self.number and self.tokens[i].start < last:
                raise NotUnderstood("a use of the number before its digits")
            if place == self.number:
                edits.append(Edit(self.tokens[i].start, self.tokens[i].end, self._write_number(i)))
        launches = [Edit(launch.start, launch.end, self._write_launch(launch)) for launch in self.kernel.launches]
        return edit_text(self.program.unit.text, [*edits, *launches])

    # --- reading -----------------------------------------------------------------------------------------------------

    def _declares(self, at: int) -> bool:
        return self.tokens[at].start in self.body.locals

    def _find_number(self) -> Statement:
        """The statement `T number = blockIdx.x * blockDim.x + threadIdx.x;`."""
        indices = list(find_indices(self.body, self.block))
        if len(indices) != 1 or indices[0][1] != 0:
            raise NotUnderstood("no flat number of a work-item")
        (start, end), _ = indices[0]
        for statement in self.simple:
            names = [i for i in range(*statement.span) if self._declares(i)]
            if statement.start < start < statement.end:
                if len(names) != 1 or (names[0] + 2, statement.end - 1) != (start, end):
                    break
                return statement
        raise NotUnderstood("a flat number that is not a variable of its own")

    def _read_parts(self) -> Iterator[tuple[int, Span]]:
        """Declarations of the parts of the number, with their values."""
        for statement in self.simple:
            if statement.start <= self.start.start or not any(map(self._declares, range(*statement.span))):
                continue
            for start, end in split_at(self.tokens, statement.start, statement.end - 1, ","):
                at = next((i for i in range(start, end) if self.tokens[i].text == "="), end) - 1
                part = self.reader.read_part((at + 2, end)) if start <= at < end - 2 and self._declares(at) else None
                if part is not None:
                    self.reader.parts[self.tokens[at].start] = part
                    yield self.tokens[at].start, (at + 2, end)

    def _find_bound(self, statements: Sequence[Statement]) -> _Bound:
        """The condition on the number, which all work-items meet that do anything."""
        for statement in (inner for each in statements for inner in each.inner()):
            if statement.kind != "if" or len(statement.parts) != 1:
                continue
            negated = self.body.only_returns(statement.parts[0])
            total = self._read_total(statement.head, negated)
            if total:
                return _Bound(statement.head, negated, total)
        raise NotUnderstood("no bound of the number")

    def _read_total(self, head: Span, negated: bool) -> tuple[ExtentFactor, ...]:
        """The factors of what a condition says that the number is below: itself, or its highest digit while all others
        are below their extents anyway; () if it says something else."""
        total: tuple[ExtentFactor, ...] = ()
        for start, end in split_at(self.tokens, *head, "||" if negated else "&&"):
            place = self.body.local(self.tokens[start])
            part = NumberPart() if place == self.number else self.reader.parts.get(place)
            if part is None or end - start < 3 or self.tokens[start + 1].text != (">=" if negated else "<"):
                return ()
            limit = tuple(self.reader.list_factors((start + 2, end)))
            if part.extent is None and not total:
                total = *part.divisors, *limit
            elif part.extent is None or sorted(part.extent) != sorted(limit):
                return ()
        return total

    def _resolve_total(self, total: tuple[ExtentFactor, ...], places: list[int]) -> tuple[ExtentFactor, ...]:
        """The factors of the bound; of a parameter those that the host multiplies for it."""
        top = self.reader.parts[max(places, key=lambda place: len(self.reader.parts[place].divisors))]
        if top.extent is not None or len(total) != 1 or not _PARAMETER.fullmatch(total[0].host):
            return total
        if len(self.kernel.launches) != 1:
            raise NotUnderstood("a bound that several launches pass")
        (launch,) = self.kernel.launches
        values = self._list_arguments(launch)
        left = find_host_product(self.program.text, values[total[0].host[1:-1]])
        for factor in top.divisors:
            text = factor.host.format(**values)
            if text not in left:
                raise NotUnderstood("a bound of which the host does not show that it is a product of the extents")
            left.remove(text)
        host = _write_product(left or ["1"])
        return (
            *top.divisors,
            ExtentFactor(host, f"({total[0].text} / {_write_product(f.text for f in top.divisors)})"),
        )

    def _find_uses(self, bound: _Bound) -> Iterator[tuple[int, int]]:
        """Tokens that name a part of the number, outside the declarations of parts and the bound."""
        inside = [range(*span) for span in (*self.declared.values(), bound.span, self.start.span)]
        for i in range(self.kernel.first, self.kernel.last):
            place = self.body.local(self.tokens[i])
            if place not in self.reader.parts or self.tokens[i].start == place:
                continue
            if self.body.assigns(i, self.kernel.last) or self.tokens[i - 1].text == "&":
                raise NotUnderstood("a part of the number that changes")
            if not any(i in span for span in inside):
                yield i, place

    def _choose_axes(self, statements: Sequence[Statement]) -> dict[int, list[Digit]]:
        """The digits along each axis, by the loads of the kernel's loops."""
        names = self._find_dependences()
        kinds: set[frozenset[int]] = set()
        for loop in (inner for each in statements for inner in each.inner() if inner.kind == "for"):
            for i in range(*loop.span):
                if self.tokens[i].identifier and self.tokens[i + 1].text == "[":
                    span = range(i, find_closing(self.tokens, i + 1))
                    kinds.add(frozenset().union(*(names.get(self.body.local(self.tokens[j]), ()) for j in span)))
        kinds.discard(frozenset())
        common = frozenset.intersection(*kinds) if kinds else frozenset()
        groups = {kind - common for kind in kinds}
        fast = self.digits[0].place
        if len(groups) != 2 or frozenset.intersection(*groups) or not any(fast in group for group in groups):
            raise NotUnderstood("loads that do not depend on two groups of digits")
        across = next(group for group in groups if fast in group)
        (down,) = groups - {across}
        places = {0: across, 1: down, 2: common}
        chosen = {axis: [digit for digit in self.digits if digit.place in places[axis]] for axis in places}
        if sum(map(len, chosen.values())) < len(self.digits) or not all(digit.extent for digit in self.digits):
            raise NotUnderstood("a digit that no load depends on, or whose extent is not known")
        return chosen

    def _find_dependences(self) -> dict[int, frozenset[int]]:
        """The digits that local variables depend on by their first values."""
        names = {digit.place: frozenset({digit.place}) for digit in self.digits}
        for i in range(self.kernel.first, self.kernel.last):
            if self._declares(i) and self.tokens[i].start not in names and self.tokens[i + 1].text == "=":
                end = next(j for j in range(i, self.kernel.last) if self.tokens[j].text in (";", ","))
                inside = (names.get(self.body.local(self.tokens[j]), frozenset()) for j in range(i + 2, end))
                names[self.tokens[i].start] = frozenset().union(*inside)
        return names

    # --- writing -----------------------------------------------------------------------------------------------------

    def _text(self, span: Span) -> str:
        return text_between(self.program.unit, self.tokens, *span)

    def _edit_declarations(self) -> Iterator[Edit]:
        """The declarations of the number and of its parts."""
        at = next(i for i in range(*self.start.span) if self._declares(i))
        kind = self._text((self.start.start, at))
        values = [f"{name} = blockIdx.{x} * blockDim.{x} + threadIdx.{x}" for name, x in self._list_items()]
        first = self.tokens[self.start.start].start
        yield Edit(first, self.tokens[self.start.end - 1].end, f"{kind} {', '.join(values)};")
        values_by_place = dict(self._list_values())
        for statement in self.simple:
            names = [i for i in range(*statement.span) if self.tokens[i].start in self.declared]
            if not names:
                continue
            head = self._text((statement.start, next(i for i in range(*statement.span) if self._declares(i))))
            declarators = []
            for start, end in split_at(self.tokens, statement.start, statement.end - 1, ","):
                at = next((i for i in range(start, end) if self._declares(i)), start)
                place = self.tokens[at].start
                if place in values_by_place:
                    declarators.append(f"{self.tokens[at].text} = {values_by_place[place]}")
                elif place not in self.declared:
                    declarators.append(self._text((at, end)))
            text = f"{head} {', '.join(declarators)};" if declarators else ""
            yield Edit(self.tokens[statement.start].start, self.tokens[statement.end - 1].end, text)

    def _list_items(self) -> Iterator[tuple[str, str]]:
        return ((self.items[axis], AXES[axis]) for axis in (0, 1))

    def _list_values(self) -> Iterator[tuple[int, str]]:
        """The digits' new values."""
        for axis, digits in self.axes.items():
            item = self.items.get(axis, f"blockIdx.{AXES[axis]}")
            for number, digit in enumerate(digits):
                below = [factor.text for lower in digits[:number] for factor in lower.extent]
                value = f"{item} / {_write_product(below)}" if below else item
                is_last = number == len(digits) - 1
                yield digit.place, value if is_last else f"{value} % {_write_product(f.text for f in digit.extent)}"

    def _edit_bound(self, bound: _Bound) -> Edit:
        sign, joint = (">=", " || ") if bound.negated else ("<", " && ")
        texts = []
        for axis, name in self.items.items():
            extent = " * ".join(factor.text for digit in self.axes[axis] for factor in digit.extent)
            texts.append(f"{name} {sign} {extent}")
        first, last = self.tokens[bound.span[0]].start, self.tokens[bound.span[1] - 1].end
        return Edit(first, last, joint.join(texts))

    def _write_number(self, at: int) -> str:
        """The flat number, made of its digits."""
        text = self.digits[-1].name
        for digit in reversed(self.digits[:-1]):
            extent = " * ".join(factor.text for factor in digit.extent)
            text = f"{text if ' ' not in text else f'({text})'} * {extent} + {digit.name}"
        alone = self.tokens[at - 1].text in ("[", "(", ",", "=") and self.tokens[at + 1].text in ("]", ")", ",", ";")
        return text if alone else f"({text})"

    def _list_arguments(self, launch: LaunchStatement) -> dict[str, str]:
        """What a launch passes, in brackets unless it is a name or a number."""
        arguments = zip((each.name for each in self.kernel.parameters), launch.arguments, strict=True)
        return {name: value if re.fullmatch(r"\w+", value) else f"({value})" for name, value in arguments}

    def _write_launch(self, launch: LaunchStatement) -> str:
        values, counts = self._list_arguments(launch), []
        for digits in self.axes.values():
            factors = [factor.host.format(**values) for digit in digits for factor in digit.extent]
            counts.append(" * ".join(factors))
        groups = [f"({count} + {SIDE - 1}) / {SIDE}" for count in counts[:2]] + [each for each in counts[2:] if each]
        rest = "".join(f", {part}" for part in launch.rest)
        shape = f"dim3({', '.join(groups)}), dim3({SIDE}, {SIDE}){rest}"
        return f"{self.kernel.name}<<<{shape}>>>({', '.join(launch.arguments)});"


def find_host_product(text: str, value: str) -> list[str]:
    """The factors of what a launch passes, of a variable those of its only value; [] if that is no product."""
    name = value.strip("()")
    if name.isidentifier():
        assigned = re.findall(rf"\b{name}\s*(?:=(?!=)\s*([^;,]*)|[-+*/%&|^]=|\+\+|--)", text)
        name = assigned[0] if len(assigned) == 1 else ""
    return re.split(r"\s*\*\s*", name.strip()) if re.fullmatch(r"\s*\w+(?:\s*\*\s*\w+)+\s*", name) else []


def _write_product(factors: Iterator[str] | Sequence[str]) -> str:
    texts = list(factors)
    return texts[0] if len(texts) == 1 else f"({' * '.join(texts)})"
