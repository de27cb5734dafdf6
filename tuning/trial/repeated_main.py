"""A program whose main() is called twice in one process, as a library's functions are."""

from __future__ import annotations

import re

from hipsynth.source.outline import blank_opaque, find_closing_bracket

_MAIN = re.compile(r"\b(?:int|auto|signed)\s+(main)\s*\([^;{]*\)\s*(?:->\s*int\s*)?(\{)")
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
    code = blank_opaque(text)
    main = _MAIN.search(code)
    close = find_closing_bracket(code, main.start(2)) if main else len(code)
    if main is None or close == len(code):
        return ""
    body = text[main.end(1) : close]
    return f"{text[: main.start(1)]}{_NAME}{body}  return 0;\n{text[close:]}\n{_TWICE}"
