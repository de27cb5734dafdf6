"""Reads a kernel that stages tiles of two arrays: one loop over tiles that stores elements to the LDS, each work-item
its own ones, and between barriers a loop that adds up products of what it reads there.

Subscripts are read as polynomials of coordinates and of the tile's number, so that it does not matter which sums have
names and how they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.polynomials import (
    Monomial,
    Polynomial,
    PolynomialReader,
    add_polynomials,
    multiply_polynomials,
    substitute_name,
)
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

TILE, STEP = "@tile", "@step"  # the tile's number; the number along the common dimension
ONE: Polynomial = {(): 1}
TILE_AXES = AXES[:2]
_BARRIER = ["__syncthreads", "(", ")", ";"]
_WIDE = frozenset({"size_t", "long", "int64_t", "uint64_t", "ptrdiff_t"})


@dataclass(frozen=True)
class LdsTile:
    """An LDS array: the subscripts of what a work-item stores, and the value's tokens; 0 unless the `guards` hold."""

    places: tuple[Polynomial, ...]
    value: Span
    guards: tuple[Span, ...]


@dataclass(frozen=True)
class ElementLoop:
    """A loop over what is in the tiles: the type, name and place of its variable, its bound, and its body."""

    type: str
    name: str
    place: int
    bound: Span
    part: Statement


@dataclass
class StagedReader(PolynomialReader):
    """Reads numbers of the kernel. `by_value`: constants of the file are numbers, not names; `variables`: those of
    loops, with their values; `wide`: the type that was last converted to."""

    by_value: bool
    variables: dict[int, Polynomial] = field(default_factory=dict, init=False)
    wide: str = field(default="", init=False)

    def read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        """Conversions to wider integers change no value."""
        words = [token.text for token in self.body.tokens[start:end]]
        for before, after in ((["("], [")"]), (["static_cast", "<"], [">"])):
            at = len(before)
            if len(words) > at + 2 and words[:at] == before and words[at] in _WIDE and words[at + 1 : at + 2] == after:
                self.wide = words[at]
                return self.read_factor(start + at + 2, end, depth)
        return super().read_factor(start, end, depth)

    def read_name(self, at: int, depth: int) -> dict[Monomial, int]:
        """Constants are read through; what else changes is no number that others know."""
        place = self.body.local(self.body.tokens[at])
        if place in self.variables:
            return dict(self.variables[place])
        if place not in self.body.constants:
            if place >= 0:
                raise NotUnderstood("a number that changes")
            return super().read_name(at, depth)
        try:
            return self.read(self.body.constants[place], depth + 1)
        except NotUnderstood:
            if self.depends_on_place(self.body.constants[place]):
                raise
            return {(self.body.tokens[at].text,): 1}

    def number_of(self, at: int) -> int | None:
        """Names stay names, unless they are read by value."""
        return super().number_of(at) if self.by_value or self.body.tokens[at].text[0].isdigit() else None

    def depends_on_place(self, span: Span) -> bool:
        """Whether an expression depends on the work-item or the tile; batches along z are the same for all."""
        for i in range(*span):
            place = self.body.local(self.body.tokens[i])
            is_batch = [token.text for token in self.body.tokens[i : i + 3]] == ["blockIdx", ".", "z"]
            if place in self.variables or (self.body.tokens[i].text in COORDINATES and not is_batch):
                return True
            if place in self.body.constants and self.depends_on_place(self.body.constants[place]):
                return True
        return False


@dataclass
class StagedProduct:
    """A kernel: what stands around its loop over tiles, the tiles by name, the loop over their elements, how many of
    these it takes from a tile, the widths of groups by axis, and the length of the common dimension."""

    reader: StagedReader
    before: tuple[Statement, ...]
    after: tuple[Statement, ...]
    tiles: dict[str, LdsTile] = field(default_factory=dict)
    loop: ElementLoop = field(default_factory=lambda: ElementLoop("", "", -1, (0, 0), Statement("for", 0, 0)))
    width: Polynomial = field(default_factory=dict)
    groups: dict[str, Polynomial] = field(default_factory=dict)
    length: Polynomial = field(default_factory=dict)

    def read(self, span: Span) -> dict[Monomial, int]:
        """An expression, with the widths of groups for `blockDim`."""
        polynomial = self.reader.read(span)
        for axis, width in self.groups.items():
            if (f"blockDim.{axis}",) not in width:
                polynomial = substitute_name(polynomial, f"blockDim.{axis}", width)
        return polynomial


def read_staged_product(
    program: ParsedProgram, kernel: KernelDefinition, block: Shape, by_value: bool
) -> StagedProduct:
    """The parts of a kernel that is launched with groups of shape `block`. Raises NotUnderstood for other kernels;
    unless by value, for tiles that are not square and as wide as the groups, too."""
    body = Body(program, kernel)
    body.check_plain()
    tree = parse_statements(program.tokens, kernel.first, kernel.last)
    loops = [number for number, statement in enumerate(tree) if statement.kind == "for"]
    if len(loops) != 1:
        raise NotUnderstood("a kernel with more than one loop")
    reader = StagedReader(body, by_value)
    product = StagedProduct(reader, tree[: loops[0]], tree[loops[0] + 1 :])
    _ProductReader(product, tree[loops[0]]).read(block)
    return product


@dataclass
class _ProductReader:
    product: StagedProduct
    outer: Statement

    def read(self, block: Shape) -> None:
        product = self.product
        self.reader, self.body = product.reader, product.reader.body
        self.tokens = self.body.tokens
        stores, inner = self._split_iteration()
        product.loop = self.read_element_loop(inner)
        product.width = self.reader.read(product.loop.bound)
        product.groups = self._find_group_widths(block)
        self.reader.variables[product.loop.place] = {(STEP,): 1}
        self._read_tile_loop()
        for store in stores:
            self._read_store(store)
        if len(product.tiles) < 2:
            raise NotUnderstood("no loop over tiles")

    def _find_group_widths(self, block: Shape) -> dict[str, Polynomial]:
        """By value those of the launches; by name the width of tiles, if it may be the same."""
        if self.reader.by_value:
            return {axis: {(): block[number]} for number, axis in enumerate(TILE_AXES)}
        number = StagedReader(self.body, by_value=True).read(self.product.loop.bound)
        if block[0] != block[1] or number.get((), block[0]) != block[0]:
            raise NotUnderstood("tiles that are not as wide as groups")
        return dict.fromkeys(TILE_AXES, self.product.width)

    def _split_iteration(self) -> tuple[list[Statement], Statement]:
        """The stores to tiles and the loop over their elements."""
        stores: list[Statement] = []
        inner: Statement | None = None
        (block,) = self.outer.parts
        for statement in block.parts:
            words = [token.text for token in self.tokens[slice(*statement.span)]]
            if words == _BARRIER or "__shared__" in words or (inner is None and self._declares_constants(statement)):
                continue
            if inner is not None:
                raise NotUnderstood("another statement among the tiles")
            if statement.kind == "for":
                inner = statement
            else:
                stores.append(statement)
        if inner is None or not self.body.program.has_barrier(self.outer.start, inner.start):
            raise NotUnderstood("no loop over tiles")
        return stores, inner

    def _declares_constants(self, statement: Statement) -> bool:
        places = {token.start for token in self.tokens[slice(*statement.span)]} & self.body.locals
        return statement.kind == "simple" and bool(places) and places <= self.body.constants.keys()

    # --- loops -------------------------------------------------------------------------------------------------------

    def read_element_loop(self, loop: Statement) -> ElementLoop:
        """`for (type v = 0; v < bound; ++v)`."""
        tokens = self.tokens
        parts = split_at(tokens, *loop.head, ";")
        declared = [i for i in range(*loop.head) if tokens[i].start in self.body.locals]
        if len(parts) != 3 or len(declared) != 1:
            raise NotUnderstood("a loop of another form")
        (a, b), (c, d), (e, f) = parts
        (at,) = declared
        name = tokens[at].text
        begins = [token.text for token in tokens[at:b]] == [name, "=", "0"]
        steps = [token.text for token in tokens[e:f]] in ([name, "++"], ["++", name])
        if not begins or not steps or [token.text for token in tokens[c : c + 2]] != [name, "<"]:
            raise NotUnderstood("a loop of another form")
        kind = " ".join(token.text for token in tokens[a:at])
        return ElementLoop(kind, name, tokens[at].start, (c + 2, d), loop.parts[0])

    def _read_tile_loop(self) -> None:
        """Numbers that begin with a value and grow by another one from tile to tile."""
        tokens = self.tokens
        parts = split_at(tokens, *self.outer.head, ";")
        if len(parts) != 3:
            raise NotUnderstood("a loop of another form")
        starts, growths = dict(self._read_starts(parts[0])), dict(self._read_growths(parts[2]))
        (a, b) = parts[1]
        place = self.body.local(tokens[a])
        if starts.keys() != growths.keys() or place not in starts or tokens[a + 1].text not in ("<", "<="):
            raise NotUnderstood("a loop over tiles of another form")
        for each, start in starts.items():
            self.reader.variables[each] = add_polynomials(start, multiply_polynomials(growths[each], {(TILE,): 1}))
        if growths[place] == ONE and not starts[place] and tokens[a + 1].text == "<":
            self.product.length = self._read_length((a + 2, b))
        elif growths[place] == self.product.width:
            end = add_polynomials(self.product.read((a + 2, b)), ONE, 1 if tokens[a + 1].text == "<=" else 0)
            self.product.length = add_polynomials(end, starts[place], -1)
        else:
            raise NotUnderstood("a loop over tiles of another form")

    def _read_starts(self, span: Span) -> Iterator[tuple[int, Polynomial]]:
        for a, b in split_at(self.tokens, *span, ","):
            at = next((i for i in range(a, b) if self.tokens[i].start in self.body.locals), -1)
            if at < 0 or self.tokens[at + 1].text != "=":
                raise NotUnderstood("a loop over tiles of another form")
            yield self.tokens[at].start, self.product.read((at + 2, b))

    def _read_growths(self, span: Span) -> Iterator[tuple[int, Polynomial]]:
        for a, b in split_at(self.tokens, *span, ","):
            words = [token.text for token in self.tokens[a:b]]
            if len(words) == 2 and "++" in words:
                yield self.body.local(self.tokens[a if words[1] == "++" else a + 1]), ONE
            elif len(words) > 2 and words[1] == "+=":
                yield self.body.local(self.tokens[a]), self.product.read((a + 2, b))
            else:
                raise NotUnderstood("a loop over tiles of another form")

    def _read_length(self, tiles: Span) -> Polynomial:
        """The length that a number of tiles covers: `length` where the source rounds up, by `(length + width - 1) /
        width` or `(length - 1) / width + 1`; all elements of the tiles where it rounds down."""
        span = self._look_through(tiles)
        terms = split_at(self.tokens, *span, "+")
        is_plus_one = len(terms) == 2 and [token.text for token in self.tokens[slice(*terms[1])]] == ["1"]
        parts = split_at(self.tokens, *(terms[0] if is_plus_one else span), "/")
        if len(parts) == 2 and self.product.read(parts[1]) == self.product.width:
            dividend = self.product.read(parts[0])
            if is_plus_one:
                return add_polynomials(dividend, ONE)
            less = add_polynomials(add_polynomials(dividend, self.product.width, -1), ONE)
            if not any(names in less for names in (*self.product.width, ())):
                return less
        return multiply_polynomials(self._read_number(tiles), self.product.width)

    def _read_number(self, span: Span) -> Polynomial:
        """A number that is the same for all work-items, as it is written where it is no polynomial."""
        if self.reader.depends_on_place(span):
            raise NotUnderstood("a loop over tiles of another form")
        try:
            return self.product.read(span)
        except NotUnderstood:
            return {(f"({text_between(self.body.program.unit, self.tokens, *span)})",): 1}

    def _look_through(self, span: Span) -> Span:
        """The value of a constant that an expression is."""
        while span[1] == span[0] + 1 and (place := self.body.local(self.tokens[span[0]])) in self.body.constants:
            span = self.body.constants[place]
        return span

    # --- tiles -------------------------------------------------------------------------------------------------------

    def _read_store(self, statement: Statement) -> None:
        """`tile[i][j] = value;`, `= condition ? value : 0;`, the same with `if` and `else`, or without `else`."""
        guards: tuple[Span, ...] = ()
        zeros = None
        while statement.kind == "if":
            guards += tuple(split_at(self.tokens, *statement.head, "&&"))
            if len(statement.parts) == 2:
                zeros = self._split_store(self._find_only(statement.parts[1]))
            statement = self._find_only(statement.parts[0])
        name, places, value = self._split_store(statement)
        value, more = self._split_choice(value)
        if zeros is not None and (zeros[:2] != (name, places) or not self._is_zero(zeros[2])):
            raise NotUnderstood("another value outside the array")
        if name in self.product.tiles:
            raise NotUnderstood("a tile that is stored twice")
        self.product.tiles[name] = LdsTile(places, value, guards + more)

    def _find_only(self, statement: Statement) -> Statement:
        """The one statement of a block that declares no constants."""
        if statement.kind != "block":
            return statement
        others = [each for each in statement.parts if not self._declares_constants(each)]
        if len(others) != 1:
            raise NotUnderstood("another statement among the tiles")
        return others[0]

    def _split_store(self, statement: Statement) -> tuple[str, tuple[Polynomial, ...], Span]:
        tokens, at = self.tokens, statement.start + 1
        place = self.body.local(tokens[statement.start])
        if statement.kind != "simple" or place < 0 or not self.body.is_in_lds(place):
            raise NotUnderstood("another statement among the tiles")
        places = []
        while tokens[at].text == "[":
            close = find_closing(tokens, at)
            places.append(self.product.read((at + 1, close)))
            at = close + 1
        if not places or tokens[at].text != "=":
            raise NotUnderstood("a tile of another form")
        return tokens[statement.start].text, tuple(places), (at + 1, statement.end - 1)

    def _split_choice(self, value: Span) -> tuple[Span, tuple[Span, ...]]:
        """The first value of `conditions ? value : 0`, and the conditions."""
        choice = split_at(self.tokens, *value, "?")
        if len(choice) != 2:
            return value, ()
        branches = split_at(self.tokens, *choice[1], ":")
        if len(branches) != 2 or not self._is_zero(branches[1]):
            raise NotUnderstood("another value outside the array")
        start, end = choice[0]
        if self.tokens[start].text == "(" and find_closing(self.tokens, start) == end - 1:
            start, end = start + 1, end - 1
        return branches[0], tuple(split_at(self.tokens, start, end, "&&"))

    def _is_zero(self, span: Span) -> bool:
        words = [token.text for token in self.tokens[slice(*span)]]
        return len(words) == 1 and words[0].rstrip("fF") in ("0", "0.0", "0.")
