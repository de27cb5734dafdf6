"""The shapes that the host code of a text gives its launches: work-groups in numbers, grids in numbers and the kernel's
arguments. The text need not compile, as that of an extension of PyTorch."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from hipsynth.core.errors import BadInput
from hipsynth.core.expressions import Constant, Name, Node, Operation, iterate_names
from hipsynth.core.kernel_record import Dim
from hipsynth.source.arithmetic import OPERATIONS, evaluate_integer, parse_arithmetic, write_arithmetic
from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.outline import blank_opaque
from hipsynth.source.template_arguments import list_named_arguments

MOST_GROUP_ITEMS = 1024  # of a work-group
_MOST_DEPTH = 4  # of names that stand for names
_MOST_DEFINITIONS = 200  # that are looked up for an expression
_MOST_NAMES = 1000  # of parameters in it
_CLOSING = {"(": ")", "{": "}"}
_GROUP_SIZE = re.compile(r"\b(?:blockDim|hipBlockDim_[xyz])\b")
_SCALED = r"(?:blockIdx\.([xyz])\s*\*\s*(\w+)|(\w+)\s*\*\s*blockIdx\.([xyz]))"
_OWN_INDEX = re.compile(rf"\b{_SCALED}\s*\+\s*threadIdx\.([xyz])\b|\bthreadIdx\.([xyz])\s*\+\s*{_SCALED}\b")
_LAUNCH_CALL = re.compile(r"\bhipLaunchKernelGGL\s*\(")


@dataclass(frozen=True)
class _LaunchCall:
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


def find_row_lengths(body: str, names: Collection[str]) -> tuple[str, ...]:
    """Those of a kernel's integer arguments by which its body multiplies the number of the work-group: lengths of rows,
    of which each work-group has one."""
    group = r"(?:blockIdx\.x|hipBlockIdx_x)"
    cast = r"(?:\(\s*[\w\s:]+\)\s*|static_cast<[^<>]*>\s*\(\s*)?"
    aliases = re.findall(rf"\b(\w+)\s*=\s*{cast}{group}\s*\)?\s*[;,]", body)
    number = f"(?:{'|'.join([group, *map(re.escape, aliases)])})"
    factors = re.findall(rf"(?<![\w.]){number}\b\s*\)*\s*\*\s*{cast}\(?\s*(\w+)", body)
    factors += re.findall(rf"\b(\w+)\s*\)*\s*\*\s*{cast}\(?\s*{number}\b", body)
    return tuple(name for name in names if name in factors)


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
        return _Definitions(before).read_number(values.pop()) if len(values) == 1 else None
    return _Definitions(before).read_number(word)


def find_launch_grid(text: str, kernel: FunctionDeclaration) -> tuple[str, ...] | None:
    """The numbers of work-groups along the axes at a kernel's first launch that gives them by numbers and what it
    passes to the kernel: arithmetic of the kernel's parameters; None if none does."""
    code = blank_opaque(text)
    for launch in _find_launches(code, kernel.name):
        passed = [parse_arithmetic(argument) for argument in launch.arguments]
        if len(passed) != len(kernel.parameters):
            continue
        pairs = zip(passed, kernel.parameters, strict=True)
        names = {tree.name: Name(parameter.name) for tree, parameter in pairs if isinstance(tree, Name)}
        before = code[: launch.at]
        sides = [_Definitions(before, names).read_tree(part) for part in _split_shape(before, launch.grid)]
        extents = tuple(write_arithmetic(side) for side in sides if side is not None)
        if len(extents) == len(sides) and 1 <= len(extents) <= 3:
            return extents
    return None


def find_launch_numbers(text: str, kernel: FunctionDeclaration) -> dict[str, int]:
    """What the first launch of a kernel passes for its parameters in numbers and constants, by their names."""
    code = blank_opaque(text)
    for launch in _find_launches(code, kernel.name):
        if len(launch.arguments) == len(kernel.parameters):
            passed = [_Definitions(code[: launch.at]).read_number(argument) for argument in launch.arguments]
            pairs = zip(kernel.parameters, passed, strict=True)
            return {parameter.name: value for parameter, value in pairs if value is not None}
    return {}


def count_groups(extents: Sequence[str], numbers: Mapping[str, float]) -> Dim | None:
    """The grid of find_launch_grid for numbers of the parameters; None where it has none for them."""
    whole_numbers = {name: int(number) for name, number in numbers.items()}
    sides = [evaluate_integer(parse_arithmetic(extent), whole_numbers.get) for extent in extents]
    counts = [side for side in sides if side is not None and side >= 1]
    if len(counts) != len(extents):
        return None
    x, y, z = (*counts, 1, 1)[:3]
    return x, y, z


@dataclass
class _Definitions:
    """What names stand for behind a text: constants and macros of it, and those that `names` has trees for."""

    before: str
    names: Mapping[str, Node] = field(default_factory=dict)
    definitions_left: int = _MOST_DEFINITIONS

    def read_number(self, expression: str) -> int | None:
        """The value of an expression of numbers and constants; None if it has anything else."""
        return evaluate_integer(self.read_tree(expression))

    def read_tree(self, expression: str) -> Node | None:
        """An expression in numbers and what `names` has; None if it has anything else."""
        return self._write_out(parse_arithmetic(expression), self.names, 0)

    def _write_out(self, tree: Node | None, names: Mapping[str, Node], depth: int) -> Node | None:
        """A tree with what names and calls stand for in their place, and values in place of what numbers make."""
        if isinstance(tree, Name):
            return names.get(tree.name) or self._write_definition(
                _find_value(self.before, tree.name), self.names, depth
            )
        if not isinstance(tree, Operation):
            return tree if tree is not None and isinstance(tree.value, int) else None
        parts = [self._write_out(part, names, depth) for part in tree.args]
        trees = tuple(part for part in parts if part is not None)
        if len(trees) != len(parts):
            return None
        if tree.symbol not in OPERATIONS:
            body, arguments = self._find_macro(tree.symbol, trees)
            return self._write_definition(body, arguments, depth)
        result = Operation(tree.symbol, trees)
        if not all(isinstance(part, Constant) for part in trees):
            return result
        value = evaluate_integer(result)
        return None if value is None else Constant(value)

    def _write_definition(self, text: str | None, names: Mapping[str, Node], depth: int) -> Node | None:
        """What the text of a definition stands for; None if that is long."""
        self.definitions_left -= 1
        if text is None or depth >= _MOST_DEPTH or self.definitions_left < 0:
            return None
        tree = self._write_out(parse_arithmetic(text), names, depth + 1)
        return tree if tree is not None and len([*islice(iterate_names(tree), _MOST_NAMES)]) < _MOST_NAMES else None

    def _find_macro(self, name: str, arguments: tuple[Node, ...]) -> tuple[str | None, Mapping[str, Node]]:
        """The text of a macro with parameters, such as DIVUP of `DIVUP(n, 256)`, and what names stand for in it."""
        macro = re.search(rf"#[ \t]*define[ \t]+{re.escape(name)}\(([^()]*)\)[ \t]*(\S.*)", self.before)
        parameters = [parameter.strip() for parameter in macro[1].split(",")] if macro else []
        if macro is None or len(parameters) != len(arguments):
            return None, {}
        return macro[2], {**self.names, **dict(zip(parameters, arguments, strict=True))}


def _find_launches(code: str, kernel: str) -> Iterator[_LaunchCall]:
    """The launches of a kernel."""
    name = re.escape(kernel)
    for match in re.finditer(rf"\b{name}\s*(?:<[^;{{}}]*?>\s*)?<<<", code):
        shape = _split_list(code, match.end(), ">>>")
        behind = code.find(">>>", match.end()) + 3
        opening = re.compile(r"\s*\(").match(code, behind)
        arguments = _split_list(code, opening.end(), ")") if opening else []
        if len(shape) > 1:
            yield _LaunchCall(shape[0], shape[1], tuple(arguments), match.start())
    for match in _LAUNCH_CALL.finditer(code):
        arguments = _split_list(code, match.end(), ")")
        if len(arguments) > 2 and re.search(rf"\b{name}\b", arguments[0]):
            yield _LaunchCall(arguments[1], arguments[2], tuple(arguments[5:]), match.start())


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
    numbers = [_Definitions(before).read_number(part) for part in _split_shape(before, expression)]
    sides = [number for number in numbers if number is not None]
    if len(sides) != len(numbers) or not 1 <= len(sides) <= 3:
        return None
    sides += [1, 1]
    return sides[0], sides[1], sides[2]


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
