"""Applying any set of disjoint edits equals replacing one after the other from the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hipsynth.source.edits import Edit, apply_edits


@st.composite
def _cases(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    source = draw(st.binary(max_size=60))
    cuts = sorted(draw(st.sets(st.integers(0, len(source)), max_size=10)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    return source, [Edit(a, b, draw(st.text("xyzé", max_size=4))) for a, b in pairs]


@given(_cases(), st.randoms())
def test_equals_replacing_from_the_end(case: tuple[bytes, list[Edit]], random: object) -> None:
    source, edits = case
    expected = source
    for edit in sorted(edits, reverse=True):
        expected = expected[: edit.start] + edit.text.encode() + expected[edit.end :]
    random.shuffle(edits)  # type: ignore[attr-defined]
    assert apply_edits(source, edits) == expected
