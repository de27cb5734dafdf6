"""A text made of several files, which knows from where each part of it comes."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from hipsynth.source.encoding import BOM

Chain = tuple[tuple[str, int], ...]  # (file, offset) of include directives, outermost first


@dataclass(frozen=True)
class Place:
    """An offset in a file, and the include directives through which the file was entered."""

    chain: Chain
    file: str
    offset: int


@dataclass(frozen=True)
class InlinedPiece:
    """From the offset `start` on, the text is that of a file, from `place` on."""

    start: int
    place: Place


@dataclass(frozen=True)
class InlinedText:
    """The text of a file with others in it, and its pieces in order."""

    text: bytes
    pieces: tuple[InlinedPiece, ...]

    def find_place(self, offset: int) -> Place:
        """Where a part of the text comes from."""
        piece = self.pieces[bisect_right(self.pieces, offset, key=lambda p: p.start) - 1]
        return Place(piece.place.chain, piece.place.file, piece.place.offset + offset - piece.start)


def join_pieces(
    name: str, chain: Chain, text: bytes, parts: Iterable[tuple[int, int, int, InlinedText | None]]
) -> InlinedText:
    """The text of a file after edits, in order: the bytes [start, end) of the file gave way to `size` bytes, those of
    another file's text if there is one."""
    file = os.path.normpath(name)
    pieces = [InlinedPiece(0, Place(chain, file, 0))]
    shift = 0
    for start, end, size, inner in parts:
        if inner is not None:
            skipped = len(BOM) if inner.text.startswith(BOM) else 0
            for piece in inner.pieces:
                late = max(0, skipped - piece.start)
                place = Place(piece.place.chain, piece.place.file, piece.place.offset + late)
                pieces.append(InlinedPiece(start + shift + piece.start + late - skipped, place))
        shift += size - (end - start)
        pieces.append(InlinedPiece(end + shift, Place(chain, file, end)))
    return InlinedText(text, tuple(pieces))
