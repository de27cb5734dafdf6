"""The parts of a work-item's flat number: what a kernel computes from it by divisions and remainders.

`row = i / n, col = i % n` are digits of a number of mixed radix. A part is the number divided by the product of some
factors, and the remainder of that by the product of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.tokens import Span, find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.source_changes.integer_types import IntegerTypes
from hipsynth.tuning.optimize.source_changes.launch_numbers import LaunchNumbers


@dataclass(frozen=True, order=True)
class ExtentFactor:
    """A number that the launch shares. `host`: what the host writes, with {name} for parameters; `text`: the kernel's
    own text. Factors are equal if the host writes the same."""

    host: str
    text: str = field(compare=False)


@dataclass(frozen=True)
class NumberPart:
    """`number / product(divisors) % product(extent)`; no extent: without the remainder."""

    divisors: tuple[ExtentFactor, ...] = ()
    extent: tuple[ExtentFactor, ...] | None = None


@dataclass(frozen=True)
class Digit:
    """A local variable that is a digit of the number, of `extent` values; the last one's may be empty, if unknown."""

    place: int  # the offset of its declaration
    name: str
    extent: tuple[ExtentFactor, ...]


def subtract_factors(
    factors: tuple[ExtentFactor, ...], part: tuple[ExtentFactor, ...]
) -> tuple[ExtentFactor, ...] | None:
    """What is left of a product without some factors; None if it does not have them."""
    left = list(factors)
    for factor in part:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


@dataclass
class PartReader:
    """Reads the parts of the number that the local variable at `number` holds. `parts`: by declarations."""

    body: Body
    number: int
    parts: dict[int, NumberPart] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = self.body.tokens
        self.types = IntegerTypes(self.body)
        self.numbers = LaunchNumbers(self.types)
        self.parts[self.number] = NumberPart()

    def read_part(self, span: Span) -> NumberPart | None:
        """The part that an expression is; None for another one."""
        span = self._open_brackets(span)
        if span[1] - span[0] == 1:
            return self.parts.get(self.body.local(self.tokens[span[0]]))
        signs = [i for sign in "/%" for a, i in self._find_signs(span, sign)]
        if not signs or any(True for sign in "+-*" for _ in self._find_signs(span, sign)):
            return None
        at = max(signs)
        part = self.read_part((span[0], at))
        factors = tuple(self.list_factors((at + 1, span[1]))) if part is not None else ()
        if part is None or not factors:
            return None
        if self.tokens[at].text == "%":
            return NumberPart(part.divisors, factors)
        extent = None if part.extent is None else subtract_factors(part.extent, factors)
        if part.extent is not None and extent is None:
            return None
        return NumberPart((*part.divisors, *factors), extent)

    def list_factors(self, span: Span) -> list[ExtentFactor]:
        """The factors of a product that the launch shares; none for another expression."""
        span = self._open_brackets(span)
        parts = split_at(self.tokens, *span, "*")
        if len(parts) > 1:
            inner = [self.list_factors(part) for part in parts]
            return [factor for factors in inner for factor in factors] if all(inner) else []
        place = self.body.local(self.tokens[span[0]]) if span[1] - span[0] == 1 else -1
        value = self.types.find_initial_value(place) if place >= 0 else None
        if value is not None and len(split_at(self.tokens, *self._open_brackets(value), "*")) > 1:
            return self.list_factors(value)
        host = self.numbers.write(span)
        if host is None:
            return []
        text = text_between(self.body.program.unit, self.tokens, *span)
        is_single = span[1] - span[0] == 1
        return [ExtentFactor(host if is_single else f"({host})", text if is_single else f"({text})")]

    def order_digits(self, places: list[int], total: tuple[ExtentFactor, ...]) -> list[Digit]:
        """The digits, the fastest first, of a number below the product `total`; () if that is not known. Raises
        NotUnderstood unless they are all of the number."""
        digits: list[Digit] = []
        below: tuple[ExtentFactor, ...] = ()
        for place in sorted(places, key=lambda place: len(self.parts[place].divisors)):
            part = self.parts[place]
            extent = part.extent
            is_last = len(digits) == len(places) - 1
            if Counter(part.divisors) != Counter(below) or (extent is None and not is_last):
                raise NotUnderstood("parts that are not the digits of the number")
            if is_last and total:
                extent = subtract_factors(total, below)
                if extent is None or (part.extent is not None and Counter(extent) != Counter(part.extent)):
                    raise NotUnderstood("a bound that is not the product of the digits' extents")
            name = next(token.text for token in self.tokens if token.start == place)
            digits.append(Digit(place, name, extent or ()))
            below += extent or ()
        return digits

    def _find_signs(self, span: Span, sign: str) -> Iterator[tuple[int, int]]:
        """The operators of one kind outside brackets."""
        parts = split_at(self.tokens, *span, sign)
        yield from ((a, b) for a, b in parts[:-1])

    def _open_brackets(self, span: Span) -> Span:
        """An expression without the brackets around all of it."""
        start, end = span
        while self.tokens[start].text == "(" and find_closing(self.tokens, start) == end - 1:
            start, end = start + 1, end - 1
        return start, end
