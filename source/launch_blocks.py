"""The shapes of work-groups that the host code of a text gives its launches, where it says them in numbers. The text
need not compile, as that of an extension of PyTorch."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping

from hipsynth.source.outline import blank_opaque

Shape = tuple[int, int, int]
MOST_ITEMS = 1024  # of a work-group
_MOST_DEPTH = 4  # of names that stand for names
_CAST = re.compile(r"static_cast\s*<[^<>]*>|\(\s*(?:(?:unsigned|signed|int|long|size_t|u?int(?:32|64)_t)\s*)+\)")
_CLOSING = {"(": ")", "{": "}"}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_LAUNCH_CALL = re.compile(r"\bhipLaunchKernelGGL\s*\(")


def find_launch_block(text: str, kernel: str) -> Shape | None:
    """The shape of a kernel's work-groups at its first launch that gives it in numbers and constants; None if none
    does."""
    code = blank_opaque(text)
    for expression, at in _find_block_expressions(code, kernel):
        shape = _read_shape(code[:at], expression)
        if shape is not None and 1 <= math.prod(shape) <= MOST_ITEMS:
            return shape
    return None


def _find_block_expressions(code: str, kernel: str) -> Iterator[tuple[str, int]]:
    """What launches give for their groups' shape, and where they stand."""
    name = re.escape(kernel)
    for match in re.finditer(rf"\b{name}\s*(?:<[^;{{}}]*?>\s*)?<<<", code):
        shape = _split_list(code, match.end(), ">>>")
        if len(shape) > 1:
            yield shape[1], match.start()
    for match in _LAUNCH_CALL.finditer(code):
        arguments = _split_list(code, match.end(), ")")
        if len(arguments) > 2 and re.search(rf"\b{name}\b", arguments[0]):
            yield arguments[2], match.start()


def _split_list(code: str, begin: int, end: str) -> list[str]:
    """The parts between commas of a list that begins at a place; those in inner brackets do not count."""
    depth, parts = 0, [""]
    for at in range(begin, len(code)):
        if depth == 0 and code.startswith(end, at):
            return [part.strip() for part in parts]
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if depth < 0 or code[at] == ";":
            return []
        if code[at] == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += code[at]
    return []


def _read_shape(before: str, expression: str) -> Shape | None:
    """A shape: `dim3(...)`, a variable that is declared before, or a number along x."""
    declared = list(re.finditer(rf"\bdim3\s+{re.escape(expression)}\s*(?:=\s*dim3\s*)?([({{])", before))
    if shape := re.match(r"dim3\s*([({])", expression):
        parts = _split_list(expression, shape.end(), _CLOSING[shape[1]])
    elif declared:
        parts = _split_list(before, declared[-1].end(), _CLOSING[declared[-1][1]])
    else:
        parts = [expression]
    numbers = [_read_number(before, part) for part in parts]
    sides = [number for number in numbers if number is not None]
    if len(sides) != len(numbers) or not 1 <= len(sides) <= 3:
        return None
    sides += [1, 1]
    return sides[0], sides[1], sides[2]


def _read_number(before: str, expression: str, depth: int = 0) -> int | None:
    """The value of an expression of numbers and constants; None if it has anything else."""
    try:
        tree = ast.parse(_CAST.sub("", expression).strip().replace("/", "//"), mode="eval").body
        return _evaluate_tree(before, tree, depth)
    except (SyntaxError, ZeroDivisionError):
        return None


def _evaluate_tree(before: str, tree: ast.expr, depth: int) -> int | None:
    if isinstance(tree, ast.Constant):
        return tree.value if isinstance(tree.value, int) else None
    if isinstance(tree, ast.Name):
        value = _find_value(before, tree.id) if depth < _MOST_DEPTH else None
        return None if value is None else _read_number(before, value, depth + 1)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        left, right = _evaluate_tree(before, tree.left, depth), _evaluate_tree(before, tree.right, depth)
        return None if left is None or right is None else _OPERATORS[type(tree.op)](left, right)
    return None


def _find_value(before: str, name: str) -> str | None:
    """What the last definition of a name gives it, unless something changes it later."""
    word = re.escape(name)
    defined = [*re.finditer(rf"#[ \t]*define[ \t]+{word}[ \t]+(\S.*)", before)]
    declared = [*re.finditer(rf"\b(?:int|unsigned|size_t|int64_t|long|auto)\s+{word}\s*=([^;,]*)[;,]", before)]
    if not declared:
        return defined[-1][1] if defined else None
    changes = re.search(rf"\b{word}\s*(?:[-+*/|&^]|<<|>>)?=(?!=)|[&]\s*{word}\b", before[declared[-1].end() :])
    return None if changes else declared[-1][1]
