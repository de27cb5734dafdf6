"""The range of an expression of a kernel, as far as types, masks and constants tell it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from hipsynth.core.expressions import Constant, Name, Node, Operation
from hipsynth.source.arithmetic import compute_operation, parse_arithmetic
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.kernel_body import Body

Range = tuple[float, float]  # least and greatest value
UNKNOWN: Range = (-math.inf, math.inf)
_UNSIGNED = re.compile(r"unsigned(?: char| short| int)?|u?char|uint(?:8|16|32)_t|ushort|uint|bool")
_TYPE_WORDS = frozenset({"unsigned", "char", "short", "int", "long", "uint8_t", "uint16_t", "uint32_t"})
_MOST_DEPTH = 8


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges in the body of a kernel. `constants`: the file's, by name."""

    body: Body
    constants: Mapping[str, int]

    def find_range(self, start: int, end: int, depth: int = 0) -> Range:
        """The least and the greatest value of the expression of the tokens [start, end); infinite if not known."""
        return self._find(parse_arithmetic(" ".join(token.text for token in self.body.tokens[start:end])), depth)

    def _find(self, tree: Node | None, depth: int) -> Range:
        match tree:
            case Constant(value=int(value)):
                return value, value
            case Name(name=name):
                return self._find_name(name, depth)
            case Operation(symbol="[]", args=(Name(name=array), _)):
                return self._find_element(array)
            case Operation(symbol=symbol, args=(left, right)):
                return _join_ranges(symbol, self._find(left, depth), self._find(right, depth))
        return UNKNOWN

    def _find_element(self, array: str) -> Range:
        """Of an array's element, by its type."""
        bases = {parameter.name: parameter.base for parameter in self.body.kernel.parameters}
        return _find_type_range(bases.get(array, ""))

    def _find_name(self, name: str, depth: int) -> Range:
        tokens, kernel = self.body.tokens, self.body.kernel
        named = [i for i in range(kernel.first, kernel.last) if tokens[i].text == name]
        declared = [i for i in named if tokens[i].start in self.body.locals]
        is_own = declared or name in {parameter.name for parameter in kernel.parameters}
        if name in self.constants and not is_own:  # the host may have a constant of that name
            return self.constants[name], self.constants[name]
        if len(declared) != 1 or depth > _MOST_DEPTH or tokens[declared[0] + 1].text != "=":
            return UNKNOWN
        value = self.body.constants.get(tokens[declared[0]].start)
        known_range = UNKNOWN if value is None else self.find_range(*value, depth + 1)
        return known_range if known_range != UNKNOWN else _find_type_range(self._read_type(declared[0]))

    def _read_type(self, at: int) -> str:
        """The words before a declared name."""
        words: list[str] = []
        while self.body.tokens[at - 1].text in _TYPE_WORDS:
            at -= 1
            words.insert(0, self.body.tokens[at].text)
        return " ".join(words)


def _find_type_range(kind: str) -> Range:
    size = type_bytes(kind) if _UNSIGNED.fullmatch(kind) else None
    if not size or kind == "char":
        return UNKNOWN
    return 0, 1 if kind == "bool" else (1 << 8 * size) - 1


def _join_ranges(symbol: str, left: Range, right: Range) -> Range:
    """The range of an operation on two integers."""
    if symbol in ("min", "max"):
        choose = min if symbol == "min" else max
        return choose(left[0], right[0]), choose(left[1], right[1])
    if symbol == "&":
        highs = [high for low, high in (left, right) if low >= 0]
        return (0, min(highs)) if highs else UNKNOWN
    is_finite = all(map(math.isfinite, (*left, *right)))
    if symbol in ("+", "-", "*") and is_finite:
        corners = [compute_operation(symbol, a, b) for a in left for b in right]
        return (min(corners), max(corners)) if max(map(abs, corners)) < 1 << 64 else UNKNOWN
    if symbol not in ("/", "%", ">>") or not is_finite or left[0] < 0 or not right[0] == right[1] > 0:
        return UNKNOWN
    if symbol == "%":
        return 0, min(left[1], right[0] - 1)
    low, high = (compute_operation(symbol, end, right[0]) for end in left)
    return UNKNOWN if high is None else (low, high)
