"""Finds the kernels of a source text, also while it is being edited and does not compile."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Comments and literals, whose contents may hold any words and braces.
_OPAQUE = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_ATTRIBUTE = re.compile(r"__(?:launch_bounds|attribute)__\s*\((?:[^()]|\([^()]*\))*\)+")
_KERNEL = re.compile(r"\b__global__\b([^;{(]*?)\b(\w+)\s*\(")


@dataclass(frozen=True)
class Kernel:
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


def kernels(text: str) -> list[Kernel]:
    """The kernels that a source defines or begins to define, in source order; declarations are left out."""
    code = blanked(text)
    code = _ATTRIBUTE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), code)
    found = []
    for match in _KERNEL.finditer(code):
        end = _end(code, match.end())
        if end is None:
            continue
        name = match.start(2)
        line = code.count("\n", 0, name)
        column = name - (code.rfind("\n", 0, name) + 1)
        found.append(Kernel(match[2], line, column, code.count("\n", 0, end)))
    return found


def _end(code: str, at: int) -> int | None:
    """Where the body that follows a parameter list from `at` ends; None for a declaration."""
    brace, semicolon = code.find("{", at), code.find(";", at)
    if semicolon >= 0 and (brace < 0 or semicolon < brace):
        return None
    if brace < 0:
        return len(code) if semicolon < 0 else None
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, brace):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(code)
