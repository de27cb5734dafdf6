"""C++ functions of the simulator stay short enough to read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NATIVE = Path(__file__).resolve().parents[2] / "simulator" / "native"
MAX_FUNCTION_LINES = 70

_NOT_CODE = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | R"\(.*?\)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' | ^[ \t]*\#(?:\\\n|[^\n])*""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
# What stands before the brace of a function's body: parameters or the last member initialiser, then qualifiers.
_HEAD = re.compile(r"\)\s*(?:(?:const|noexcept|override|final|mutable)\s*)*(?:->[^{};]*)?$")


def blanked(text: str) -> str:
    """C++ with comments, literals and directives replaced by blanks; lines stay where they are."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def functions(text: str) -> Iterator[tuple[int, int]]:
    """First line and length in lines of every outermost function, from its signature to its closing brace."""
    text = blanked(text)
    open_braces: list[int | None] = []  # first line of a function; None: of a namespace, class or initialiser
    start = 0  # of the text that leads to the next brace
    for match in re.finditer(r"[{};]", text):
        if match[0] == "{":
            head = text[start : match.start()]
            line = text.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
            open_braces.append(line if _HEAD.search(head.rstrip()) else None)
        elif match[0] == "}" and open_braces:
            first = open_braces.pop()
            if first is not None and not any(open_braces):
                yield first, text.count("\n", 0, match.start()) + 2 - first
        start = match.end()


def long_functions(text: str) -> list[str]:
    return [f"line {line}: {length} lines" for line, length in functions(text) if length > MAX_FUNCTION_LINES]


def test_functions_are_short() -> None:
    sources = [path for path in sorted(NATIVE.rglob("*")) if path.suffix in (".cpp", ".h")]
    assert len(sources) > 100
    found = {path.relative_to(NATIVE).as_posix(): long_functions(path.read_text()) for path in sources}
    long = {name: lines for name, lines in found.items() if lines}
    assert not long, long


def test_a_long_function_is_found() -> None:
    body = "  if (a) {\n    b('{', \"}\");  // }\n  }\n" * 23
    exactly = f"namespace n {{\nstruct S {{\n  S() : a_{{1}}, b_(2) {{}}\n}};\nint f(int a) const {{\n{body}}}\n}}\n"
    assert [length for _, length in functions(exactly)] == [1, 71]
    assert long_functions(exactly) == ["line 5: 71 lines"]
    assert not long_functions(exactly.replace("  }\n}\n}", "  }}\n}"))


def test_every_function_of_a_known_file_is_seen() -> None:
    text = (NATIVE / "core" / "waits.cpp").read_text()
    assert len(list(functions(text))) == 3
