"""The lines of a text that include files, found without parsing it."""

from __future__ import annotations

import re
from collections.abc import Callable

from hipsynth.source.outline import blank_opaque

BYTE_ORDER_MARK = "\ufeff"  # which editors put before a text; clang skips it there
INCLUDE = re.compile(rf"^{BYTE_ORDER_MARK}?[ \t]*#[ \t]*include\b", re.MULTILINE)  # also of a macro's file
REST_OF_LINE = (
    r"(?:/\*(?:[^*\n]|\*(?!/))*\*/|//[^\n]*|(?!/[*/])[^\n])*"  # up to a comment that goes on in the next line
)
INCLUDE_LINE = re.compile(
    rf'^{BYTE_ORDER_MARK}?[ \t]*#[ \t]*include[ \t]*(?P<mark>["<])(?P<name>[^">\n]+)[">]{REST_OF_LINE}', re.MULTILINE
)
PRAGMA_ONCE_LINE = re.compile(rf"^[ \t]*#[ \t]*pragma[ \t]+once\b{REST_OF_LINE}", re.MULTILINE)
_DEFINITION = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)([^\n]*)", re.MULTILINE)
_GUARD = re.compile(
    rb"^[ \t]*#[ \t]*(?:pragma[ \t]+once\b|ifndef[ \t]+(\w+)\s*#[ \t]*define[ \t]+\1[ \t]*\r?$)", re.MULTILINE
)
FIRST_LINE = "#line 1\n"  # what follows keeps its numbers
RUNTIME_HEADER = f"#include <hip/hip_runtime.h>\n{FIRST_LINE}"


def include_runtime(text: str) -> str:
    """The text, with HIP's header in front if it includes nothing; its lines keep their numbers."""
    return text if INCLUDE.search(text) else RUNTIME_HEADER + text.removeprefix(BYTE_ORDER_MARK)


def included_names(text: str) -> list[tuple[bool, str]]:
    """(written with quotes, name) of each file that a text includes, in its order."""
    return [(match["mark"] == '"', match["name"]) for match in INCLUDE_LINE.finditer(text)]


def replace_includes(text: str, write_line: Callable[[re.Match[str]], str]) -> str:
    """The text with something in place of each match of INCLUDE_LINE that is a directive: not in a comment or text."""
    bare = blank_opaque(text)
    return INCLUDE_LINE.sub(
        lambda match: write_line(match) if bare[text.index("#", match.start())] == "#" else match[0], text
    )


def ends_line(match: re.Match[str] | re.Match[bytes]) -> bool:
    """Whether a match ends where its line does, not at a comment that goes on in the next one."""
    return match.string[match.end() : match.end() + 1] in ("", "\n", b"", b"\n")


def guards_itself(source: bytes) -> bool:
    """Whether a header's text is read once, however often it is included."""
    return _GUARD.search(source) is not None


def macro_definitions(source: bytes) -> dict[bytes, bytes]:
    """Macro -> its last definition, without spaces around it; no matter whether #if leaves it out."""
    return {match[1]: match[2].strip() for match in _DEFINITION.finditer(source)}


def includes_own_files(text: str) -> bool:
    """Whether a text includes a file by its name in quotes, as those in the program's own folder are."""
    return any(quoted for quoted, _ in included_names(text))
