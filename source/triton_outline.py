"""Where the Triton kernels of a Python text are, also of one that is half written."""

from __future__ import annotations

import re
from dataclasses import dataclass

_JIT = re.compile(r"^([ \t]*)@(?:\w+\.)*jit\b", re.MULTILINE)
_FUNCTION = re.compile(r"^([ \t]*)def[ \t]+(\w+)", re.MULTILINE)
_STATEMENT = re.compile(r"^([ \t]*)(?=[\w@#\"'])", re.MULTILINE)  # no line that closes a bracket
_CALL = re.compile(r"(?<![\w.])(\w+)[ \t]*\(")


@dataclass(frozen=True)
class JitOutline:
    """A function with a `jit` decorator: where its name begins, and where its last line ends, in characters."""

    name: str
    name_start: int
    end: int


def outline_jit_kernels(text: str) -> list[JitOutline]:
    """The kernels that a text defines or begins to define, in source order. A `jit` function that another one calls,
    and that is never launched, is none."""
    functions = _outline_functions(text)
    called: set[str] = set()
    for function in functions:
        called |= set(_CALL.findall(text, function.name_start, function.end)) - {function.name}
    return [
        function
        for function in functions
        if function.name not in called or re.search(rf"(?<!\w){re.escape(function.name)}[ \t]*\[", text)
    ]


def _outline_functions(text: str) -> list[JitOutline]:
    functions: list[JitOutline] = []
    for decorator in _JIT.finditer(text):
        function = _FUNCTION.search(text, decorator.end())
        if function is None or function[1] != decorator[1]:
            continue
        if functions and functions[-1].name_start == function.start(2):
            continue  # with two such decorators
        functions.append(JitOutline(function[2], function.start(2), _find_end(text, function)))
    return functions


def _find_end(text: str, function: re.Match[str]) -> int:
    """The end of the last line before a statement that is indented no further than the function."""
    for statement in _STATEMENT.finditer(text, function.end()):
        if len(statement[1].expandtabs()) <= len(function[1].expandtabs()):
            return len(text[: statement.start()].rstrip())
    return len(text.rstrip())
