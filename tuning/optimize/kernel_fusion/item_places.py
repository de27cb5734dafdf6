"""Which elements of arrays a work-item uses: its own place, the same in all arrays that it writes, and how far from
there it reads."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.polynomials import Monomial, Polynomial, PolynomialReader, add_polynomials
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements

OWN_ITEM: Polynomial = {("blockDim.x", "blockIdx.x"): 1, ("threadIdx.x",): 1}
_OPERATORS = frozenset("()+-*/%,")
_FUNCTIONS = frozenset({"min", "max", "std", "::"})
_TYPE_WORD = re.compile(r"const|unsigned|signed|int|long|short|char|std|::|u?int\d+_t|size_t|ptrdiff_t|uint")
_LOOP_STEPS = ("{0}++", "++{0}", "{0}+=1")


@dataclass(frozen=True)
class ItemPlaces:
    """A work-item's place is its number plus `base`, an expression of the kernel's parameters. It reads elements from
    `least` (not above 0) to `largest` places from there. `subscripts`: the tokens between the brackets of all uses."""

    base: str
    least: int
    largest: int
    subscripts: tuple[tuple[int, int], ...]


def find_places(body: Body, arrays: frozenset[str]) -> ItemPlaces:
    """The places of a kernel's work-items in arrays (parameters). Raises NotUnderstood where a work-item writes other
    elements than one, or reads some at distances that are not known."""
    reader = _PlaceReader(body, dict(_find_loop_ranges(body)))
    tokens, kernel = body.tokens, body.kernel
    uses = [
        i
        for i in range(kernel.first, kernel.last)
        if tokens[i].text in arrays and body.local(tokens[i]) < 0 and tokens[i - 1].text not in (".", "->")
    ]
    spans, offsets = [], []
    written: list[Polynomial] = []
    for i in uses:
        is_address = tokens[i - 1].text == "&" and not (tokens[i - 2].identifier or tokens[i - 2].text in (")", "]"))
        if is_address or tokens[i + 1].text != "[" or tokens[find_closing(tokens, i + 1) + 1].text in ("[", ".", "->"):
            raise NotUnderstood("an array that is used otherwise than by elements")
        spans.append((i + 2, find_closing(tokens, i + 1)))
        offsets.append(reader.read(spans[-1]))
        if body.assigns(i, kernel.last):
            written.append(offsets[-1])
    if not written or any(place != written[0] for place in written):
        raise NotUnderstood("work-items that write other elements than one")
    base = add_polynomials(written[0], OWN_ITEM, -1)
    ranges = [reader.find_range(add_polynomials(offset, written[0], -1)) for offset in offsets]
    least, largest = min(low for low, _ in ranges), max(high for _, high in ranges)
    return ItemPlaces(reader.write_sum(base), least, largest, tuple(spans))


def _find_loop_ranges(body: Body) -> Iterator[tuple[int, tuple[int, int]]]:
    """The variables of loops between numbers, such as `for (int k = -2; k <= 2; ++k)`, with their values."""
    tokens, kernel = body.tokens, body.kernel
    statements = parse_statements(tokens, kernel.first, kernel.last)
    for loop in (part for statement in statements for part in statement.inner() if part.kind == "for"):
        variable = _read_loop_range(body, loop)
        if variable is not None:
            yield variable


def _read_loop_range(body: Body, loop: Statement) -> tuple[int, tuple[int, int]] | None:
    tokens = body.tokens
    parts = split_at(tokens, *loop.head, ";")
    equals = next((i for i in range(*loop.head) if tokens[i].text == "="), -1)
    if len(parts) != 3 or not parts[0][0] < equals < parts[0][1]:
        return None
    place, (test, test_end) = tokens[equals - 1].start, parts[1]
    step = "".join(token.text for token in tokens[slice(*parts[2])])
    is_plain = body.local(tokens[test]) == place and tokens[test + 1].text in ("<", "<=")
    if not is_plain or step not in [form.format(tokens[equals - 1].text) for form in _LOOP_STEPS]:
        return None
    if place in body.changed((loop.head[1] + 1, loop.end)):
        return None
    reader = PolynomialReader(body)
    try:
        ends = [reader.read(span) for span in ((equals + 1, parts[0][1]), (test + 2, test_end))]
    except NotUnderstood:
        return None
    if any(set(end) - {()} for end in ends):
        return None
    return place, (ends[0].get((), 0), ends[1].get((), 0) - (tokens[test + 1].text == "<"))


def _integer_bytes(kind: str) -> int:
    """The size of an integer type; 0 for other types."""
    return 0 if re.search(r"float|double|half|\*|&|bool", kind) else type_bytes(kind) or 0


@dataclass
class _PlaceReader(PolynomialReader):
    """Reads subscripts as sums of a work-item's number, variables of loops between numbers, and parts that are the same
    for all work-items."""

    ranges: dict[int, tuple[int, int]]

    def read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        """A part that is the same for all work-items counts as a name, such as `max(1, d - n)`."""
        start = self._skip_cast(start, end)
        try:
            return super().read_factor(start, end, depth)
        except NotUnderstood:
            text = self._read_shared(start, end)
            return {(text,): 1}

    def _skip_cast(self, start: int, end: int) -> int:
        """The first token behind a cast to an integer that has room for every place."""
        words = [token.text for token in self.body.tokens[start:end]]
        opening, closing = ("<", ">") if words[:1] == ["static_cast"] else ("(", ")")
        first = words.index(opening) + 1 if opening in words[:2] else 0
        kind = list(itertools.takewhile(_TYPE_WORD.fullmatch, words[first:]))
        is_cast = first and kind and words[first + len(kind) :][:1] == [closing]
        return start + first + len(kind) + 1 if is_cast and _integer_bytes(" ".join(kind)) >= 4 else start

    def split_factors(self, start: int, end: int) -> list[tuple[int, int]]:
        """A quotient or remainder is one factor."""
        if any(token.text in ("/", "%") for token in self._outermost(start, end)):
            return [(start, end)]
        return super().split_factors(start, end)

    def _outermost(self, start: int, end: int) -> Iterator[Token]:
        at = start
        while at < end:
            yield self.body.tokens[at]
            at = find_closing(self.body.tokens, at) + 1 if self.body.tokens[at].text in ("(", "[") else at + 1

    def read_name(self, at: int, depth: int) -> dict[Monomial, int]:
        """Local constants are read through; other names are parameters."""
        token = self.body.tokens[at]
        place = self.body.local(token)
        if place in self.ranges:
            return {(f"@{place}",): 1}
        if place in self.body.constants and self._is_wide_integer(place):
            return self.read(self.body.constants[place], depth + 1)
        if place < 0 and self.number_of(at) is None and not self._is_shared(at):
            raise NotUnderstood(f"a subscript with {token.text}")
        if place >= 0:
            raise NotUnderstood("a subscript with a variable that changes")
        return super().read_name(at, depth)

    def _is_shared(self, at: int) -> bool:
        """Whether a name is a number that the launch passes, whose sums wrap as those of `unsigned` do."""
        token = self.body.tokens[at]
        kinds = {p.name: p.type for p in self.body.kernel.parameters if not p.base}
        return self.body.local(token) < 0 and _integer_bytes(kinds.get(token.text, "")) in (1, 2, 4)

    def _is_wide_integer(self, place: int) -> bool:
        """Whether a local variable has room for every place."""
        start, end = self.body.find_declared_type(place)
        words = [token.text for token in self.body.tokens[start:end]]
        kind = " ".join(itertools.takewhile(_TYPE_WORD.fullmatch, words))
        return "auto" in words[:2] or _integer_bytes(kind) >= 4

    def _read_shared(self, start: int, end: int) -> str:
        """The text of a part that is the same for all work-items. Raises NotUnderstood for others."""
        tokens = self.body.tokens
        for i in range(start, end):
            text = tokens[i].text
            plain = text in _OPERATORS or text in _FUNCTIONS or text.isdecimal()
            is_number = self.body.local(tokens[i]) < 0 and self.number_of(i) is not None
            if not plain and not self._is_shared(i) and not is_number:
                raise NotUnderstood("a subscript of another form")
        text = " ".join(token.text for token in tokens[start:end])
        text = re.sub(r" ?(::|\() ?| (?=[),])", r"\1", text)
        return text if text.startswith(("max(", "min(", "std::")) else f"({text})"

    def find_range(self, offset: Polynomial) -> tuple[int, int]:
        """The least and the largest value of a sum of numbers and variables of loops. Raises NotUnderstood."""
        low = high = offset.get((), 0)
        for names, factor in offset.items():
            place = int(names[0][1:]) if len(names) == 1 and names[0].startswith("@") else -1
            if names and place not in self.ranges:
                raise NotUnderstood("a distance that is not known")
            if names:
                ends = [factor * value for value in self.ranges[place]]
                low, high = low + min(ends), high + max(ends)
        return low, high

    def write_sum(self, polynomial: Polynomial) -> str:
        """A sum of what is the same for all work-items. Raises NotUnderstood for other sums."""
        if any(name.startswith("@") or "." in name for names in polynomial for name in names):
            raise NotUnderstood("a place that is not the number of a work-item")
        text = ""
        for names, factor in sorted(polynomial.items(), reverse=True):
            size = "" if abs(factor) == 1 and names else str(abs(factor))
            term = " * ".join([size, *names] if size else names)
            text += (" - " if factor < 0 else " + ") + term
        text = text.removeprefix(" + ")
        text = f"-{text[3:]}" if text.startswith(" - ") else text
        return f"({text})" if len(polynomial) > 1 or text.startswith("-") else text
