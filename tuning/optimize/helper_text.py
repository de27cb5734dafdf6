"""Functions and structures that changed kernels call: those of them that are used, with names that are free."""

from __future__ import annotations

import re

from hipsynth.source.outline import outline_macros

_DEFINITION_END = re.compile(r"(?<=\n}\n)|(?<=\n};\n)")
_DEFINED = re.compile(r"^(?:struct (\w+) \{|__device__ __forceinline__ \w+ (\w+)\()", re.M)
_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENT_LINE = re.compile(rb"(?:^|\n)([ \t]*//[^\n]*\n)\Z")


def find_head(text: bytes, start: int) -> int:
    """Where the lines of comment right above a definition begin; its own beginning without any."""
    while (match := _COMMENT_LINE.search(text[:start])) is not None:
        start = match.start(1)
    return start


def select_helpers(helpers: str, used: str, program: str) -> str:
    """The definitions among `helpers` that the text `used` names, or that these name; their own names are none of the
    program's macros, such as N."""
    needed: list[str] = []
    for piece in reversed(_DEFINITION_END.split(helpers)):
        name = _DEFINED.search(piece)
        if name is None or re.search(rf"\b{name[1] or name[2]}\b", " ".join([used, *needed])):
            needed.insert(0, piece)
    macros = {macro.name for macro in outline_macros(program)}
    return _WORD.sub(lambda word: f"{word[0]}_own" if word[0] in macros else word[0], "".join(needed))
