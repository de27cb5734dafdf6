"""Formulas of the metric table: a tiny expression language, parsed once, never `eval`.

Grammar: numbers, names, `+ - * /`, unary minus, parentheses, `max(a, b, ...)`, `min(a, b, ...)`.
A value is a float or None ("not known"); None and division by zero make the whole result None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Value = float | None
Lookup = Callable[[str], Value]

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z_]\w*)|(?P<op>[-+*/(),]))")
_FUNCTIONS: Mapping[str, Callable[[list[float]], float]] = {"max": max, "min": min}
_MAX_DEPTH = 64


class FormulaError(ValueError):
    """A formula that does not follow the grammar; the message quotes it."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Call:
    """`op` is one of + - * / neg max min."""

    op: str
    args: tuple[Node, ...]


Node = Number | Name | Call


def parse(text: str) -> Node:
    """The tree of a formula; raises FormulaError with the place of the mistake."""
    parser = _Parser(text)
    node = parser.sum(0)
    parser.finish()
    return node


def names(node: Node) -> Iterator[str]:
    """Every name in a formula, in order, repeats included."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Call):
        for arg in node.args:
            yield from names(arg)


def evaluate(node: Node, lookup: Lookup) -> Value:
    """The formula's value, or None when an input is unknown, a divisor is zero or the result is not finite."""
    if isinstance(node, Number):
        return node.value
    if isinstance(node, Name):
        return lookup(node.name)
    values = [evaluate(arg, lookup) for arg in node.args]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    try:
        result = _apply(node.op, known)
    except (ZeroDivisionError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def _apply(op: str, args: list[float]) -> float:
    if op == "+":
        return args[0] + args[1]
    if op == "-":
        return args[0] - args[1]
    if op == "*":
        return args[0] * args[1]
    if op == "/":
        return args[0] / args[1]
    if op == "neg":
        return -args[0]
    return _FUNCTIONS[op](args)


class _Parser:
    """Recursive descent over the token list; one method per precedence level."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._scan())
        self.at = 0

    def _scan(self) -> Iterator[tuple[str, str]]:
        position = 0
        stripped = self.text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise FormulaError(f"formula {self.text!r}: unexpected {stripped[position:].lstrip()[:1]!r}")
            kind = match.lastgroup or ""
            yield kind, match.group(kind)
            position = match.end()

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def _take(self) -> tuple[str, str]:
        if self.at >= len(self.tokens):
            raise FormulaError(f"formula {self.text!r}: ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def _expect(self, op: str) -> None:
        _, value = self._take()
        if value != op:
            raise FormulaError(f"formula {self.text!r}: expected {op!r}, found {value!r}")

    def finish(self) -> None:
        if self.at != len(self.tokens):
            raise FormulaError(f"formula {self.text!r}: unexpected {self._peek()!r}")

    def sum(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise FormulaError(f"formula {self.text[:40]!r}...: nested deeper than {_MAX_DEPTH}")
        node = self._product(depth)
        while self._peek() in ("+", "-"):
            op = self._take()[1]
            node = Call(op, (node, self._product(depth)))
        return node

    def _product(self, depth: int) -> Node:
        node = self._atom(depth)
        while self._peek() in ("*", "/"):
            op = self._take()[1]
            node = Call(op, (node, self._atom(depth)))
        return node

    def _atom(self, depth: int) -> Node:
        kind, value = self._take()
        if kind == "number":
            return Number(float(value))
        if value == "-":
            if depth > _MAX_DEPTH:
                raise FormulaError(f"formula {self.text[:40]!r}...: nested deeper than {_MAX_DEPTH}")
            return Call("neg", (self._atom(depth + 1),))
        if value == "(":
            node = self.sum(depth + 1)
            self._expect(")")
            return node
        if kind != "name":
            raise FormulaError(f"formula {self.text!r}: unexpected {value!r}")
        if self._peek() == "(":
            return self._call(value, depth)
        return Name(value)

    def _call(self, function: str, depth: int) -> Node:
        if function not in _FUNCTIONS:
            raise FormulaError(f"formula {self.text!r}: no function {function!r} (known: max, min)")
        self._expect("(")
        args = [self.sum(depth + 1)]
        while self._peek() == ",":
            self._take()
            args.append(self.sum(depth + 1))
        self._expect(")")
        return Call(function, tuple(args))
