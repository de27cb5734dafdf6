"""The range of an expression of a kernel, as far as types, masks and constants tell it."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.kernel_body import Body

Range = tuple[float, float]  # least and greatest value
UNKNOWN: Range = (-math.inf, math.inf)
# Casts that keep what fits into 32 bits; an expression with another one has no known range.
_WIDE = "unsigned|int|size_t|unsigned int|u?int(?:32|64)_t|uint|(?:unsigned )?long(?: long)?"
_CAST = re.compile(rf"static_cast<(?:{_WIDE})>|\((?:{_WIDE})\)(?=[\w(])")
_SUFFIX = re.compile(r"\b(\d+)[uUlL]+\b")
_UNSIGNED = re.compile(r"unsigned(?: char| short| int)?|u?char|uint(?:8|16|32)_t|ushort|uint|bool")
_MOST_DEPTH = 8
_BY_CORNERS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip


@dataclass(frozen=True)
class RangeReader:
    """Reads ranges in the body of a kernel. `constants`: the file's, by name."""

    body: Body
    constants: Mapping[str, int]

    def find_range(self, start: int, end: int, depth: int = 0) -> Range:
        """The least and the greatest value of the expression of the tokens [start, end); infinite if not known."""
        text = " ".join(token.text for token in self.body.tokens[start:end])
        text = _SUFFIX.sub(r"\1", _CAST.sub("", re.sub(r"(?<!\w) | (?!\w)", "", text))).replace("/", "//")
        try:
            tree = ast.parse(text, mode="eval").body
        except SyntaxError:
            return UNKNOWN
        return self._find(tree, depth)

    def _find(self, tree: ast.expr, depth: int) -> Range:
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
            return tree.value, tree.value
        if isinstance(tree, ast.Name):
            return self._find_name(tree.id, depth)
        if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
            return self._find_element(tree.value.id)
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in ("min", "max"):
            choose = min if tree.func.id == "min" else max
            lows, highs = zip(*(self._find(argument, depth) for argument in tree.args), strict=True)
            return choose(lows), choose(highs)
        if isinstance(tree, ast.BinOp):
            return _join_ranges(tree.op, self._find(tree.left, depth), self._find(tree.right, depth))
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
        while self.body.tokens[at - 1].text in ("unsigned", "char", "short", "int", "uint8_t", "uint16_t", "uint32_t"):
            at -= 1
            words.insert(0, self.body.tokens[at].text)
        return " ".join(words)


def _find_type_range(kind: str) -> Range:
    size = type_bytes(kind) if _UNSIGNED.fullmatch(kind) else None
    if not size or kind == "char":
        return UNKNOWN
    return 0, 1 if kind == "bool" else (1 << 8 * size) - 1


def _join_ranges(sign: ast.operator, left: Range, right: Range) -> Range:
    """The range of a binary operation on integers."""
    number = int(right[0]) if right[0] == right[1] else None
    if isinstance(sign, ast.BitAnd):
        highs = [high for low, high in (left, right) if low >= 0]
        return (0, min(highs)) if highs else UNKNOWN
    if type(sign) in _BY_CORNERS and math.isfinite(sum(map(abs, (*left, *right)))):
        corners = [_BY_CORNERS[type(sign)](a, b) for a in left for b in right]
        return min(corners), max(corners)
    if number is None or number <= 0 or left[0] < 0 or left[1] == math.inf:
        return UNKNOWN
    if isinstance(sign, ast.Mod):
        return 0, min(left[1], number - 1)
    if isinstance(sign, ast.FloorDiv):
        return int(left[0]) // number, int(left[1]) // number
    if isinstance(sign, ast.RShift):
        return int(left[0]) >> number, int(left[1]) >> number
    return UNKNOWN
