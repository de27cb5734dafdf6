"""The text of an open document, edited line by line: the cost of an edit depends on its own size, not on the
document's."""

from __future__ import annotations

import re

from lsprotocol import types
from pygls.workspace import PositionCodec

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r|\Z)")  # the protocol's ends of lines; str.splitlines knows others, too


def split_lines(text: str) -> list[str]:
    """The lines with their ends. The last one has none; it is empty if the text ends with an end of line."""
    lines: list[str] = _LINE.findall(text)
    if len(lines) > 1 and not lines[-2].endswith(("\r", "\n")):
        lines.pop()  # the empty match behind the last line
    return lines


class TextBuffer:
    """Lines as of `split_lines`. `text` is put together when it is asked for after an edit, and then kept."""

    def __init__(self, text: str) -> None:
        self._lines = split_lines(text)
        self._text: str | None = text

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._lines)
        return self._text

    def apply(self, change: types.TextDocumentContentChangeEvent, codec: PositionCodec) -> None:
        """Makes one change of a `didChange`. `codec` knows the client's units of columns; places beyond the end of a
        line or of the text mean that end."""
        if isinstance(change, types.TextDocumentContentChangeWholeDocument):
            self._lines, self._text = split_lines(change.text), change.text
            return
        ends = (self._locate_position(position, codec) for position in (change.range.start, change.range.end))
        (first, start), (last, end) = sorted(ends)
        touched = self._lines[first][:start] + change.text + self._lines[last][end:]
        if first > 0 and self._lines[first - 1].endswith("\r"):
            first -= 1  # a line feed that comes to lie behind it belongs to it
            touched = self._lines[first] + touched
        fresh = split_lines(touched)
        if last < len(self._lines) - 1:
            fresh.pop()  # the line after the touched ones is there already
        self._lines[first : last + 1] = fresh
        self._text = None

    def _locate_position(self, position: types.Position, codec: PositionCodec) -> tuple[int, int]:
        """Line and character, counted from 0, of a client's position."""
        if position.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        content = self._lines[position.line].rstrip("\r\n")
        if content.isascii():
            return position.line, min(position.character, len(content))
        units = 0
        for at, character in enumerate(content):
            if units >= position.character:
                return position.line, at
            units += codec.client_num_units(character)
        return position.line, len(content)
