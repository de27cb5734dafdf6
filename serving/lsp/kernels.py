"""Finds the kernels of a source text, also while it is being edited and does not compile."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hipsynth.serving.limits import MOST_KERNELS

# Comments and literals, whose contents may hold any words and braces. What is not closed yet ends somewhere, too: else
# each one would be searched to the end of the text.
_OPAQUE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(\w*)\(.*?(?:\)\1\"|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n]){1,10}'", re.DOTALL
)
_ATTRIBUTE = re.compile(r"__(?:launch_bounds|attribute)__\s*\((?:[^()]|\([^()]*\))*\)+")
_KERNEL = re.compile(r"\b__global__\b(?:(?!__global__)[^;{(])*?\b(\w+)\s*\(")


@dataclass(frozen=True)
class KernelOutline:
    """One kernel definition. Lines count from 0; `column`: where its name begins; `last`: the line of its end."""

    name: str
    line: int
    column: int
    last: int

    def holds(self, line: int) -> bool:
        return self.line <= line <= self.last


def blanked(text: str) -> str:
    """The text with comments and literals replaced by spaces, so that offsets and lines stay."""
    return _OPAQUE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def kernels(text: str) -> list[KernelOutline]:
    """The kernels that a source defines or begins to define, in source order; declarations are left out.

    Stops after MOST_KERNELS: lines are counted from the beginning for each.
    """
    code = blanked(text)
    code = _ATTRIBUTE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code)
    ends = _blocks(code)
    found = []
    for match in _KERNEL.finditer(code):
        end = _end(code, match.end(), ends)
        if end is None:
            continue
        name = match.start(1)
        line = code.count("\n", 0, name)
        column = name - (code.rfind("\n", 0, name) + 1)
        found.append(KernelOutline(match[1], line, column, code.count("\n", 0, end)))
        if len(found) == MOST_KERNELS:
            break
    return found


def _blocks(code: str) -> dict[int, int]:
    """Offset of an opening brace -> that of its closing one; those without one are left out."""
    found, opened = {}, []
    for match in re.finditer(r"[{}]", code):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            found[opened.pop()] = match.start()
    return found


def _end(code: str, at: int, ends: dict[int, int]) -> int | None:
    """Where the body that follows a parameter list from `at` ends; None for a declaration."""
    brace, semicolon = code.find("{", at), code.find(";", at)
    if brace < 0:
        return len(code) if semicolon < 0 else None
    if 0 <= semicolon < brace:
        return None
    return ends.get(brace, len(code))
