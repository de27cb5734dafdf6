"""The least value of a floating-point expression of a kernel, as far as squares, signs and constants tell it.

Rounding keeps order: a sum of numbers that are not negative is at least as large as each of them. Every bound holds
for a number; an expression may be no number (NaN) as well.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.outline import blank_opaque, outline_macros
from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.source_expression import ExpressionNode, read_expression
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

LEAST_NORMAL = 2.0**-126  # of floats; smaller ones but zero are subnormal
_LITERAL = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?")
_FLOATS = frozenset({"float", "double"})
_NEVER_NEGATIVE = frozenset({"fabsf", "fabs", "expf", "__expf", "exp", "sqrtf", "sqrt", "__fsqrt_rn"})
_FUSED = frozenset({"fmaf", "fma", "__fmaf_rn"})
_LARGEST = frozenset({"fmaxf", "fmax"})


@dataclass(frozen=True)
class FloatBounds:
    """Reads bounds in the body of a kernel or of a function of the device."""

    body: Body

    def find_least(self, start: int, end: int) -> float:
        """A number that the expression of the tokens [start, end) is never below; -inf if none is known."""
        if any(token.text == "operator" for token in self.body.tokens):
            return -math.inf  # `*` and `+` may mean anything
        return self._find_span((start, end))

    def _find_span(self, span: Span) -> float:
        try:
            return self._find(read_expression(self.body.tokens, *span))
        except NotUnderstood:
            return -math.inf

    def _find(self, node: ExpressionNode) -> float:
        if node.kind == "number":
            return float(node.text.rstrip("fF")) if _LITERAL.fullmatch(node.text) else -math.inf
        if node.kind == "name":
            return self._find_name(node)
        if node.kind == "call":
            return self._find_call(node)
        if node.kind == "group" or (node.kind == "cast" and node.text in _FLOATS):
            return self._find(node.parts[0]) if len(node.parts) == 1 else -math.inf
        if node.kind == "choice":
            return min(self._find(node.parts[1]), self._find(node.parts[2]))
        if node.kind == "binary" and node.text == "+":
            return _add_bounds(*map(self._find, node.parts))
        if node.kind == "binary" and node.text == "*":
            return 0.0 if self._is_never_negative(_list_factors(node)) else -math.inf
        if node.kind == "binary" and node.text == "/":
            return 0.0 if min(map(self._find, node.parts)) >= 0 else -math.inf
        return -math.inf

    def _is_never_negative(self, factors: list[ExpressionNode]) -> bool:
        """Of a product: those that may be negative are there in pairs."""
        counts = Counter(self._read_words(factor) for factor in factors if self._find(factor) < 0)
        calls = any(part.kind == "call" for factor in factors for part in factor.list_values())
        return all(count % 2 == 0 for count in counts.values()) and not (counts and calls)

    def _read_words(self, node: ExpressionNode) -> str:
        return " ".join(token.text for token in self.body.tokens[slice(*node.span)])

    def _find_call(self, node: ExpressionNode) -> float:
        """Of a function of the mathematical library."""
        called = self.body.tokens[node.start]
        program = self.body.program
        if node.text in program.macros or any(e.user and e.category == "function" for e in program.entities(called)):
            return -math.inf
        if node.text in _NEVER_NEGATIVE:
            return 0.0
        if node.text in _LARGEST and len(node.parts) == 2:
            numbers = [self._find(part) for part in node.parts if self._is_number(part)]
            return max([min(map(self._find, node.parts)), *numbers])  # the other one where one is NaN
        if node.text in _FUSED and len(node.parts) == 3:
            factors = [factor for part in node.parts[:2] for factor in _list_factors(part)]
            return _add_bounds(0.0 if self._is_never_negative(factors) else -math.inf, self._find(node.parts[2]))
        return -math.inf

    def _is_number(self, node: ExpressionNode) -> bool:
        """Whether an expression is never NaN: a literal, or a constant of the file."""
        is_constant = node.kind == "name" and self.body.local(self.body.tokens[node.start]) < 0
        return node.kind == "number" or (is_constant and self._find(node) > -math.inf)

    def _find_name(self, node: ExpressionNode) -> float:
        """Of a local constant of floating point, a macro, or a constant of the file."""
        body = self.body
        place = body.local(body.tokens[node.start])
        if place >= 0:
            value = body.constants.get(place)
            return self._find_span(value) if value and self._is_float(place) else -math.inf
        if node.text in {parameter.name for parameter in body.kernel.parameters}:
            return -math.inf
        return self._file_constants.get(node.text, -math.inf)

    def _is_float(self, place: int) -> bool:
        """Whether a local variable is declared as a float or double."""
        first, at = self.body.find_declared_type(place)
        words = [token.text for token in self.body.tokens[first:at]]
        while words and words[0] in ("const", "constexpr"):
            words.pop(0)
        return bool(words) and words[0] in _FLOATS and words[-1] not in ("*", "&")

    def _count_in_directives(self, name: str) -> int:
        """How often directives have a name, as `#ifndef` does of a macro that a flag may define."""
        words = re.findall(r"\w+", blank_opaque(self.body.program.text))
        return words.count(name) - sum(token.text == name for token in self.body.tokens)

    @cached_property
    def _file_constants(self) -> dict[str, float]:
        """Numbers of the file's macros and constants by name, but for names that are declared more than once."""
        tokens, constants, counts = self.body.tokens, dict[str, float](), Counter[str]()
        for i in range(1, len(tokens) - 3):
            if tokens[i].identifier and tokens[i + 1].text == "=" and tokens[i - 1].text in _FLOATS:
                counts[tokens[i].text] += 1
                constant = {token.text for token in tokens[max(0, i - 3) : i]} & {"const", "constexpr"}
                if constant and tokens[i + 3].text == ";" and _LITERAL.fullmatch(tokens[i + 2].text):
                    constants[tokens[i].text] = float(tokens[i + 2].text.rstrip("fF"))
        for macro in outline_macros(self.body.program.text):
            counts[macro.name] += 1
            if macro.parameters is None and _LITERAL.fullmatch(macro.text.strip()):
                constants[macro.name] = float(macro.text.strip().rstrip("fF"))
                counts[macro.name] += self._count_in_directives(macro.name) - 1
        return {name: number for name, number in constants.items() if counts[name] == 1}


def _add_bounds(left: float, right: float) -> float:
    """The bound of a sum."""
    return max(left, right) if left >= 0 and right >= 0 else -math.inf


def _list_factors(node: ExpressionNode) -> list[ExpressionNode]:
    """The factors of a product, those of products within it in their place."""
    if node.kind == "binary" and node.text == "*":
        return [factor for part in node.parts for factor in _list_factors(part)]
    return [node]
