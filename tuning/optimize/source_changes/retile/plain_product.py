"""Writes a product without its tiles: an element `tile[i][j]` is what the work-item with these coordinates stored, its
expression with the number along the common dimension in place of the tile's and of the place in it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.polynomials import (
    Monomial,
    Polynomial,
    add_polynomials,
    multiply_polynomials,
    substitute_name,
    times_of,
)
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.launch_shape import read_shape_component
from hipsynth.tuning.optimize.source_changes.retile.staged_product import (
    ONE,
    STEP,
    TILE,
    TILE_AXES,
    LdsTile,
    StagedProduct,
    read_staged_product,
)
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

_ITEM = {axis: f"@{axis}" for axis in TILE_AXES}  # a work-item's number along an axis
_ITEMS = {axis: f"@items_{axis}" for axis in TILE_AXES}  # how many work-items the launch has along an axis
_ITEM_NAMES = {"x": "col", "y": "row"}
_ITEMS_NAMES = {"x": "cols", "y": "rows"}
_SIGNS = {"<": (1, 0), "<=": (1, 1), ">": (-1, 0), ">=": (-1, 1)}


def write_plain_product(program: ParsedProgram, kernel: KernelDefinition, block: Shape) -> str:
    """The program with a kernel, launched with groups of shape `block`, that reads memory where it read its tiles.
    Raises NotUnderstood for other kernels."""
    try:
        product = read_staged_product(program, kernel, block, by_value=False)
        return _PlainWriter(program, kernel, product).write()
    except NotUnderstood:  # the width of a tile may be a number here and a name there
        product = read_staged_product(program, kernel, block, by_value=True)
        return _PlainWriter(program, kernel, product).write()


@dataclass
class _PlainWriter:
    program: ParsedProgram
    kernel: KernelDefinition
    product: StagedProduct
    names: dict[str, str] = field(default_factory=dict)  # in the new source, by those in polynomials
    conditions: list[Span] = field(default_factory=list)  # under which results are stored
    sums: set[str] = field(default_factory=set)  # names of what the loop changes
    implied: list[Polynomial] = field(default_factory=list)  # what is more than 0 in each step that counts

    def write(self) -> str:
        """The program."""
        self.reader = self.product.reader
        self.body, self.tokens = self.reader.body, self.program.tokens
        definition = self.program.unit.text[self.kernel.start : self.kernel.end].decode(errors="surrogateescape")
        self.taken = " ".join([definition, *self.program.macros])
        self.names = {STEP: self.product.loop.name, **{_ITEM[axis]: self._name_item(axis) for axis in TILE_AXES}}
        self.names |= {_ITEMS[axis]: self._name_items(axis) for axis in TILE_AXES}
        stores = self._read_stores()
        length = add_polynomials(self.product.length, {(STEP,): 1}, -1)
        self.implied = [length, *(self._name_places(self._read_difference(span), "") for span in self.conditions)]
        constants, sums = self._write_declarations()
        loop, bound = self.product.loop, self._write_number(self.product.length)
        work = [
            *sums,
            f"for ({loop.type} {loop.name} = 0; {loop.name} < {bound}; ++{loop.name}) {{",
            *(self._rewrite(each.span) for each in self._list_steps(loop.part)),
            "}",
            *(self._rewrite(store.span) for store in stores),
        ]
        if self.conditions:
            tests = " && ".join(self._write_condition(span) for span in self.conditions)
            work = [f"if ({tests}) {{", *work, "}"]
        text = "\n".join(work)
        used_names: set[str] = set()
        for names, line in reversed(constants):
            if any(_has_word(text, name) for name in names):
                text, used_names = f"{line}\n{text}", used_names | set(names)
        self._check_names(text, used_names)
        return self._write_program("\n".join([*self._declare_items(text), text]))

    # --- the kernel's parts ------------------------------------------------------------------------------------------

    def _name_item(self, axis: str) -> str:
        """The kernel's own name for a work-item's number along an axis, or a new one."""
        number = add_polynomials(
            {(f"threadIdx.{axis}",): 1}, multiply_polynomials(self.product.groups[axis], {(f"blockIdx.{axis}",): 1})
        )
        return self._find_constant(self.product.read, number) or choose_free_name(_ITEM_NAMES[axis], self.taken)

    def _name_items(self, axis: str) -> str:
        """The kernel's own name for the number of work-items along an axis, or a new one."""
        name = self._find_constant(self._read_place, {(_ITEMS[axis],): 1})
        return name or choose_free_name(_ITEMS_NAMES[axis], self.taken)

    def _find_constant(self, read: Callable[[Span], Polynomial], value: Polynomial) -> str:
        """The name of a constant with a value; "" if there is none."""
        for place, span in self.body.constants.items():
            with contextlib.suppress(NotUnderstood):
                if read(span) == value:
                    return self.tokens[self.body.find_declaration(place)].text
        return ""

    def _declare_items(self, text: str) -> list[str]:
        words = {token.text for token in self.tokens[self.kernel.first : self.kernel.last]}
        kind = "unsigned" if "unsigned" in words else "int"
        return [
            f"const {kind} {self.names[_ITEM[axis]]} = blockIdx.{axis} * blockDim.{axis} + threadIdx.{axis};"
            for axis in reversed(TILE_AXES)
            if _has_word(text, self.names[_ITEM[axis]])
        ]

    def _write_declarations(self) -> tuple[list[tuple[list[str], str]], list[str]]:
        """The declarations before the loop that do not depend on the work-item: of constants, with their names, and of
        what the loop changes."""
        constants, sums = [], []
        for statement in self.product.before:
            at = [i for i in range(*statement.span) if self.tokens[i].start in self.body.locals]
            words = [token.text for token in self.tokens[slice(*statement.span)]]
            if statement.kind != "simple" or not at or "extern" in words:
                raise NotUnderstood("another statement before the tiles")
            changing = [i for i in at if self.tokens[i].start not in self.body.constants]
            dependent = self.reader.depends_on_place(statement.span)
            if "__shared__" in words or (dependent and not changing):
                continue
            if dependent:
                raise NotUnderstood("a sum that begins with a number of the work-item")
            if changing:
                sums.append(self._write_span(statement.span))
                self.sums |= {self.tokens[i].text for i in at}
            else:
                constants.append(([self.tokens[i].text for i in at], self._write_span(statement.span)))
        return constants, sums

    def _read_stores(self) -> list[Statement]:
        """The statements after the loop that store results; the conditions around them are noted."""
        stores: list[Statement] = []
        for statement in self.product.after:
            if self._declares(statement):
                continue
            if statement.kind == "if" and len(statement.parts) == 1 and statement is self.product.after[-1]:
                if stores:
                    raise NotUnderstood("a store outside the conditions")
                self.conditions += split_at(self.tokens, *statement.head, "&&")
                (part,) = statement.parts
                stores += [each for each in part.parts or (part,) if not self._declares(each)]
            else:
                stores.append(statement)
        if any(store.kind != "simple" for store in stores):
            raise NotUnderstood("another statement after the tiles")
        return stores

    def _declares(self, statement: Statement) -> bool:
        places = {token.start for token in self.tokens[slice(*statement.span)]} & self.body.locals
        if places - self.body.constants.keys():
            raise NotUnderstood("a variable that changes after the tiles")
        return bool(places)

    def _list_steps(self, part: Statement) -> list[Statement]:
        """The statements of an iteration, without conditions that hold for all its work-items and steps."""
        if part.kind == "if" and len(part.parts) == 1:
            conditions = split_at(self.tokens, *part.head, "&&")
            if not all(self._read_condition(span) in self.implied for span in conditions):
                raise NotUnderstood("a condition of a step alone")
        elif part.kind != "block":
            return [part]
        return [step for inner in part.parts for step in self._list_steps(inner)]

    def _check_guards(self, tile: LdsTile, axis: str) -> None:
        """The conditions of loads must follow from the loop's bound, be those of the stores, or hold in all groups;
        `axis`: along which the tile is read by others."""
        always = [
            add_polynomials(width, {(f"threadIdx.{each}",): 1}, -1) for each, width in self.product.groups.items()
        ]
        always.append(add_polynomials(self.product.width, {(f"threadIdx.{axis}",): 1}, -1))
        for guard in tile.guards:
            if self._read_difference(guard) not in always and self._read_condition(guard, axis) not in self.implied:
                raise NotUnderstood("a condition of a load alone")

    def _check_names(self, text: str, constants: set[str]) -> None:
        """Nothing may be left of what is not declared any more."""
        places = (self.body.find_declaration(place) for place in self.body.locals)
        inner = self.product.loop.part.span
        declared = {self.tokens[at].text for at in places if not inner[0] <= at < inner[1]}
        if any(_has_word(text, name) for name in declared - constants - self.sums - set(self.names.values())):
            raise NotUnderstood("a name that is used otherwise")

    def _write_program(self, text: str) -> str:
        first, last = self.tokens[self.kernel.first - 1].end, self.tokens[self.kernel.last].start
        edits = [Edit(first, last, f"\n{text}\n")]
        more = [axis for axis in TILE_AXES if _has_word(text, self.names[_ITEMS[axis]])]
        if more:
            close = max(i for i in range(self.kernel.first) if self.tokens[i].text == ")")
            declared = "".join(f", const int {self.names[_ITEMS[axis]]}" for axis in more)
            edits.append(Edit(self.tokens[close].start, self.tokens[close].start, declared))
            edits += [self._edit_launch(launch, more) for launch in self.kernel.launches]
        return edit_text(self.program.unit.text, edits)

    def _edit_launch(self, launch: LaunchStatement, more: Iterable[str]) -> Edit:
        counts = []
        for axis in more:
            shape = (read_shape_component(self.program, each, AXES.index(axis)) for each in (launch.grid, launch.block))
            counts.append(" * ".join(each if re.fullmatch(r"[\w.]+", each) else f"({each})" for each in shape))
        shape_text = ", ".join([launch.grid, launch.block, *launch.rest])
        arguments = ", ".join([*launch.arguments, *counts])
        return Edit(launch.start, launch.end, f"{self.kernel.name}{launch.template}<<<{shape_text}>>>({arguments});")

    # --- expressions -------------------------------------------------------------------------------------------------

    def _write_span(self, span: Span) -> str:
        start, end = self.tokens[span[0]].start, self.tokens[span[1] - 1].end
        return self.program.unit.text[start:end].decode(errors="surrogateescape")

    def _rewrite(self, span: Span, axis: str = "") -> str:
        """Code with elements of memory for those of tiles, and with each work-item's numbers in other subscripts;
        `axis`: along which another work-item executed it."""
        base, edits, at = self.tokens[span[0]].start, [], span[0]
        while at < span[1]:
            token = self.tokens[at]
            if token.text in self.product.tiles:
                text, end = self._write_element(self.product.tiles[token.text], at)
                edits.append(Edit(token.start - base, self.tokens[end - 1].end - base, text))
                at = end
            elif token.text == "[":
                close = find_closing(self.tokens, at)
                text = self._write_number(self._read_place((at + 1, close), axis))
                edits.append(Edit(token.end - base, self.tokens[close].start - base, text))
                at = close + 1
            else:
                self._check_plain(at)
                at += 1
        text_bytes = self.program.unit.text[base : self.tokens[span[1] - 1].end]
        return edit_text(text_bytes, edits)

    def _check_plain(self, at: int) -> None:
        """Outside subscripts a name must mean the same for all work-items."""
        place = self.body.local(self.tokens[at])
        constant = self.body.constants.get(place)
        if self.tokens[at].text in COORDINATES or place in self.reader.variables:
            raise NotUnderstood("a number of the work-item outside a subscript")
        if constant is not None and self.reader.depends_on_place(constant):
            raise NotUnderstood("a number of the work-item outside a subscript")

    def _write_element(self, tile: LdsTile, at: int) -> tuple[str, int]:
        """What the work-item stored that has the step as its coordinate along one axis, and the token behind."""
        places, end = [], at + 1
        while self.tokens[end].text == "[":
            close = find_closing(self.tokens, end)
            places.append(self.product.read((end + 1, close)))
            end = close + 1
        for axis in TILE_AXES:
            stored = [substitute_name(place, f"threadIdx.{axis}", {(STEP,): 1}) for place in tile.places]
            if stored == places and any(times_of(place, STEP) for place in places):
                self._check_guards(tile, axis)
                text = self._rewrite(tile.value, axis)
                return text if re.fullmatch(r"\w+(\[[^\[\]]*\]|\([^()]*\))?", text) else f"({text})", end
        raise NotUnderstood("a tile that is read otherwise")

    def _read_place(self, span: Span, axis: str = "") -> Polynomial:
        """An expression in the numbers of a work-item and the step."""
        self.reader.wide = ""
        return self._name_places(self.product.read(span), axis)

    def _name_places(self, polynomial: Polynomial, axis: str) -> Polynomial:
        if axis:
            polynomial = substitute_name(polynomial, f"threadIdx.{axis}", {(STEP,): 1})
        if times_of(polynomial, TILE) != multiply_polynomials(self.product.width, times_of(polynomial, STEP)):
            raise NotUnderstood("a place that depends on the tile otherwise")
        polynomial = {names: factor for names, factor in polynomial.items() if TILE not in names}
        for each in TILE_AXES:
            thread_times = times_of(polynomial, f"threadIdx.{each}")
            if times_of(polynomial, f"blockIdx.{each}") != multiply_polynomials(
                self.product.groups[each], thread_times
            ):
                raise NotUnderstood("a place that depends on the group otherwise")
            polynomial = substitute_name(polynomial, f"blockIdx.{each}", {})
            polynomial = substitute_name(polynomial, f"threadIdx.{each}", {(_ITEM[each],): 1})
            polynomial = self._count_items(polynomial, each)
        return polynomial

    def _count_items(self, polynomial: Polynomial, axis: str) -> dict[Monomial, int]:
        """The polynomial with the number of the launch's work-items for `gridDim * blockDim`."""
        groups = times_of(polynomial, f"gridDim.{axis}")
        if not groups:
            return dict(polynomial)
        if len(self.product.groups[axis]) != 1:
            raise NotUnderstood("a group of another width")
        ((width, size),) = self.product.groups[axis].items()
        counts: dict[Monomial, int] = {}
        for names, factor in groups.items():
            rest = list(names)
            if factor % size or any(name not in rest for name in width):
                raise NotUnderstood("a number of groups")
            for name in width:
                rest.remove(name)
            counts[tuple(sorted([*rest, _ITEMS[axis]]))] = factor // size
        return add_polynomials(substitute_name(polynomial, f"gridDim.{axis}", {}), counts)

    def _read_condition(self, span: Span, axis: str = "") -> Polynomial:
        """What a comparison requires to be more than 0, in the numbers of a work-item and the step; 0 for others."""
        with contextlib.suppress(NotUnderstood):
            return self._name_places(self._read_difference(span), axis)
        return {}

    def _read_difference(self, span: Span) -> Polynomial:
        left, sign, right = self._split_condition(span)
        factor, more = _SIGNS[sign]
        difference = add_polynomials(self.product.read(right), self.product.read(left), -1)
        return add_polynomials(multiply_polynomials(difference, {(): factor}), ONE, more)

    def _split_condition(self, span: Span) -> tuple[Span, str, Span]:
        start, end = span
        while self.tokens[start].text == "(" and find_closing(self.tokens, start) == end - 1:
            start, end = start + 1, end - 1
        signs = [i for i in range(start, end) if self.tokens[i].text in _SIGNS]
        if len(signs) != 1:
            raise NotUnderstood("a condition of another kind")
        return (start, signs[0]), self.tokens[signs[0]].text, (signs[0] + 1, end)

    def _write_condition(self, span: Span) -> str:
        left, sign, right = self._split_condition(span)
        return f"{self._write_number(self._read_place(left))} {sign} {self._write_number(self._read_place(right))}"

    def _write_number(self, polynomial: Polynomial) -> str:
        """A polynomial as source, what has most factors first."""
        order = [_ITEM["y"], STEP, _ITEM["x"]]
        terms = []
        for names, factor in polynomial.items():
            ranked = sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))
            terms.append((-len(names), [order.index(n) if n in order else len(order) for n in ranked], ranked, factor))
        text = ""
        for _, _, ranked, factor in sorted(terms):
            product = self._write_product(ranked, abs(factor))
            sign = "-" if factor < 0 else "+"
            text += f" {sign} {product}" if text else f"{'-' if factor < 0 else ''}{product}"
        return text or "0"

    def _write_product(self, names: Sequence[str], factor: int) -> str:
        words = [self.names.get(name, name) for name in names]
        if self.reader.wide and len(words) > 1:
            words[0] = f"({self.reader.wide}){words[0]}"
        return " * ".join([*([str(factor)] if factor != 1 or not words else []), *words])


def _has_word(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
