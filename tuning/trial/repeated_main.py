"""A program whose main() is called twice in one process, as a library's functions are."""

from __future__ import annotations

import re

_MAIN = re.compile(r"\b(?:int|auto|signed)\s+(main)\s*\([^;{]*\)\s*(?:->\s*int\s*)?(\{)")
# What may hold braces that are none, and braces.
_PIECE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\])*\'|[{}]', re.DOTALL
)
_NAME = "first_main"
_TWICE = f"""
static int call_twice(int (*f)(), int, char**) {{ return f(), f(); }}
template <typename A>
static int call_twice(int (*f)(int, A), int count, char** words) {{ return f(count, (A)words), f(count, (A)words); }}
int main(int count, char** words) {{ return call_twice({_NAME}, count, words); }}
"""


def repeat_main(text: str) -> str:
    """The program that calls its former main() twice, and ends with the second one's exit code; "" where the text of
    main() is not found."""
    main = _MAIN.search(text)
    close = _find_closing(text, main.start(2)) if main else -1
    if main is None or close < 0:
        return ""
    body = text[main.end(1) : close]
    return f"{text[: main.start(1)]}{_NAME}{body}  return 0;\n{text[close:]}\n{_TWICE}"


def _find_closing(text: str, opening: int) -> int:
    depth = 0
    for piece in _PIECE.finditer(text, opening):
        depth += (piece[0] == "{") - (piece[0] == "}")
        if depth == 0:
            return piece.start()
    return -1
