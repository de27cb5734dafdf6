"""Edits as data: a pass returns them, one engine applies them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hipsynth.synth.core.errors import HipsynthError


class EditConflict(HipsynthError):
    """Two edits claim the same bytes, or an edit lies outside the text: a defect of the pass that made them."""

    reason = "edit_conflict"


@dataclass(frozen=True, order=True)
class Edit:
    """Replace bytes [start, end) of one file by `text`; start == end inserts."""

    start: int
    end: int
    text: str


def apply_edits(source: bytes, edits: Iterable[Edit]) -> bytes:
    """The source with all edits applied; positions refer to the unedited bytes.

    Identical edits count once. Raises EditConflict on overlap, on two different insertions at one place,
    and on positions outside the source.
    """
    pieces: list[bytes] = []
    position = 0
    previous: Edit | None = None
    for edit in sorted(set(edits)):
        if not 0 <= edit.start <= edit.end <= len(source):
            raise EditConflict(f"edit [{edit.start}, {edit.end}) lies outside a text of {len(source)} bytes")
        same_place = previous is not None and edit.start == previous.start
        if edit.start < position or same_place:
            raise EditConflict(f"edits overlap: {previous} and {edit}")
        pieces += [source[position : edit.start], edit.text.encode()]
        position = edit.end
        previous = edit
    pieces.append(source[position:])
    return b"".join(pieces)
