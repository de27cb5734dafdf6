"""Text edits: a pass returns a list of them, `apply_edits` and `edit_text` apply them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hipsynth.core.errors import HipsynthError
from hipsynth.core.reasons import Reason


class EditConflict(HipsynthError):
    """Two edits overlap, or an edit lies outside the text: a bug in the pass that made them."""

    reason = Reason.EDIT_CONFLICT


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces bytes [start, end) of one file by `text`; start == end inserts.

    `text` may hold any bytes (surrogateescape).
    """

    start: int
    end: int
    text: str


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """Applies all edits; positions refer to the unedited bytes, identical edits are applied once.

    Raises EditConflict for overlapping edits, two different insertions at one position, and positions outside the
    source.
    """
    pieces: list[bytes] = []
    position = 0
    previous: Edit | None = None
    for edit in sorted(set(edits)):
        if not 0 <= edit.start <= edit.end <= len(source):
            raise EditConflict(f"edit [{edit.start}, {edit.end}) lies outside a text of {len(source)} bytes")
        same_start = previous is not None and edit.start == previous.start
        if edit.start < position or same_start:
            raise EditConflict(f"edits overlap: {previous} and {edit}")
        pieces += [source[position : edit.start], edit.text.encode(errors="surrogateescape")]
        position = edit.end
        previous = edit
    pieces.append(source[position:])
    return b"".join(pieces)


def edit_text(source: bytes, edits: Iterable[Edit]) -> str:
    """As apply_edits(); bytes that are no UTF-8 become surrogates, as a source's text has them."""
    return apply_edits(source, edits).decode(errors="surrogateescape")


def join_insertions(edits: Iterable[Edit]) -> list[Edit]:
    """Insertions at one place as one, in their order."""
    joined: dict[tuple[int, int], Edit] = {}
    for edit in edits:
        place = edit.start, edit.end
        before = joined[place].text if edit.start == edit.end and place in joined else ""
        joined[place] = Edit(edit.start, edit.end, before + edit.text)
    return list(joined.values())
