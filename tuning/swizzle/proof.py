"""Proves that a mapping is a bijection: for all grids where its form allows that, else for one grid, exhaustively.

Spreads and formulas of the same form swap digits of a number, which `swaps_digits` checks symbolically; tiles cut the
range into segments that each map onto one tile (docs/explanation/swizzle.md). Every mapping is also evaluated for every
group of the given grid, and one that repeats or skips work is named with what it does.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from hipsynth.core.kernel_record import Dim
from hipsynth.core.languages import HIP, TRITON
from hipsynth.tuning.swizzle.index_expression import IndexExpression, name
from hipsynth.tuning.swizzle.mapping import CURVES, Formula, GroupMapping, RowSpread, Spread, Step, Tile

Factors = Counter[str]  # a product, as how often each factor occurs; numbers by their digits in base 10


@dataclass(frozen=True)
class Proof:
    """`kind`: "symbolic" (for every grid), "exhaustive" (for this grid), or "" for what is no bijection.

    `fault` then names what is wrong: "out of range", "repeats" (some work is done twice, other not at all), "skips"
    (whole parts are never done), with counts in `reason`.
    """

    kind: str
    reason: str = ""
    fault: str = ""


def prove_bijection(mapping: GroupMapping, grid: Dim, language: str = HIP) -> Proof:
    """The proof for a mapping on a grid in a kernel of a language. Raises UsageError for a formula that cannot be
    evaluated."""
    n = grid[0] * grid[1] * grid[2]
    targets = mapping.numbers(grid, is_signed=language == TRITON)
    outside = int(((targets < 0) | (targets >= n)).sum())
    if outside:
        return Proof("", f"{outside} of {n} work-groups would compute groups that do not exist", "out of range")
    times = np.bincount(targets, minlength=n)
    missing = int((times == 0).sum())
    if missing:
        computed = n - missing
        most = int(times.max())
        text = f"only {computed} of {n} groups are computed, one of them {most} times; {missing} are skipped"
        return Proof("", text, "skips" if computed * 2 <= n else "repeats")
    if all(holds_for_all_grids(step) for step in mapping.steps):
        return Proof("symbolic", "every step permutes the groups of any grid")
    return Proof("exhaustive", f"each of the {n} groups is computed exactly once")


def holds_for_all_grids(step: Step) -> bool:
    """Whether a step is proven for every grid."""
    if isinstance(step, Spread | RowSpread):
        return step.parts > 0 and step.run >= 0
    if isinstance(step, Tile):
        return step.inner not in CURVES or _curve_is_bijective(step)
    return isinstance(step, Formula) and swaps_digits(step.expression)


def _curve_is_bijective(tile: Tile) -> bool:
    """Curves fill squares of a fixed size, so one square is checked for all grids."""
    side = tile.rows
    if side != tile.columns or side & (side - 1):
        return False
    targets = GroupMapping((Tile(side, side, inner=tile.inner),)).numbers((side, side, 1))
    return bool((np.sort(targets) == np.arange(side * side)).all())


@dataclass(frozen=True)
class _Digit:
    """id // below % radix; the topmost digit has no radix."""

    below: Factors
    radix: Factors | None


def swaps_digits(expression: IndexExpression) -> bool:
    """Whether an expression takes the digits of `id` in a mixed radix and puts them together in another order.

    Exactly: select(id < whole, sum of digit * weight, id), where the radices below each digit multiply to its divisor,
    the digits' extents multiply to `whole`, and sorted by weight each weight is the product of the extents below it.
    Such numbers are in one-to-one correspondence with 0 … whole - 1, for all values of the radices. Without the
    select, the expression must be a digit expansion of all `n` groups, which no form with a remainder is.
    """
    if expression.op != "select":
        return False
    condition, then, otherwise = expression.parts
    if condition.op != "<" or not _is_id(condition.parts[0]) or not _is_id(otherwise):
        return False
    product = _product_factors(condition.parts[1])
    terms = [_weighted_digit(part) for part in _split_summands(then)]
    if product is None or not _within_the_grid(product) or not terms or any(term is None for term in terms):
        return False
    digits = [term for term in terms if term is not None]
    lowest_first = sorted(digits, key=lambda term: sum(term[0].below.values()))
    extents: list[Factors] = []
    reached: Factors = Counter()
    for position, (digit, _) in enumerate(lowest_first):
        last = position == len(lowest_first) - 1
        if digit.below != reached or (digit.radix is None) != last:
            return False
        extent = _divide_factors(product, reached) if digit.radix is None else digit.radix
        if extent is None:
            return False
        extents.append(extent)
        reached = reached + extent
    if reached != product:
        return False
    return _weights_fit([(weight, extent) for (_, weight), extent in zip(lowest_first, extents, strict=True)])


def _within_the_grid(total: Factors) -> bool:
    """Whether a product is at most `n` on every grid: n itself, sizes of the grid, or n // a * a."""
    if total == Counter([repr(name("n"))]) or not total - Counter([repr(name(axis)) for axis in "XYZ"]):
        return True
    rest = _without_opaque(total)
    return rest is not None and total == rest + Counter([repr(name("n") // _number_of(rest))])


def _without_opaque(total: Factors) -> Factors | None:
    rest = Counter({factor: count for factor, count in total.items() if factor.isdigit()})
    return rest if (total - rest).total() == 1 else None


def _number_of(factors: Factors) -> int:
    return math.prod(int(factor) ** count for factor, count in factors.items())


def _weights_fit(placed: list[tuple[Factors, Factors]]) -> bool:
    """Whether (weight, extent) pairs form a positional system: each weight is the product of the extents before."""
    left = list(placed)
    reached: Factors = Counter()
    while left:
        digit = next((pair for pair in left if pair[0] == reached), None)
        if digit is None:
            return False
        left.remove(digit)
        reached = reached + digit[1]
    return True


def _is_id(expression: IndexExpression) -> bool:
    return expression.op == "name" and expression.value == "id"


def _split_summands(expression: IndexExpression) -> list[IndexExpression]:
    if expression.op == "+":
        return [part for side in expression.parts for part in _split_summands(side)]
    return [expression]


def _weighted_digit(expression: IndexExpression) -> tuple[_Digit, Factors] | None:
    """A digit of `id` and its weight."""
    if expression.op == "*":
        for operands, other in (expression.parts, expression.parts[::-1]):
            inner, factor = _weighted_digit(operands), _product_factors(other)
            if inner is not None and factor is not None:
                return inner[0], inner[1] + factor
        return None
    digit = _digit_of_id(expression)
    return None if digit is None else (digit, Counter())


def _digit_of_id(expression: IndexExpression) -> _Digit | None:
    if _is_id(expression):
        return _Digit(Counter(), None)
    if expression.op not in ("//", "%"):
        return None
    inner, factor = _digit_of_id(expression.parts[0]), _product_factors(expression.parts[1])
    if inner is None or factor is None:
        return None
    if expression.op == "%":
        return _Digit(inner.below, factor) if inner.radix is None else None
    if inner.radix is None:
        return _Digit(inner.below + factor, None)
    rest = _divide_factors(inner.radix, factor)  # id // a % (b * c) // b  is  id // (a * b) % c
    return None if rest is None else _Digit(inner.below + factor, rest)


def _divide_factors(product: Factors, divisor: Factors) -> Factors | None:
    return product - divisor if all(product[factor] >= count for factor, count in divisor.items()) else None


def _product_factors(expression: IndexExpression) -> Factors | None:
    """The factors of a product of names, numbers and quotients of them, which are opaque; None if `id` is in it."""
    if expression.op == "*":
        parts = [_product_factors(part) for part in expression.parts]
        return None if parts[0] is None or parts[1] is None else parts[0] + parts[1]
    if expression.op == "number":
        return _prime_factors(int(expression.value))
    if _mentions_id(expression):
        return None
    return Counter([repr(expression)])


def _mentions_id(expression: IndexExpression) -> bool:
    return _is_id(expression) or any(map(_mentions_id, expression.parts))


def _prime_factors(value: int) -> Factors | None:
    factors: Factors = Counter()
    divisor = 2
    while value > 1 and divisor * divisor <= value:
        while value % divisor == 0:
            factors[str(divisor)] += 1
            value //= divisor
        divisor += 1
    if value > 1:
        factors[str(value)] += 1
    return factors if value >= 1 else None
