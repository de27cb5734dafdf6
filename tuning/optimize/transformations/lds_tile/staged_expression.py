"""Finds what a loop computes of its loads for one axis of the work alone, such as weights that are converted and
scaled: that is staged, computed once for each element of a tile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.source_expression import ExpressionNode, read_expression
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

LOOP_AXIS = 3  # in a set of axes: an expression depends on the loop's variable
Axes = frozenset[int]
_INTEGER = re.compile(r"(?:(?:un)?signed|char|short|int|long|bool|size_t|u?int\d+_t|u?char)(?: |$)")
_RANKS = ("int", "float", "double")  # each is converted to the later one
_ARITHMETIC = frozenset("+-*/")


@dataclass(frozen=True)
class StagedExpression:
    """Tokens [start, end) of an expression of one load or more, the tokens of the first load that the loop changes, and
    the expression's type, "" where it is that of the load."""

    span: tuple[int, int]
    load: tuple[int, int]
    type: str = ""


@dataclass(frozen=True)
class ExpressionStager:
    """Reads the expressions of an iteration. `find_axes`: what an expression depends on; `find_root`: the parameter
    that a pointer's token stands for; `types`: of local constants, by their places."""

    body: Body
    find_axes: Callable[[tuple[int, int]], Axes]
    find_root: Callable[[int], str]
    types: Mapping[int, str]

    def find(self, span: tuple[int, int]) -> Iterator[StagedExpression]:
        """The largest expressions of floating-point numbers within one, of a single axis of the work and of the loop,
        that do more than to load."""
        try:
            node = read_expression(self.body.tokens, *span)
        except NotUnderstood:
            return
        yield from self._find_inside(node)

    def _find_inside(self, node: ExpressionNode) -> Iterator[StagedExpression]:
        loads = [part for part in node.list_values() if part.kind == "element"]
        varying = [load for load in loads if self._is_of_loop(load)]
        if not varying:
            return
        kind = self._find_type(node)
        changed = any(part.kind == "name" and self._is_changed(part) for part in node.list_values())
        if kind in _RANKS[1:] and not changed and self._is_of_loop(node) and self._computes(node):
            yield StagedExpression(node.span, varying[0].span, kind)
            return
        for part in () if node.kind == "element" else node.parts:
            yield from self._find_inside(part)

    def _is_of_loop(self, node: ExpressionNode) -> bool:
        """Whether an expression depends on the loop and on one axis of the work."""
        axes = self.find_axes(node.span)
        return LOOP_AXIS in axes and len(axes) == 2

    def _is_changed(self, node: ExpressionNode) -> bool:
        place = self.body.local(self.body.tokens[node.start])
        return place >= 0 and not self.types.get(place)

    def _computes(self, node: ExpressionNode) -> bool:
        """Whether an expression does arithmetic, or converts integers."""
        values = list(node.list_values())
        return any(part.kind in ("binary", "prefix") for part in values) or any(
            part.kind == "element" and self._find_type(part) == "int" for part in values
        )

    def _find_type(self, node: ExpressionNode) -> str:
        """int for all integers, float or double; "" for other types, and where it is not known."""
        if node.kind == "number":
            is_real = re.fullmatch(r"[\d.]+(?:[eE][+-]?\d+)?[fF]?", node.text) and not node.text.isdigit()
            return ("float" if node.text[-1] in "fF" else "double") if is_real else "int"
        if node.kind in ("name", "element"):
            return self._name_type(self._find_declared(node))
        if node.kind == "cast":
            return self._name_type(node.text)
        if node.kind in ("group", "prefix") and node.text != "!" and len(node.parts) == 1:
            return self._find_type(node.parts[0])
        if node.kind == "binary" and node.text in _ARITHMETIC:
            kinds = [self._find_type(part) for part in node.parts]
            return max(kinds, key=_RANKS.index) if all(kinds) else ""
        return ""

    def _find_declared(self, node: ExpressionNode) -> str:
        kernel, token = self.body.kernel, self.body.tokens[node.start]
        place = self.body.local(token)
        try:
            if node.kind == "element":
                root = self.find_root(node.start)
                return next(each.base for each in kernel.parameters if each.name == root)
        except NotUnderstood:
            return ""
        if place >= 0:
            return self.types.get(place, "")
        return next((each.type for each in kernel.parameters if each.name == token.text), "")

    def _name_type(self, declared: str) -> str:
        kind = self.body.kernel.resolve_type(declared.removeprefix("const ")).removesuffix(" const")
        return kind if kind in _RANKS else "int" if _INTEGER.match(kind) else ""
