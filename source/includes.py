"""The lines of a text that include files, found without parsing it."""

from __future__ import annotations

import re

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.MULTILINE)  # also of a macro's file
INCLUDE_LINE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<mark>["<])(?P<name>[^">\n]+)[">][^\n]*$', re.MULTILINE)
PRAGMA_ONCE_LINE = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+once\b[^\n]*$", re.MULTILINE)


def included_names(text: str) -> list[tuple[bool, str]]:
    """(written with quotes, name) of each file that a text includes, in its order."""
    return [(match["mark"] == '"', match["name"]) for match in INCLUDE_LINE.finditer(text)]


def includes_own_files(text: str) -> bool:
    """Whether a text includes a file by its name in quotes, as those in the program's own folder are."""
    return any(quoted for quoted, _ in included_names(text))
