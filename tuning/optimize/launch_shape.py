"""The numbers of a launch's shape, as the source writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hipsynth.source.arithmetic import evaluate_integer, parse_arithmetic
from hipsynth.source.entities import Entity
from hipsynth.source.tokens import find_closing, text_between
from hipsynth.tuning.optimize.analysis.program_constants import find_constants
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.references import find_lent
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

_NUMBER_WORDS = frozenset({
    "int", "unsigned", "long", "short", "size_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "const", "sizeof",
    "static_cast", "std", "min", "max",
})  # fmt: skip
_NUMBER_TYPE = re.compile(r"\b(?:int|unsigned|long|short|size_t|u?int(?:32|64)_t)\s*$")
_NUMBERS = frozenset({"constant", "value parameter"})
_CHANGES = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "|=", "&=", "^=", "++", "--"})
_CAPPED = re.compile(r"std::min<unsigned>\((.*), \d+\)")
_NUMBER = re.compile(r"(?:(?<!\w)\(|[\w\s+*/%.)-])*")  # an expression without a call


def read_shape_component(program: ParsedProgram, shape: str, axis: int) -> str:
    """The expression of a shape of a program along an axis."""
    if re.fullmatch(r"\w+", shape) and is_dim3_variable(program, shape):
        return f"{shape}.{AXES[axis]}"
    parts = _split_dim3(shape)
    if parts is not None:
        return parts[axis] if axis < len(parts) else "1"
    if _NUMBER.fullmatch(shape) and all(is_number(program, name) for name in list_names(shape)):
        return shape if axis == 0 else "1"
    return f"dim3({shape}).{AXES[axis]}"


def has_one_along(program: ParsedProgram, shape: str, axis: int) -> bool:
    """Whether the source shows that a shape counts one along an axis, also by the values of its variables."""
    if axis and all(is_number(program, name) for name in list_names(shape)):
        return True
    component = read_shape_component(program, shape.strip(), axis)
    if component.strip(" ()").rstrip("uU") == "1" or find_constants(program).get(component) == 1:
        return True
    name = component.removesuffix(f".{AXES[axis]}").removeprefix("dim3").strip("()")
    if component == name or not re.fullmatch(r"\w+", name):
        return False
    values = _list_shape_values(program, name)
    return bool(values) and all(value != name and has_one_along(program, value, axis) for value in values)


def has_one_group(program: ParsedProgram, kernel: KernelDefinition, axes: Iterable[int]) -> bool:
    """Whether the source shows that all launches of a kernel have one group along each of these axes."""
    return all(has_one_along(program, launch.grid, axis) for launch in kernel.launches for axis in axes)


def has_flat_launches(program: ParsedProgram, kernel: KernelDefinition) -> bool:
    """Whether the source shows that all launches of a kernel have groups and work-items along x alone."""
    shapes = [shape for launch in kernel.launches for shape in (launch.grid, launch.block)]
    return all(has_one_along(program, shape, axis) for shape in shapes for axis in (1, 2))


def _list_shape_values(program: ParsedProgram, name: str) -> list[str]:
    """The values of the variables of this name, each `dim3(...)`; [] if one has no such value, or may change later."""
    tokens, values = program.tokens, []
    named = [i for i, token in enumerate(tokens) if token.text == name and tokens[i - 1].text not in (".", "->")]
    declared = [i for i in named if program.declares_name(i)]
    lent = find_lent(program, (1, len(tokens) - 2), {tokens[i].start for i in declared})
    if any(i in lent or _is_changed(program, i) for i in named if i not in declared):
        return []
    for i in declared:
        opening = i + 1 + (tokens[i + 1].text == "=")
        opening += tokens[opening].text == "dim3"
        if tokens[opening].text not in ("(", "{") or tokens[i - 1].text == "&":
            return []
        inside = text_between(program.unit, tokens, opening + 1, find_closing(tokens, opening))
        values.append(f"dim3({inside})")
    return values


def _is_changed(program: ParsedProgram, at: int) -> bool:
    """Whether a token names a variable of which an address is taken, or that is assigned itself or in a member."""
    tokens = program.tokens
    behind = at + (3 if tokens[at + 1].text == "." else 1)
    changes = {tokens[behind].text, tokens[at - 1].text} & _CHANGES
    return bool(changes) or (tokens[at - 1].text == "&" and tokens[at - 2].text in ("(", ",", "="))


def read_numbers(shape: str) -> Shape | None:
    """A launch's shape whose numbers the source has; None for other expressions."""
    parts = _split_dim3(shape.strip()) or [shape]
    numbers = [evaluate_integer(parse_arithmetic(part)) for part in parts]
    sides = [number for number in numbers if number is not None]
    if len(sides) != len(numbers) or len(sides) > 3:
        return None
    x, y, z = [*sides, 1, 1][:3]
    return x, y, z


def write_dim3(shape: str) -> str:
    """A launch's shape, which may be one number, as a dim3."""
    return shape if shape.startswith("dim3(") else f"dim3({shape})"


def cap_groups(program: ParsedProgram, grid: str, most: int) -> str:
    """The grid of a launch with at most so many groups along x; another cap goes."""
    grid = grid.strip()
    parts = (
        [grid, "1", "1"]
        if _CAPPED.fullmatch(grid)
        else [read_shape_component(program, grid, axis) for axis in range(3)]
    )
    capped = _CAPPED.fullmatch(parts[0])
    groups = f"std::min<unsigned>({parts[0] if capped is None else capped[1]}, {most})"
    if parts[1:] != ["1", "1"]:
        return f"dim3({', '.join([groups, *parts[1:]])})"
    return f"dim3({groups})" if grid.startswith("dim3") else groups


def _split_dim3(shape: str) -> list[str] | None:
    """The numbers in `dim3(...)`; None for other expressions."""
    if not shape.startswith("dim3(") or not shape.endswith(")"):
        return None
    parts, depth = [""], 0
    for sign in shape[len("dim3(") : -1]:
        depth += (sign in "([{") - (sign in ")]}")
        if depth < 0:
            return None
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def list_names(shape: str) -> list[str]:
    """The names in the expression of a shape; of members the last one."""
    return re.findall(r"(?<!\w)[a-zA-Z_]\w*\b(?!\s*(?:\.|->|::))", shape)


def is_dim3_variable(program: ParsedProgram, name: str) -> bool:
    """Whether a program declares a dim3 of this name."""
    text = program.text
    return any(name in _declared_names(text[match.end() :]) for match in re.finditer(r"\bdim3\s+(?=\w)", text))


def is_number(program: ParsedProgram, name: str) -> bool:
    """Whether a name in the expression of a shape stands for a number wherever host code has it: it is a keyword, a
    type, a variable or constant that is one, or a function that returns one."""
    words = program.macros.get(name)
    if words is not None:
        return all(word[0].isdigit() or (word != name and is_number(program, word)) for word in words)
    if name in _NUMBER_WORDS:
        return True
    device = [(each.start, each.end) for each in (*program.kernels, *program.functions)]
    entities = {
        entity
        for token in program.tokens
        if token.text == name and not any(start <= token.start < end for start, end in device)
        for entity in program.entities(token)
        if entity.category != "method"
    }
    return bool(entities) and all(
        entity.shape == "integer"
        or entity.category in _NUMBERS
        or (entity.category == "field" and not entity.user)
        or _returns_number(program, entity)
        for entity in entities
    )


def _returns_number(program: ParsedProgram, entity: Entity) -> bool:
    """Whether an entity is a function of the program whose type of results is written as that of numbers."""
    heads = [
        program.unit.text[function.start : function.name_start].decode(errors="surrogateescape")
        for function in program.declared
        if entity.category == "function" and entity.user and function.name == entity.name
    ]
    return bool(heads) and all(_NUMBER_TYPE.search(head) for head in heads)


def _declared_names(text: str) -> set[str]:
    """The names of a declaration whose type stands before `text`."""
    names: set[str] = set()
    depth, begins = 0, True
    for match in re.finditer(r"\w+|[(){}\[\],;]", text):
        word = match[0]
        depth += (word in "([{") - (word in ")]}")
        if depth < 0 or word == ";":
            break
        if depth == 0 and begins and word[0].isidentifier():
            names.add(word)
        begins = depth == 0 and word == ","
    return names
