"""Arithmetic of C, as host code, macros and subscripts write it: read once into a tree of `core.expressions`, which is
evaluated with numbers or arrays of them, or walked by those who compute with something else, and written again.

Values have no type: nothing wraps, and casts to integers of 32 bits or more change nothing; there are no other casts.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from hipsynth.core.expressions import Constant, Name, Node, Operation

MOST_SHIFT = 63
MOST_TOKENS = 100  # of an expression, which bounds how deep it is
_WORD = r"(?:[A-Za-z_]\w*\s*(?:::|\.|->)\s*)*[A-Za-z_]\w*"  # n, std::min, blockIdx.x, p->n
_SIGN = r"<<|>>|<=|>=|[=!]=|&&|\|\||[-+*/%<>&^|~!?:,()\[\]]"
_TOKEN = re.compile(rf"\s*(\.?\d(?:[eEpP][+-]|'?[\w.])*|{_WORD}|{_SIGN})\s*")
_INTEGER = re.compile(
    r"(?:(0[xX][\da-fA-F]{1,16}|0[bB][01]{1,64}|[1-9]\d{0,19})|(0[0-7]{0,22}))"
    r"(?:[uU](?:ll?|LL?|[zZ])?|(?:ll?|LL?|[zZ])[uU]?)?"
)
_REAL = re.compile(r"((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFlL]?")
_WIDE_TYPES = frozenset(
    "const unsigned signed int long uint ulong size_t ssize_t ptrdiff_t index_t uintptr_t intptr_t".split()  # noqa: SIM905
) | {f"{sign}int{bits}_t" for sign in ("", "u") for bits in (32, 64)}


def _divide_towards_zero(a: Any, b: Any) -> Any:
    """Rounded towards zero, but for floats."""
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    return abs(a) // abs(b) * (1 - 2 * ((a < 0) ^ (b < 0)))


def _check_shift(bits: int) -> int:
    if not 0 <= bits <= MOST_SHIFT:
        raise ValueError("a shift that C does not define")
    return bits


# Operator -> (how tightly it binds, what it computes).
_BINARY: Mapping[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "||": (1, lambda a, b: bool(a or b)), "&&": (2, lambda a, b: bool(a and b)),
    "|": (3, operator.or_), "^": (4, operator.xor), "&": (5, operator.and_), "==": (6, operator.eq),
    "!=": (6, operator.ne), "<": (7, operator.lt), "<=": (7, operator.le), ">": (7, operator.gt),
    ">=": (7, operator.ge), "<<": (8, lambda a, b: a << _check_shift(b)), ">>": (8, lambda a, b: a >> _check_shift(b)),
    "+": (9, operator.add), "-": (9, operator.sub), "*": (10, operator.mul), "/": (10, _divide_towards_zero),
    "%": (10, lambda a, b: a - b * _divide_towards_zero(a, b)),
}  # fmt: skip
# Sign before an operand -> the same with a number before it.
_SIGNS = {"-": ("*", -1), "+": ("*", 1), "~": ("^", -1), "!": ("==", 0)}
# What an operation of a tree computes; "?" is the choice of the second or the third by the first.
OPERATIONS: Mapping[str, Callable[..., Any]] = {
    **{sign: compute for sign, (_, compute) in _BINARY.items()},
    "min": lambda a, b: min(a, b), "max": lambda a, b: max(a, b), "?": lambda test, a, b: a if test else b,
}  # fmt: skip


def read_integer(text: str) -> int | None:
    """The value of an integer as C writes it: decimal, hexadecimal, octal (010 is 8) or binary, with a suffix and
    separators of digits; None for other text, or more than 64 bits."""
    match = _INTEGER.fullmatch(text.replace("'", ""))
    if match is None:
        return None
    value = int(match[1], 0) if match[1] else int(match[2], 8)
    return value if value < 1 << 64 else None


def parse_arithmetic(text: str, most_tokens: int = MOST_TOKENS) -> Node | None:
    """The tree of an expression: constants, names (`blockIdx.x` is one, `std::` is left out), and operations: those of
    OPERATIONS, calls of functions by their name, and "[]" of an array and an index. None for other text, and for more
    than `most_tokens`, as a tree is up to half as deep."""
    tokens: list[str] = []
    at = 0
    while at < len(text) and len(tokens) <= most_tokens and (match := _TOKEN.match(text, at)):
        tokens.append(re.sub(r"\s+", "", match[1]).removeprefix("std::"))
        at = match.end()
    if at < len(text) or len(tokens) > most_tokens:
        return None
    try:
        return _Parser(tokens).parse_all()
    except ValueError:
        return None


class _Parser:
    """Raises ValueError for what is no expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = [*tokens, ""], 0

    def accept(self, sign: str) -> bool:
        """Whether a sign comes next; moves behind it."""
        if self.tokens[self.at] != sign:
            return False
        self.at += 1
        return True

    def expect(self, sign: str) -> None:
        if not self.accept(sign):
            raise ValueError(f"no {sign!r} where one has to be")

    def parse_all(self) -> Node:
        tree = self.parse_choice()
        self.expect("")
        return tree

    def parse_choice(self) -> Node:
        tree = self.parse_binary(1)
        if not self.accept("?"):
            return tree
        first = self.parse_choice()
        self.expect(":")
        return Operation("?", (tree, first, self.parse_choice()))

    def parse_binary(self, least: int) -> Node:
        """Operands of operators that bind at least as tightly as `least`."""
        tree = self.parse_operand()
        while (level := _BINARY.get(sign := self.tokens[self.at], (0,))[0]) >= least:
            self.at += 1
            tree = Operation(sign, (tree, self.parse_binary(level + 1)))
        return tree

    def parse_operand(self) -> Node:
        token = self.tokens[self.at]
        self.at += 1
        if token in _SIGNS and self.tokens[self.at] not in _SIGNS:
            sign, neutral = _SIGNS[token]
            return Operation(sign, (Constant(neutral), self.parse_operand()))
        if token == "(":
            return self.parse_operand() if self.skip_type(")") else self.parse_brackets()
        if token == "static_cast":
            self.expect("<")
            if not self.skip_type(">"):
                raise ValueError("a cast that may change the value")
            self.expect("(")
            return self.parse_brackets()
        if token[:1].isidentifier():
            return self.parse_name(token)
        return Constant(_read_literal(token))

    def skip_type(self, closing: str) -> bool:
        """Whether the words of a type that casts keep values in, and a bracket, come next; moves behind them."""
        end = self.at
        while self.tokens[end] in _WIDE_TYPES:
            end += 1
        is_type = end > self.at and self.tokens[end] == closing
        self.at = end + 1 if is_type else self.at
        return is_type

    def parse_brackets(self) -> Node:
        tree = self.parse_choice()
        self.expect(")")
        return tree

    def parse_name(self, name: str) -> Node:
        if self.accept("["):
            index = self.parse_choice()
            self.expect("]")
            return Operation("[]", (Name(name), index))
        if not self.accept("("):
            return Name(name)
        if name in _WIDE_TYPES:
            return self.parse_brackets()
        arguments = [] if self.tokens[self.at] == ")" else [self.parse_choice()]
        while self.accept(","):
            arguments.append(self.parse_choice())
        self.expect(")")
        return Operation(name, tuple(arguments))


def _read_literal(text: str) -> float:
    integer, real = read_integer(text), _REAL.fullmatch(text)
    if integer is None and (real is None or text.isdecimal()):
        raise ValueError(f"{text!r} is no number")
    return float(real[1]) if integer is None and real else integer or 0


def evaluate_arithmetic(tree: Node | None, find_value: Callable[[str], Any]) -> Any:
    """What a tree computes, with numbers or arrays for its names. None where `find_value` gives None for a name, and
    for what has no value: no tree, another function, a division by zero, a shift that C does not define."""
    if isinstance(tree, Name):
        return find_value(tree.name)
    if not isinstance(tree, Operation):
        return tree and tree.value
    values = [evaluate_arithmetic(part, find_value) for part in tree.args]
    return compute_operation(tree.symbol, *values)


def compute_operation(symbol: str, *values: Any) -> Any:
    """The result of an operation; None for one that is not in OPERATIONS, of None, and where it has none."""
    if symbol not in OPERATIONS or any(value is None for value in values):
        return None
    try:
        return OPERATIONS[symbol](*values)
    except (ArithmeticError, TypeError, ValueError):
        return None


def evaluate_integer(tree: Node | None, find_value: Callable[[str], int | None] = lambda name: None) -> int | None:
    """As evaluate_arithmetic(), where the result is an integer that fits 64 bits; else None."""
    value = evaluate_arithmetic(tree, find_value)
    return int(value) if isinstance(value, int) and abs(value) < 1 << 64 else None


def write_arithmetic(tree: Node, least: int = 0) -> str:
    """A tree as C, with brackets where it binds less tightly than `least`."""
    if isinstance(tree, Constant):
        return str(tree.value)
    if isinstance(tree, Name):
        return tree.name
    if tree.symbol not in _BINARY and tree.symbol not in ("?", "[]"):
        return f"{tree.symbol}({', '.join(map(write_arithmetic, tree.args))})"
    level = _BINARY.get(tree.symbol, (0,))[0]
    first, *rest = [write_arithmetic(part, level + (at > 0 or level == 0)) for at, part in enumerate(tree.args)]
    if tree.symbol == "[]":
        return f"{first}[{rest[0]}]"
    text = f"{first} ? {rest[0]} : {rest[1]}" if tree.symbol == "?" else f"{first} {tree.symbol} {rest[0]}"
    return f"({text})" if level < least else text
