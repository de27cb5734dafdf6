"""Edits: one engine applies them; overlap is an error."""

from __future__ import annotations

import pytest

from hipsynth.source.edits import Edit, EditConflict, apply_edits


def test_replacement_insertion_and_deletion() -> None:
    edits = [Edit(6, 11, "there"), Edit(0, 0, ">"), Edit(5, 6, "")]
    assert apply_edits(b"hello world", edits) == b">hellothere"


def test_positions_are_bytes_not_characters() -> None:
    source = "é = a;".encode()
    assert apply_edits(source, [Edit(5, 6, "ü")]).decode() == "é = ü;"


def test_equal_edits_count_once() -> None:
    assert apply_edits(b"abc", [Edit(1, 2, "x"), Edit(1, 2, "x")]) == b"axc"


@pytest.mark.parametrize(
    "edits",
    [
        [Edit(0, 2, "x"), Edit(1, 3, "y")],
        [Edit(1, 2, "x"), Edit(1, 2, "y")],
        [Edit(2, 9, "x")],
        [Edit(2, 1, "x")],
        [Edit(-1, 1, "x")],
    ],
)
def test_conflicts_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(EditConflict):
        apply_edits(b"abc", edits)
