"""Subscripts as polynomials: what a work-item's numbers and the variables of loops are multiplied by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hipsynth.source.tokens import Span, find_closing, split_at
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_constants import read_macro, read_number
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

Monomial = tuple[str, ...]  # the names that are multiplied, in order; () is 1
Polynomial = Mapping[Monomial, int]
MOST_DEPTH = 12


def add_polynomials(one: Polynomial, other: Polynomial, times: int = 1) -> dict[Monomial, int]:
    """`one` + `times` * `other`, without terms that cancel."""
    total = Counter(one)
    for names, factor in other.items():
        total[names] += times * factor
    return {names: factor for names, factor in total.items() if factor}


def multiply_polynomials(one: Polynomial, other: Polynomial) -> dict[Monomial, int]:
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


def substitute_name(polynomial: Polynomial, name: str, value: Polynomial) -> dict[Monomial, int]:
    """The polynomial with a value for a name. Raises NotUnderstood where it is not linear in the name."""
    factors = times_of(polynomial, name)
    rest = {names: factor for names, factor in polynomial.items() if name not in names}
    return add_polynomials(rest, multiply_polynomials(factors, value))


@dataclass
class PolynomialReader:
    """Reads expressions of a body as polynomials; a subclass tells what names stand for."""

    body: Body

    def read(self, span: Span, depth: int = 0) -> dict[Monomial, int]:
        """Raises NotUnderstood for anything but sums and products of names and numbers."""
        start, end = span
        if depth > MOST_DEPTH or start >= end:
            raise NotUnderstood("an expression of another kind")
        tokens = self.body.tokens
        total: dict[Monomial, int] = {}
        for a, b in self.split_terms(start, end):
            sign = -1 if tokens[a - 1].text == "-" and a > start else 1
            product: dict[Monomial, int] = {(): 1}
            for c, d in self.split_factors(a, b):
                product = multiply_polynomials(product, self.read_factor(c, d, depth))
            total = add_polynomials(total, product, sign)
        return total

    def split_terms(self, start: int, end: int) -> list[tuple[int, int]]:
        """The terms of a sum; the sign of each stands before it."""
        tokens = self.body.tokens
        terms: list[tuple[int, int]] = []
        for a, b in split_at(tokens, start, end, "+"):
            terms += [(c, d) for c, d in split_at(tokens, a, b, "-") if c < d or c != a]
        if any(c >= d for c, d in terms):
            raise NotUnderstood("an expression of another kind")
        return terms

    def split_factors(self, start: int, end: int) -> list[tuple[int, int]]:
        """The factors of a product."""
        return split_at(self.body.tokens, start, end, "*")

    def read_factor(self, start: int, end: int, depth: int) -> dict[Monomial, int]:
        """A sum in brackets, a number, or a name, perhaps with its members."""
        tokens = self.body.tokens
        if start >= end:
            raise NotUnderstood("an expression of another kind")
        if tokens[start].text == "(" and find_closing(tokens, start) == end - 1:
            return self.read((start + 1, end - 1), depth + 1)
        text = "".join(token.text for token in tokens[start:end])
        if end - start > 1:
            if not re.fullmatch(r"\w+(\.\w+)+", text):
                raise NotUnderstood("an expression of another kind")
            return {(text,): 1}
        return self.read_name(start, depth)

    def read_name(self, at: int, depth: int) -> dict[Monomial, int]:
        """A number, or what a name stands for; `depth`: of the expression around it."""
        token = self.body.tokens[at]
        number = self.number_of(at)
        if number is not None:
            return {(): number} if number else {}
        if not token.identifier:
            raise NotUnderstood("an expression of another kind")
        return {(token.text,): 1}

    def number_of(self, at: int) -> int | None:
        """The value of a number, or of a constant of the file that is declared with one."""
        program, text = self.body.program, self.body.tokens[at].text
        number = read_macro(program, text) if text in program.macros else read_number(text)
        if number is not None:
            return number
        declared = [entity for entity in program.entities(self.body.tokens[at]) if entity.user]
        if len(declared) != 1 or declared[0].category not in ("variable", "constant"):
            return None
        place = declared[0].place[1]
        value = re.match(rb"\w+\s*=\s*([\w']+)\s*[,;}]", program.unit.text[place:])
        head = re.split(rb"[;{}()]", program.unit.text[:place])[-1]
        is_fixed = declared[0].category == "constant" or re.search(rb"\bconst(expr)?\b", head)
        return read_number(value[1].decode()) if value and is_fixed else None
