"""The numbers of a launch's shape, as the source writes them."""

from __future__ import annotations

import re

from hipsynth.source.arithmetic import evaluate_integer, parse_arithmetic
from hipsynth.tuning.optimize.transformation_plan import AXES, Shape

_CAPPED = re.compile(r"std::min<unsigned>\((.*), \d+\)")
_NUMBER = re.compile(r"(?:(?<!\w)\(|[\w\s+*/%.)-])*")  # an expression without a call


def read_shape_component(text: str, shape: str, axis: int) -> str:
    """The expression of a shape along an axis in a program's text."""
    if re.fullmatch(r"\w+", shape) and is_dim3_variable(text, shape):
        return f"{shape}.{AXES[axis]}"
    parts = _split_dim3(shape)
    if parts is not None:
        return parts[axis] if axis < len(parts) else "1"
    if _NUMBER.fullmatch(shape) and not any(
        is_dim3_variable(text, name) for name in re.findall(r"[a-zA-Z_]\w*", shape)
    ):
        return shape if axis == 0 else "1"
    return f"dim3({shape}).{AXES[axis]}"


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


def cap_groups(text: str, grid: str, most: int) -> str:
    """The grid of a launch in a program's text with at most so many groups along x; another cap goes."""
    grid = grid.strip()
    parts = (
        [grid, "1", "1"] if _CAPPED.fullmatch(grid) else [read_shape_component(text, grid, axis) for axis in range(3)]
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


def is_dim3_variable(text: str, name: str) -> bool:
    """Whether a program declares a dim3 of this name."""
    return any(name in _declared_names(text[match.end() :]) for match in re.finditer(r"\bdim3\s+(?=\w)", text))


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
