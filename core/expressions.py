"""Formulas and constraints in tables, parsed once into a small expression tree; `eval` is never used.

The syntax is Python's; `source.arithmetic` reads that of C into the same tree. A Grammar lists the allowed operations
and constants: metric formulas (FORMULA) compute with floats, template constraints (CONSTRAINT) compare integers and
strings.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

V = TypeVar("V", bound="Value")

Value = float | str  # of a name or an expression; bool is an int
_MAX_DEPTH = 100
_OPERATIONS: Mapping[str, Callable[..., Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "neg": operator.neg,
    "not": operator.not_,
    "max": lambda *values: max(values),
    "min": lambda *values: min(values),
}
_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.USub: "neg",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
}


class FormulaError(ValueError):
    """An expression contains something that its grammar does not allow; the message quotes it."""


@dataclass(frozen=True)
class Grammar:
    """What an expression may contain: `operations` (keys of _OPERATIONS, "and", "or") and types of `constants`."""

    what: str  # for messages
    operations: frozenset[str]
    constants: frozenset[type]


FORMULA = Grammar("formula", frozenset({"+", "-", "*", "/", "neg", "max", "min"}), frozenset({int, float}))
CONSTRAINT = Grammar(
    "constraint",
    frozenset({"+", "-", "*", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "and", "or", "not"}),
    frozenset({int, str}),
)


@dataclass(frozen=True)
class Constant:
    """A number or quoted text of an expression."""

    value: float | str


@dataclass(frozen=True)
class Name:
    """A name of an expression, whose value the caller gives when it evaluates."""

    name: str


@dataclass(frozen=True)
class Operation:
    """`symbol` is a key of _OPERATIONS, "and" or "or"."""

    symbol: str
    args: tuple[Node, ...]


Node = Constant | Name | Operation


def parse_expression(text: str, grammar: Grammar = FORMULA) -> Node:
    """Parses an expression into a tree; raises FormulaError naming what the grammar does not allow."""
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise FormulaError(f"{grammar.what} {text[:80]!r}: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise FormulaError(f"{grammar.what} {text[:40]!r}...: nested too deeply") from error
    return _Walker(text, grammar).build_node(body, 0)


def iterate_names(node: Node) -> Iterator[str]:
    """Every name in an expression, from left to right, including repeats."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Operation):
        for arg in node.args:
            yield from iterate_names(arg)


def evaluate_expression(node: Node, lookup: Callable[[str], V | None]) -> V | None:
    """The value, or None if a required input is unknown (None), a divisor is zero or a result is not finite.

    `and` and `or` return booleans and short-circuit. Raises TypeError if an operation does not support the types of
    its operands.
    """
    return cast("V | None", _evaluate_node(node, lookup))  # operations keep the type of their operands


def _evaluate_node(node: Node, lookup: Callable[[str], Value | None]) -> Value | None:
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Name):
        return lookup(node.name)
    if node.symbol in ("and", "or"):
        return _evaluate_logic(node, lookup)
    values = [_evaluate_node(arg, lookup) for arg in node.args]
    if None in values:
        return None
    try:
        result = _OPERATIONS[node.symbol](*values)
        if isinstance(result, str):
            raise TypeError(f"{result!r} is no number")
        return result if math.isfinite(result) else None
    except (ZeroDivisionError, OverflowError):
        return None


def _evaluate_logic(node: Operation, lookup: Callable[[str], Value | None]) -> bool | None:
    decides = node.symbol == "or"
    for arg in node.args:
        value = _evaluate_node(arg, lookup)
        if value is None:
            return None
        if bool(value) == decides:
            return decides
    return not decides


def compile_expression(node: Node) -> Callable[[Mapping[str, Value]], Value]:
    """A function of the names' values that computes the expression, several times as fast as `evaluate_expression`.

    It raises KeyError for a missing name, ZeroDivisionError, and TypeError as `evaluate_expression` does.
    """
    if isinstance(node, Constant):
        value = node.value
        return lambda inputs: value
    if isinstance(node, Name):
        return operator.itemgetter(node.name)
    parts = [compile_expression(arg) for arg in node.args]
    if node.symbol == "and":
        return lambda inputs: all(part(inputs) for part in parts)
    if node.symbol == "or":
        return lambda inputs: any(part(inputs) for part in parts)
    function = _OPERATIONS[node.symbol]
    if len(parts) == 2:
        first, second = parts
        return lambda inputs: function(first(inputs), second(inputs))
    return lambda inputs: function(*(part(inputs) for part in parts))


class _Walker:
    """Converts Python's syntax tree to Nodes; raises FormulaError for what the grammar does not allow."""

    def __init__(self, text: str, grammar: Grammar) -> None:
        self.text, self.grammar = text, grammar
        self.functions = grammar.operations & {"max", "min"}

    def build_node(self, tree: ast.expr, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise FormulaError(f"{self.grammar.what} {self.text[:40]!r}...: nested deeper than {_MAX_DEPTH}")
        match tree:
            case ast.Constant(value=int() | float() | str() as value) if type(value) in self.grammar.constants:
                return Constant(float(value) if float in self.grammar.constants else value)
            case ast.Name(id=name):
                return Name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self.build_operation(tree, _SYMBOLS.get(type(op), ""), (left, right), depth)
            case ast.UnaryOp(op=op, operand=operand):
                return self.build_operation(tree, _SYMBOLS.get(type(op), ""), (operand,), depth)
            case ast.BoolOp(op=op, values=operands):
                return self.build_operation(tree, _SYMBOLS[type(op)], operands, depth)
            case ast.Compare(left=left, ops=ops, comparators=rest):
                chain = zip((left, *rest), ops, rest, strict=False)
                pairs = [self.build_operation(tree, _SYMBOLS.get(type(op), ""), (a, b), depth) for a, op, b in chain]
                return pairs[0] if len(pairs) == 1 else Operation("and", tuple(pairs))
            case ast.Call(func=ast.Name(id=name)) if name not in self.functions:
                raise FormulaError(f"{self.grammar.what} {self.text!r}: no function {name!r}")
            case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]):
                return self.build_operation(tree, name, args, depth)
        raise self.unusable_syntax(tree)

    def build_operation(self, tree: ast.expr, symbol: str, args: Sequence[ast.expr], depth: int) -> Node:
        if symbol not in self.grammar.operations:
            raise self.unusable_syntax(tree)
        return Operation(symbol, tuple(self.build_node(arg, depth + 1) for arg in args))

    def unusable_syntax(self, tree: ast.expr) -> FormulaError:
        return FormulaError(f"{self.grammar.what} {self.text!r}: cannot use {ast.unparse(tree)!r}")
