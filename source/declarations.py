"""Dataclasses for the functions, kernels, launches and macros of a HIP text; both readers (outline, parser) return
them.

Positions count characters in an outline (`outline.py`) and bytes in a parsed program (`program.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KERNEL_MARK = "__global__"
LAUNCH_OPEN, LAUNCH_CLOSE = "<<<", ">>>"
DEVICE_MARKS = frozenset({KERNEL_MARK, "__device__", "__shared__", "__constant__"})
# Where device code may begin, in bytes of a text.
DEVICE_CODE = re.compile(rb"\b(?:__device__|__global__)\b|__attribute__\s*\(\(\s*(?:device|global)")
_WORD = re.compile(r"\w+|::|[^\w\s]")
_DECLARATOR = re.compile(r"\(\s*[*&]\s*(\w+)\s*\)")
_NO_NAME = re.compile(
    r"const|volatile|unsigned|signed|int|long|short|char|bool|float|double|void|auto|restrict|__restrict__|half"
)


@dataclass(frozen=True)
class FunctionParameter:
    """A function's parameter: its declaration without a default value, and its name, "" if it has none."""

    text: str
    name: str

    @property
    def base(self) -> str:
        """The type that a pointer points to, without const and struct; "" for other types and volatile pointers."""
        words = _WORD.findall(self.text)
        if words.count("*") != 1 or "volatile" in words:
            return ""
        return " ".join(word for word in words[: words.index("*")] if word not in ("const", "struct"))

    @property
    def constant(self) -> bool:
        """Whether it is a pointer to const."""
        words = _WORD.findall(self.text)
        return bool(self.base) and "const" in words[: words.index("*")]

    @property
    def type(self) -> str:
        """The declaration without the name."""
        head, _, tail = self.text.rpartition(self.name) if self.name else (self.text, "", "")
        return f"{head}{tail}".strip()


def read_parameter(declaration: str) -> FunctionParameter:
    """The parameter that a text such as `const float* __restrict__ a = nullptr` declares."""
    text = declaration.partition("=")[0].strip()
    if match := _DECLARATOR.search(text):  # a pointer to a function, a reference to an array
        return FunctionParameter(text, match[1])
    words = _WORD.findall(text.partition("[")[0])
    named = len(words) > 1 and re.fullmatch(r"[A-Za-z_]\w*", words[-1]) and words[-2] != "::"
    return FunctionParameter(text, words[-1] if named and not _NO_NAME.fullmatch(words[-1]) else "")


@dataclass(frozen=True)
class FunctionDeclaration:
    """A function with a body, or one that only declares it: [start, end) with its template head and attributes.

    `body` is the range between the braces, (end, end) without one. `first`, `last`: the tokens of the body in a parsed
    program, `named`: the token of its name.
    """

    name: str
    kernel: bool
    start: int
    end: int
    name_start: int
    body: tuple[int, int]
    parameters: tuple[FunctionParameter, ...]
    template: str = ""  # "template <...>"
    template_names: tuple[str, ...] = ()
    launch_bounds: str = ""  # the arguments of __launch_bounds__
    defined: bool = True
    closed: bool = True  # False if the text ends, or goes on with something else, before the body does
    mangled: str = ""
    first: int = -1
    last: int = -1
    named: int = -1


@dataclass(frozen=True)
class LaunchExpression:
    """A launch in [start, end), without a semicolon. `kernel`: as it is spelled, without template arguments.

    `shape`: the texts of grid and block, and of LDS bytes and stream if they are given.
    """

    kernel: str
    template: str  # explicit template arguments with their brackets
    start: int
    end: int
    shape: tuple[str, ...]
    arguments: tuple[str, ...]
    chevrons: bool = True  # written with <<< >>>


@dataclass(frozen=True)
class MacroText:
    """A macro's definition in [start, end), from its name on; `parameters` is None for one without a list."""

    name: str
    parameters: tuple[str, ...] | None
    text: str
    start: int
    end: int
    text_start: int

    @property
    def words(self) -> frozenset[str]:
        """All words of its parameters and text."""
        return frozenset(re.findall(r"\w+", self.text)).union(self.parameters or ())
