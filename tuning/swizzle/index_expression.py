"""Integer expressions over a work-group's number and the grid: evaluated with numpy, written as HIP, read from text.

All values have 32 bits: in HIP unsigned, in Triton signed, where division rounds towards zero. Names: `id` (the number
in dispatch order, x fastest), `n` (groups of the grid), `X`, `Y`, `Z` (its size), and those that a mapping defines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hipsynth.core.errors import UsageError
from hipsynth.core.expressions import Constant, Name, Node, Operation
from hipsynth.source.arithmetic import parse_arithmetic, write_arithmetic

Array = np.ndarray[Any, np.dtype[np.int64]]
NAMES = ("id", "n", "X", "Y", "Z")
# operator -> (precedence, how it is written in C)
_C = {"*": (5, "*"), "//": (5, "/"), "%": (5, "%"), "+": (4, "+"), "-": (4, "-"), "<<": (3, "<<"), ">>": (3, ">>"),
      "<": (2, "<"), "==": (1, "=="), "&": (0, "&"), "^": (0, "^"), "|": (0, "|")}  # fmt: skip
_FROM_C = {"/": "//", "?": "select"}
# Division by a number that is only known at run time, such as the grid's size, which is a power of two more often than
# not; otherwise it takes some twenty instructions.
QUOTIENT = "quotient"
QUOTIENT_SOURCE = f"const auto {QUOTIENT} = [](unsigned a, unsigned b) {{ " + (
    "return (b & (b - 1u)) == 0u ? a >> (__ffs(b) - 1) : a / b; };"
)
_CALLS = {"min": 2, "max": 2, "select": 3}
_MOST_TOKENS = 200  # of an expression that is read


@dataclass(frozen=True)
class IndexExpression:
    """`op` is "name", "number", a binary operator of C, or min, max and select (condition, then, else)."""

    op: str
    parts: tuple[IndexExpression, ...] = ()
    value: str | int = 0

    def __add__(self, other: Operand) -> IndexExpression:
        return _binary_expression("+", self, other)

    def __sub__(self, other: Operand) -> IndexExpression:
        return _binary_expression("-", self, other)

    def __mul__(self, other: Operand) -> IndexExpression:
        return self if other in (1, number(1)) else _binary_expression("*", self, other)

    def __floordiv__(self, other: Operand) -> IndexExpression:
        return self if other in (1, number(1)) else _binary_expression("//", self, other)

    def __mod__(self, other: Operand) -> IndexExpression:
        return _binary_expression("%", self, other)

    def __and__(self, other: Operand) -> IndexExpression:
        return _binary_expression("&", self, other)

    def __or__(self, other: Operand) -> IndexExpression:
        return _binary_expression("|", self, other)

    def __xor__(self, other: Operand) -> IndexExpression:
        return _binary_expression("^", self, other)

    def __lshift__(self, other: Operand) -> IndexExpression:
        return _binary_expression("<<", self, other)

    def __rshift__(self, other: Operand) -> IndexExpression:
        return _binary_expression(">>", self, other)

    def below(self, other: Operand) -> IndexExpression:
        return _binary_expression("<", self, other)

    def equals(self, other: Operand) -> IndexExpression:
        return _binary_expression("==", self, other)


Operand = IndexExpression | int


def name(text: str) -> IndexExpression:
    """A variable of the mapping."""
    return IndexExpression("name", value=text)


def number(value: int) -> IndexExpression:
    """A constant."""
    return IndexExpression("number", value=value)


def least(a: Operand, b: Operand) -> IndexExpression:
    """The smaller of two operands."""
    return IndexExpression("min", (_lift_operand(a), _lift_operand(b)))


def select(condition: IndexExpression, then: Operand, otherwise: Operand) -> IndexExpression:
    """`then` where the condition is not 0, else `otherwise`."""
    return IndexExpression("select", (condition, _lift_operand(then), _lift_operand(otherwise)))


def _lift_operand(value: Operand) -> IndexExpression:
    return value if isinstance(value, IndexExpression) else number(value)


def _binary_expression(op: str, a: Operand, b: Operand) -> IndexExpression:
    return IndexExpression(op, (_lift_operand(a), _lift_operand(b)))


def evaluate_expression(expression: IndexExpression, values: Mapping[str, Array], is_signed: bool = False) -> Array:
    """The value for every work-group at once, as HIP computes it, or with `is_signed` Triton. Raises UsageError for an
    unknown name, a division by zero, a shift by 32 or more, or a constant to which Triton would give more bits."""
    if expression.op == "name":
        if expression.value not in values:
            raise UsageError(f"unknown name {expression.value}", remedy=f"use {', '.join(NAMES)}")
        return values[str(expression.value)]
    if expression.op == "number":
        return np.asarray(expression.value, np.int64)
    parts = [evaluate_expression(part, values, is_signed) for part in expression.parts]
    if expression.op in ("//", "%") and not parts[1].all():
        raise UsageError("the mapping divides by zero on this grid", remedy="guard it with max(1, …)")
    if expression.op in ("<<", ">>") and not ((parts[1] >= 0) & (parts[1] < 32)).all():
        raise UsageError("the mapping shifts by 32 bits or more")
    functions = _NUMPY | _SIGNED if is_signed else _NUMPY
    array: Array = functions[expression.op](*parts)
    return _wrap_values(array, is_signed) if expression.op in _WRAPPING else array


def _wrap_values(array: Array, is_signed: bool) -> Array:
    least = -(1 << 31) if is_signed else 0
    wrapped = ((array - least) & 0xFFFFFFFF) + least
    if is_signed and array.ndim == 0 and wrapped != array:
        raise UsageError("the mapping computes a number of more than 31 bits")
    return wrapped


_NUMPY: dict[str, Any] = {
    "*": np.multiply, "//": np.floor_divide, "%": np.mod, "+": np.add, "-": np.subtract,
    "<<": np.left_shift, ">>": np.right_shift, "&": np.bitwise_and, "^": np.bitwise_xor, "|": np.bitwise_or,
    "<": lambda a, b: (a < b).astype(np.int64), "==": lambda a, b: (a == b).astype(np.int64),
    "min": np.minimum, "max": np.maximum, "select": np.where,
}  # fmt: skip
_SIGNED: dict[str, Any] = {"//": lambda a, b: (a - np.fmod(a, b)) // b, "%": np.fmod}
_WRAPPING = frozenset({"*", "+", "-", "<<"})  # operators by which 32 bits may become more


def expression_source(expression: IndexExpression, inside: int = -1) -> str:
    """As HIP source over unsigned variables of the same names; `inside`: the precedence of what surrounds it."""
    if expression.op == "name":
        return str(expression.value)
    if expression.op == "number":
        return f"{expression.value}u"
    if expression.op in _CALLS:
        texts = [expression_source(part) for part in expression.parts]
        if expression.op == "select":
            return f"({expression_source(expression.parts[0], 9)} ? {texts[1]} : {texts[2]})"
        sign = "<" if expression.op == "min" else ">"
        operand, other = (expression_source(part, 9) for part in expression.parts)
        return f"({operand} {sign} {other} ? {operand} : {other})"
    level, sign = _C[expression.op]
    a, b = expression.parts
    if expression.op in ("//", "%") and b.op != "number":
        quotient = f"{QUOTIENT}({expression_source(a)}, {expression_source(b)})"
        return (
            quotient
            if expression.op == "//"
            else f"({expression_source(a, 4)} - {quotient} * {expression_source(b, 6)})"
        )
    mixed = level <= 3  # brackets where readers would have to know C's precedences
    left = expression_source(a, 9 if mixed and a.parts else level)
    right = expression_source(b, 9 if mixed and b.parts else level + 1)
    text = f"{left} {sign} {right}"
    return f"({text})" if level < inside else text


def expression_cost(expression: IndexExpression) -> int:
    """About how many instructions an expression takes."""
    inner = sum(map(expression_cost, expression.parts))
    if expression.op in ("name", "number"):
        return inner
    return inner + (8 if expression.op in ("//", "%") and expression.parts[1].op != "number" else 1)


def parse_formula(text: str) -> IndexExpression:
    """Reads an expression in the notation of C, with `min`, `max` and `select(condition, then, else)`;
    `//` is `/`.

    Raises UsageError with what is not understood.
    """
    tree = parse_arithmetic(text.replace("//", "/"), _MOST_TOKENS)
    if tree is None:
        raise UsageError(f"the mapping {text[:200]!r} is no expression of at most {_MOST_TOKENS} words and signs")
    return _read_node(tree)


def _read_node(tree: Node) -> IndexExpression:
    if isinstance(tree, Name) and tree.name in NAMES:
        return name(tree.name)
    if isinstance(tree, Constant) and isinstance(tree.value, int) and 0 <= tree.value < 1 << 31:
        return number(tree.value)
    if isinstance(tree, Operation):
        op = _FROM_C.get(tree.symbol, tree.symbol)
        if op in _C or _CALLS.get(op) == len(tree.args):
            return IndexExpression(op, tuple(map(_read_node, tree.args)))
    known_names = f"names {', '.join(NAMES)}, integers, + - * / % & | ^ << >> < ==, min, max, select"
    raise UsageError(f"the mapping uses {write_arithmetic(tree)[:100]!r}", remedy=f"use {known_names}")
