"""The shapes that the host code of a text gives its launches: work-groups in numbers, grids in numbers and the kernel's
arguments. The text need not compile, as that of an extension of PyTorch."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.outline import blank_opaque, find_closing_bracket
from hipsynth.source.program_inputs import UNREADABLE_NUMBER
from hipsynth.source.template_arguments import list_named_arguments

MOST_GROUP_ITEMS = 1024  # of a work-group
MOST_SHIFT = 62
_MOST_DEPTH = 4  # of names that stand for names
_CAST = re.compile(r"static_cast\s*<[^<>]*>|\(\s*(?:(?:unsigned|signed|int|long|size_t|u?int(?:32|64)_t)\s*)+\)")
_CLOSING = {"(": ")", "{": "}"}
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
}
_CHOICES: Mapping[str, Callable[[int, int], int]] = {"min": min, "max": max}
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ARITHMETIC = re.compile(r"(?:[\w\s+*/%(),-]|(?<!-)>)*")
_GROUP_SIZE = re.compile(r"\b(?:blockDim|hipBlockDim_[xyz])\b")
_SCALED = r"(?:blockIdx\.([xyz])\s*\*\s*(\w+)|(\w+)\s*\*\s*blockIdx\.([xyz]))"
_OWN_INDEX = re.compile(rf"\b{_SCALED}\s*\+\s*threadIdx\.([xyz])\b|\bthreadIdx\.([xyz])\s*\+\s*{_SCALED}\b")
_LAUNCH_CALL = re.compile(r"\bhipLaunchKernelGGL\s*\(")


@dataclass(frozen=True)
class _Launch:
    """What a launch gives: its shape, the kernel's arguments, and where it stands."""

    grid: str
    block: str
    arguments: tuple[str, ...]
    at: int


def find_launch_block(text: str, kernel: str) -> Dim | None:
    """The shape of a kernel's work-groups at its first launch that gives it in numbers and constants; None if none
    does."""
    code = blank_opaque(text)
    for launch in _find_launches(code, kernel):
        shape = _read_shape(code[: launch.at], launch.block)
        if shape is not None and 1 <= math.prod(shape) <= MOST_GROUP_ITEMS:
            return shape
    return None


def find_indexed_block(text: str, kernel: FunctionDeclaration) -> Dim | None:
    """The shape of work-groups that a kernel's own indices are made for: `blockIdx.x * TILE + threadIdx.x`, where TILE
    is a number, a constant, or an argument of the only instance of its template; None where the kernel asks for
    `blockDim`, or indexes for several shapes."""
    code = blank_opaque(text)
    body = code[slice(*kernel.body)]
    if _GROUP_SIZE.search(body):
        return None
    sizes: dict[str, set[int | None]] = {}
    for axis, size in _list_index_scales(body):
        sizes.setdefault(axis, set()).add(_read_size(text, code[: kernel.start], kernel, size))
    sides = [sizes.get(axis, {1}) for axis in "xyz"]
    x, y, z = (next(iter(side)) if len(side) == 1 else None for side in sides)
    if not sizes or x is None or y is None or z is None:
        return None
    return (x, y, z) if min(x, y, z) >= 1 and x * y * z <= MOST_GROUP_ITEMS else None


def _list_index_scales(body: str) -> Iterator[tuple[str, str]]:
    """(axis, word) of each index of a kernel's body that a word times the group's number and the item's own make."""
    for match in _OWN_INDEX.finditer(body):
        words = [word for word in match.groups() if word]
        size = next((word for word in words if word not in "xyz"), "")
        if size and len({word for word in words if word != size}) == 1:
            yield next(word for word in words if word != size), size


def find_item_counts(text: str, kernel: FunctionDeclaration, block: Dim) -> dict[str, int]:
    """The numbers of work-items that words of a kernel stand for, launched with work-groups of a shape: TILE of
    `blockIdx.x * TILE + threadIdx.x` for those along x, the bound of `__launch_bounds__` for all."""
    counts = {kernel.launch_bounds.partition(",")[0].strip(): math.prod(block)}
    scales = _list_index_scales(blank_opaque(text)[slice(*kernel.body)])
    return counts | {word: block["xyz".index(axis)] for axis, word in scales}


def find_launch_bound(text: str, kernel: FunctionDeclaration) -> int:
    """The work-items that `__launch_bounds__` allows a kernel's work-groups, MOST_GROUP_ITEMS if it does not say."""
    first = kernel.launch_bounds.partition(",")[0].strip()
    bound = _read_size(text, blank_opaque(text)[: kernel.start], kernel, first) if first else None
    return min(bound, MOST_GROUP_ITEMS) if bound is not None and bound >= 1 else MOST_GROUP_ITEMS


def _read_size(text: str, before: str, kernel: FunctionDeclaration, word: str) -> int | None:
    if word in kernel.template_names:
        try:
            values = {arguments[word] for arguments in list_named_arguments(text, kernel)}
        except BadInput:
            return None
        return _read_number(before, values.pop()) if len(values) == 1 else None
    return _read_number(before, word)


def find_launch_grid(text: str, kernel: FunctionDeclaration) -> tuple[str, ...] | None:
    """The numbers of work-groups along the axes at a kernel's first launch that gives them by numbers and what it
    passes to the kernel: sums, products, quotients, remainders, `>`, `min` and `max` of the kernel's parameters; None
    if none does."""
    code = blank_opaque(text)
    for launch in _find_launches(code, kernel.name):
        passed = [_CAST.sub("", argument).strip(" ()") for argument in launch.arguments]
        if len(passed) != len(kernel.parameters):
            continue
        names = {word: p.name for word, p in zip(passed, kernel.parameters, strict=True) if word.isidentifier()}
        parts = _split_shape(code[: launch.at], launch.grid)
        sides = [_write_extent(code[: launch.at], part, names) for part in parts]
        extents = tuple(_tidy_brackets(side) for side in sides if side is not None)
        if len(extents) == len(sides) and 1 <= len(extents) <= 3:
            return extents
    return None


def find_launch_numbers(text: str, kernel: FunctionDeclaration) -> dict[str, int]:
    """What the first launch of a kernel passes for its parameters in numbers and constants, by their names."""
    code = blank_opaque(text)
    for launch in _find_launches(code, kernel.name):
        if len(launch.arguments) == len(kernel.parameters):
            passed = [_read_number(code[: launch.at], argument) for argument in launch.arguments]
            pairs = zip(kernel.parameters, passed, strict=True)
            return {parameter.name: value for parameter, value in pairs if value is not None}
    return {}


def _tidy_brackets(expression: str) -> str:
    """The expression without brackets around single words and around all of it."""
    for _ in range(_MOST_DEPTH):
        expression = re.sub(r"(?<!\w)\((\w+)\)", r"\1", expression.strip())
        if expression.startswith("(") and find_closing_bracket(expression, 0) == len(expression) - 1:
            expression = expression[1:-1]
    return expression


def count_groups(extents: Sequence[str], numbers: Mapping[str, float]) -> Dim | None:
    """The grid of find_launch_grid for numbers of the parameters; None where it has none for them."""
    sides = [_evaluate_extent(extent, numbers) for extent in extents]
    counts = [side for side in sides if side is not None and side >= 1]
    if len(counts) != len(extents):
        return None
    x, y, z = (*counts, 1, 1)[:3]
    return x, y, z


def _evaluate_extent(extent: str, numbers: Mapping[str, float]) -> int | None:
    try:
        return _evaluate_names(ast.parse(extent.replace("/", "//"), mode="eval").body, numbers)
    except UNREADABLE_NUMBER:
        return None


def _evaluate_names(tree: ast.expr, numbers: Mapping[str, float]) -> int | None:
    if isinstance(tree, ast.Constant):
        return tree.value if isinstance(tree.value, int) else None
    if isinstance(tree, ast.Name):
        return int(numbers[tree.id]) if tree.id in numbers else None
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        operation, parts = _OPERATORS[type(tree.op)], [tree.left, tree.right]
    elif isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id in _CHOICES:
        operation, parts = _CHOICES[tree.func.id], tree.args
    elif isinstance(tree, ast.Compare) and len(tree.ops) == 1 and isinstance(tree.ops[0], ast.Gt):
        operation, parts = operator.gt, [tree.left, *tree.comparators]
    else:
        return None
    values = [_evaluate_names(part, numbers) for part in parts]
    known_values = [value for value in values if value is not None]
    return operation(*known_values) if len(known_values) == len(values) == 2 else None


def _write_extent(before: str, expression: str, names: Mapping[str, str], depth: int = 0) -> str | None:
    """An expression of host code in the names of the kernel's parameters; None if it has anything else."""
    expression = _expand_macro_calls(before, _CAST.sub("", expression).replace("std::", "").strip())
    if depth > _MOST_DEPTH or not _ARITHMETIC.fullmatch(expression):
        return None
    pieces, at = [], 0
    for word in _WORD.finditer(expression):
        called = expression[word.end() :].lstrip().startswith("(")
        value = _write_word(before, word[0], names, depth) if not called else word[0] if word[0] in _CHOICES else None
        if value is None:
            return None
        pieces += [expression[at : word.start()], value]
        at = word.end()
    return "".join([*pieces, re.sub(r"(?<=\d)[uUlL]+", "", expression[at:])])


def _write_word(before: str, word: str, names: Mapping[str, str], depth: int) -> str | None:
    if word in names:
        return names[word]
    if (number := _read_number(before, word)) is not None:
        return str(number)
    value = _find_value(before, word)
    inner = None if value is None else _write_extent(before, value, names, depth + 1)
    return inner if inner is None or re.fullmatch(r"\w+", inner) else f"({inner})"


def _expand_macro_calls(before: str, expression: str) -> str:
    """The expression with macros of the text in place of their calls: `DIVUP(n, 256)`."""
    for _ in range(_MOST_DEPTH):
        for match in re.finditer(r"#[ \t]*define[ \t]+(\w+)\(([^()]*)\)[ \t]*(\S.*)", before):
            call = re.search(rf"\b{match[1]}\s*\(", expression)
            arguments = _split_list(expression, call.end(), ")") if call else []
            parameters = [name.strip() for name in match[2].split(",")]
            if call is None or len(arguments) != len(parameters):
                continue
            values = dict(zip(parameters, arguments, strict=True))
            body = _WORD.sub(lambda word, values=values: f"({values.get(word[0], word[0])})", match[3].strip())
            end = find_closing_bracket(expression, call.end() - 1) + 1
            expression = f"{expression[: call.start()]}({body}){expression[end:]}"
            break
        else:
            return expression
    return expression


def _find_launches(code: str, kernel: str) -> Iterator[_Launch]:
    """The launches of a kernel."""
    name = re.escape(kernel)
    for match in re.finditer(rf"\b{name}\s*(?:<[^;{{}}]*?>\s*)?<<<", code):
        shape = _split_list(code, match.end(), ">>>")
        behind = code.find(">>>", match.end()) + 3
        opening = re.compile(r"\s*\(").match(code, behind)
        arguments = _split_list(code, opening.end(), ")") if opening else []
        if len(shape) > 1:
            yield _Launch(shape[0], shape[1], tuple(arguments), match.start())
    for match in _LAUNCH_CALL.finditer(code):
        arguments = _split_list(code, match.end(), ")")
        if len(arguments) > 2 and re.search(rf"\b{name}\b", arguments[0]):
            yield _Launch(arguments[1], arguments[2], tuple(arguments[5:]), match.start())


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


def _split_shape(before: str, expression: str) -> list[str]:
    """The numbers of a shape: `dim3(...)`, a variable that is declared before, or a number along x."""
    declared = list(re.finditer(rf"\bdim3\s+{re.escape(expression)}\s*(?:=\s*dim3\s*)?([({{])", before))
    if shape := re.match(r"dim3\s*([({])", expression):
        return _split_list(expression, shape.end(), _CLOSING[shape[1]])
    return _split_list(before, declared[-1].end(), _CLOSING[declared[-1][1]]) if declared else [expression]


def _read_shape(before: str, expression: str) -> Dim | None:
    numbers = [_read_number(before, part) for part in _split_shape(before, expression)]
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
    except UNREADABLE_NUMBER:
        return None


def _evaluate_tree(before: str, tree: ast.expr, depth: int) -> int | None:
    """Shifts by more than MOST_SHIFT have no value."""
    if isinstance(tree, ast.Constant):
        return tree.value if isinstance(tree.value, int) else None
    if isinstance(tree, ast.Name):
        value = _find_value(before, tree.id) if depth < _MOST_DEPTH else None
        return None if value is None else _read_number(before, value, depth + 1)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        left, right = _evaluate_tree(before, tree.left, depth), _evaluate_tree(before, tree.right, depth)
        if left is None or right is None or (isinstance(tree.op, ast.LShift) and not 0 <= right <= MOST_SHIFT):
            return None
        return _OPERATORS[type(tree.op)](left, right)
    return None


def _find_value(before: str, name: str) -> str | None:
    """What the last definition of a name gives it, unless something changes it later."""
    word = re.escape(name)
    defined = [*re.finditer(rf"#[ \t]*define[ \t]+{word}[ \t]+(\S.*)", before)]
    declared = [*re.finditer(rf"\b(?:int|unsigned|size_t|int64_t|long|auto)\s+{word}\s*=(?!=)", before)]
    if not declared:
        return defined[-1][1] if defined else None
    begin = declared[-1].end()
    end = _find_value_end(before, begin)
    changes = re.search(rf"\b{word}\s*(?:[-+*/|&^]|<<|>>)?=(?!=)|[&]\s*{word}\b", before[end:])
    return None if changes else before[begin:end]


def _find_value_end(code: str, begin: int) -> int:
    """The comma or semicolon behind a value, outside of brackets."""
    depth = 0
    for at in range(begin, len(code)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if code[at] == ";" or (code[at] == "," and depth == 0):
            return at
    return len(code)
