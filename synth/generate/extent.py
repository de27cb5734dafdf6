"""Problem sizes: ints that remember how the host code computes them, so that a program can take them as arguments.

A family computes with sizes as with plain ints. A sum, product, quotient or `larger_size` of sizes is a size again;
anything else, also a result that does not fit C++'s int, is a plain int, which is printed as a literal. (`sizes` then
finds that the program's text differs between sizes, and does not offer them.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from hipsynth.synth.generate.types import I32

LEVEL = {"": 3, "*": 2, "/": 2, "+": 1, "-": 1, "max": 0}  # how tightly an operator binds


class Extent(int):
    """An int with its expression: the argument `name`, or `left op right` of other sizes and ints."""

    name: str
    op: str
    left: int
    right: int

    def __new__(cls, value: int, name: str, op: str = "", left: int = 0, right: int = 0) -> Extent:
        self = super().__new__(cls, value)
        self.name, self.op, self.left, self.right = name, op, left, right
        return self

    def __mul__(self, other: int) -> int:
        return _combine_extents(self, "*", other) if _is_size(other) else NotImplemented

    def __rmul__(self, other: int) -> int:
        return self.__mul__(other)

    def __add__(self, other: int) -> int:
        return _combine_extents(self, "+", other) if _is_size(other) else NotImplemented

    def __radd__(self, other: int) -> int:
        return self.__add__(other)

    def __sub__(self, other: int) -> int:
        return _combine_extents(self, "-", other) if _is_size(other) else NotImplemented

    def __floordiv__(self, other: int) -> int:
        return _combine_extents(self, "/", other) if _is_size(other) else NotImplemented


# Operators with their right operand that changes nothing, if there is one.
OPERATORS: dict[str, tuple[Callable[[int, int], int], int | None]] = {
    "*": (operator.mul, 1),
    "+": (operator.add, 0),
    "-": (operator.sub, 0),
    "/": (operator.floordiv, 1),
    "max": (max, None),
}


def _is_size(value: object) -> bool:
    """Whether a value is a plain int or a size, not another kind of number or an expression."""
    return type(value) is int or isinstance(value, Extent)


def _combine_extents(left: Extent, op: str, right: int) -> int:
    compute, neutral = OPERATORS[op]
    if type(right) is int and right == neutral:
        return left
    value = compute(int(left), int(right))
    fits = all(I32.lo <= number <= I32.hi for number in (right, value))
    return Extent(value, "", op, left, right) if fits else value


def cpp(value: int) -> str:
    """The host code's expression of a size, or the number."""
    if not isinstance(value, Extent):
        return str(value)
    if not value.op:
        return value.name
    level = LEVEL[value.op]
    if value.op == "max":
        left, right = _operand_text(value.left, level + 1), _operand_text(value.right, level + 1)
        return f"{left} > {right} ? {left} : {right}"
    # a * (b / c) is not a * b / c, and a + b may overflow where a + (b - c) does not.
    chained = value.op in "+*" and isinstance(value.right, Extent) and value.right.op == value.op
    return f"{_operand_text(value.left, level)} {value.op} {_operand_text(value.right, level + (not chained))}"


def _operand_text(value: int, level: int) -> str:
    bare = not isinstance(value, Extent) or LEVEL[value.op] >= level
    return cpp(value) if bare else f"({cpp(value)})"


def larger_size(a: int, b: int) -> int:
    """The larger of two sizes."""
    size, other = (a, b) if isinstance(a, Extent) else (b, a)
    return _combine_extents(size, "max", other) if isinstance(size, Extent) else max(a, b)


def count_groups(items: int, per_group: int) -> int:
    """Work-groups of `per_group` work-items needed to cover `items`: the rounded-up quotient."""
    return items if per_group == 1 else (items + (per_group - 1)) // per_group
