"""Names and heads of the functions that changed programs define."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hipsynth.source import layout

_OPERAND = re.compile(r"[\w.]+(?:\[[^][]*\]|\([^()]*\))*")
COLUMNS = layout.COLUMNS - 4  # of a line, without what closes it


def choose_free_name(name: str, taken: Mapping[str, str] | str) -> str:
    """A name that does not occur in `taken`."""
    words = set(re.findall(r"\w+", taken)) if isinstance(taken, str) else taken
    candidate, number = name, 2
    while candidate in words:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def bracket_operand(expression: str) -> str:
    """An expression as an operand: in brackets unless it is a number, a name, an element or a call."""
    return expression if _OPERAND.fullmatch(expression) else f"({expression})"


def wrap_parameters(head: str, parameters: Iterable[str]) -> str:
    """A function's head up to its opening parenthesis with its parameters, in lines below each other, and the closing
    one."""
    indent = " " * len(head.rpartition("\n")[2])
    lines = [head]
    for number, parameter in enumerate(parameters):
        if number and len(lines[-1].rpartition("\n")[2]) + len(parameter) > COLUMNS:
            lines.append(indent)
        lines[-1] += f"{parameter}, "
    return "\n".join(line.rstrip() for line in lines).removesuffix(",") + ")"
