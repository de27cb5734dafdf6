"""The headers of a program's own folders, written into its text for whatever looks at one text alone, and taken out."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.files import SOURCE_BYTES, leads_to_file, read_regular
from hipsynth.core.folders import is_includable
from hipsynth.source.includes import PRAGMA_ONCE_LINE, ends_line, replace_includes

_BEGIN, _END = "// own header {} begins: {}", "// own header {} ends"  # a checksum; the line that includes it
_BEFORE_COMMENT = ", before:\n"  # after _END, where the line goes on with a comment of several lines
_WRITTEN_IN = re.compile(
    r"^// own header (?P<sum>[0-9a-f]{8}) begins: (?P<line>[^\n]*)\n(?P<header>.*?)\n// own header (?P=sum) ends"
    rf"(?:{_BEFORE_COMMENT}|$)",
    re.MULTILINE | re.DOTALL,
)
_BEGIN_LINE = re.compile(r'// own header [0-9a-f]{8} begins: .*?["<](?P<name>[^">]+).*')
_END_LINE = re.compile(r"// own header [0-9a-f]{8} ends(?P<more>, before:)?")
_GUARD = "HIPSYNTH_OWN_HEADER_"
MOST_HEADERS = 400  # that are written in


def write_in_headers(text: str, folder: Path, include_folders: Sequence[Path] = ()) -> str:
    """A text with each header that lies in `folder` or an include folder in place of the line that includes it, between
    marks; a header that says `#pragma once` gets a guard. What is found nowhere, or outside of these folders, stays as
    it is: the text may be anybody's. Of a folder that holds more than a program, only headers right in it count.

    Raises BadInput for a header that cannot be read, or is too large.
    """
    return _HeaderWriter(folder, tuple(include_folders)).write_in(text, folder, ())


def list_headers(text: str, folder: Path, include_folders: Sequence[Path] = ()) -> list[Path]:
    """The files that write_in_headers() would write in. Raises what it does."""
    writer = _HeaderWriter(folder, tuple(include_folders))
    writer.write_in(text, folder, ())
    return list(writer.paths)


def take_out_headers(text: str) -> str:
    """A text whose headers were written in, with the lines that include them instead; headers that were changed since
    stay written in."""

    def replace_header(match: re.Match[str]) -> str:
        return match["line"] if _checksum(match["header"]) == match["sum"] else match[0]

    return _WRITTEN_IN.sub(replace_header, text)


def find_line(text: str, line: int) -> tuple[str, int]:
    """Where a line of a text with headers written in stands: the header's name as it is included, "" for the text
    itself, and the line there, both from 1."""
    names, numbers = [""], [0]  # of the text, and of the headers that the line is in
    for row in text.split("\n")[:line]:  # as a compiler counts lines: not at form feeds
        ends = _END_LINE.fullmatch(row)
        if ends and len(names) > 1:
            names.pop()
            numbers.pop()
            numbers[-1] -= bool(ends["more"])  # what follows is the rest of the line that includes the header
        elif not row.startswith((f"#ifndef {_GUARD}", f"#define {_GUARD}")):  # of `#pragma once` an empty line is left
            numbers[-1] += 1
        begins = _BEGIN_LINE.fullmatch(row)
        if begins:
            names.append(begins["name"])
            numbers.append(0)
    return names[-1], max(1, numbers[-1])


def _checksum(header: str) -> str:
    return f"{zlib.crc32(header.encode()):08x}"


class _HeaderWriter:
    def __init__(self, folder: Path, include_folders: tuple[Path, ...]) -> None:
        self.include_folders = include_folders
        self.roots = [root.resolve() for root in (folder, *include_folders)]
        self.guards: dict[Path, str] = {}  # of headers that say `#pragma once`
        self.written = 0
        self.paths: dict[Path, None] = {}

    def write_in(self, text: str, folder: Path, inside: tuple[Path, ...]) -> str:
        """`inside`: the headers that the text lies in; one that includes itself is left out there."""

        def replace_line(match: re.Match[str]) -> str:
            path = self._find_header(match["name"], folder)
            if path is None or path in inside or self.written >= MOST_HEADERS:
                return match[0]
            self.written += 1
            self.paths[path] = None
            header = self._guard_header(path, read_regular(path, SOURCE_BYTES).decode(errors="replace"))
            header = self.write_in(header, path.parent, (*inside, path)).rstrip()
            checksum = _checksum(header)
            end = _END.format(checksum) + ("" if ends_line(match) else _BEFORE_COMMENT)
            return f"{_BEGIN.format(checksum, match[0])}\n{header}\n{end}"

        return replace_includes(text, replace_line)

    def _guard_header(self, path: Path, header: str) -> str:
        """A header's text with a guard in place of `#pragma once`, which does not work inside another file."""
        if not PRAGMA_ONCE_LINE.search(header):
            return header
        guard = self.guards.setdefault(path, f"{_GUARD}{len(self.guards)}")
        return f"#ifndef {guard}\n#define {guard}\n{PRAGMA_ONCE_LINE.sub('', header).rstrip()}\n#endif"

    def _find_header(self, name: str, folder: Path) -> Path | None:
        for place in (folder, *self.include_folders):
            path = Path(os.path.normpath(place / name))
            if self._is_own(path.resolve()) and leads_to_file(path):
                return path
        return None

    def _is_own(self, path: Path) -> bool:
        return any(is_includable(path, root) for root in self.roots)
