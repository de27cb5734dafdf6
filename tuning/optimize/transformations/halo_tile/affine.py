"""Subscripts as polynomials: what a work-item's numbers and the variables of loops are multiplied by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.statements import NotUnderstood
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import TiledLoop

Monomial = tuple[str, ...]  # the names that are multiplied, in order; () is 1
Polynomial = Mapping[Monomial, int]
AXIS_NAMES = {0: "@x", 1: "@y"}  # of a work-item's number along an axis
MOST_DEPTH = 12


def add(one: Polynomial, other: Polynomial, times: int = 1) -> dict[Monomial, int]:
    """`one` + `times` * `other`, without terms that cancel."""
    total = Counter(one)
    for names, factor in other.items():
        total[names] += times * factor
    return {names: factor for names, factor in total.items() if factor}


def multiply(one: Polynomial, other: Polynomial) -> dict[Monomial, int]:
    """The product of two polynomials, without terms that cancel."""
    total: Counter[Monomial] = Counter()
    for a, factor in one.items():
        for b, more in other.items():
            total[tuple(sorted((*a, *b)))] += factor * more
    return {names: factor for names, factor in total.items() if factor}


def times_of(polynomial: Polynomial, name: str) -> dict[Monomial, int]:
    """What a name is multiplied by. Raises NotUnderstood where it is not linear."""
    factors: dict[Monomial, int] = {}
    for names, factor in polynomial.items():
        if names.count(name) > 1:
            raise NotUnderstood("a subscript that is not linear")
        if name in names:
            rest = list(names)
            rest.remove(name)
            factors[tuple(rest)] = factor
    return factors


@dataclass
class AffineReader:
    """Reads expressions of a kernel as polynomials; `variables`: declarations of the variables of loops."""

    tiling: TiledLoop
    variables: frozenset[int] = frozenset()
    _numbers: dict[str, int | None] = field(default_factory=dict)

    def read(self, span: tuple[int, int], depth: int = 0) -> dict[Monomial, int]:
        """Raises NotUnderstood for anything but sums and products of names and numbers."""
        start, end = span
        if depth > MOST_DEPTH or start >= end:
            raise NotUnderstood("an expression of another kind")
        tokens = self.tiling.body.tokens
        total: dict[Monomial, int] = {}
        for a, b in self._signed_terms(start, end):
            sign = -1 if tokens[a - 1].text == "-" and a > start else 1
            product: dict[Monomial, int] = {(): 1}
            factors = [(a, b)] if (a, b) in self.tiling.indices else split_at(tokens, a, b, "*")
            for c, d in factors:
                product = multiply(product, self._read_factor(c, d, depth))
            total = add(total, product, sign)
        return total

    def _signed_terms(self, start: int, end: int) -> list[tuple[int, int]]:
        """The terms of a sum; the sign of each stands before it."""
        tokens = self.tiling.body.tokens
        terms: list[tuple[int, int]] = []
        for a, b in split_at(tokens, start, end, "+"):
            terms += [(c, d) for c, d in split_at(tokens, a, b, "-") if c < d or c != a]
        if any(c >= d for c, d in terms):
            raise NotUnderstood("an expression of another kind")
        return self._keep_indices(terms, start, end)

    def _keep_indices(self, terms: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
        """A work-item's number is written as a sum, but is one term."""
        indices = [span for span in self.tiling.indices if start <= span[0] and span[1] <= end]
        outside = [term for term in terms if not any(a <= term[0] < b for a, b in indices)]
        bare = [span for span in indices if any(span[0] == term[0] for term in terms)]
        return sorted(outside + bare)

    def _read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        tokens, body = self.tiling.body.tokens, self.tiling.body
        axis = self.tiling.indices.get((start, end))
        if axis is not None:
            return {(AXIS_NAMES[axis],): 1}
        if start >= end:
            raise NotUnderstood("an expression of another kind")
        if tokens[start].text == "(" and find_closing(tokens, start) == end - 1:
            return self.read((start + 1, end - 1), depth + 1)
        text = "".join(t.text for t in tokens[start:end])
        if end - start > 1:
            if not re.fullmatch(r"\w+(\.\w+)+", text):
                raise NotUnderstood("an expression of another kind")
            return {(text,): 1}
        number = self.number_of(text)
        if number is not None:
            return {(): number} if number else {}
        place = body.local(tokens[start])
        if place in self.variables:
            return {(f"@{place}",): 1}
        definition = next((local for local in self.tiling.definitions if local.place == place), None)
        if definition is not None and definition.axes:
            return self.read(definition.value, depth + 1)
        if not tokens[start].identifier:
            raise NotUnderstood("an expression of another kind")
        return {(text,): 1}

    def number_of(self, text: str) -> int | None:
        """The value of a number, or of a constant of the file."""
        if text not in self._numbers:
            self._numbers[text] = self._find_number(text)
        return self._numbers[text]

    def _find_number(self, text: str) -> int | None:
        plain = re.fullmatch(r"(\d+)[uUlL]*", text)
        if plain:
            return int(plain[1])
        words = self.tiling.body.program.macros.get(text, frozenset())
        if len(words) == 1 and next(iter(words)).isdigit():
            return int(next(iter(words)))
        constant = rf"\b(?:constexpr|const|enum)\b[^;()=]*(?:=[^;()]*?,\s*)?\b{re.escape(text)}\s*=\s*(\d+)\s*[,;}}]"
        values = re.findall(constant, self.tiling.body.program.text) if re.fullmatch(r"[A-Za-z_]\w*", text) else []
        return int(values[0]) if len(values) == 1 else None
