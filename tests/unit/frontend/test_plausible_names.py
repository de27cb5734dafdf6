"""New names look like those that people choose: a classifier of identifiers hardly tells copies from originals."""

from __future__ import annotations

from pathlib import Path

import pytest
from name_classifier import accuracy

from hipsynth.source.edits import apply_edits
from hipsynth.source.parse import ParseConfig, ParsedUnit, parse_source
from hipsynth.synth.frontend.passes.rename import Renaming, plan_renaming
from hipsynth.synth.frontend.plausible_names import STYLES

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = [*sorted(ROOT.glob("corpus/handwritten/**/*.hip"))[::12], *sorted(ROOT.glob("tests/kernels/programs/*.hip"))]
# Measured: 0.65 to 0.73, 0.70 in the mean of eight. The table of names was counted on most of these programs too; those
# that were written since are told more easily.
MOST = 0.72


@pytest.fixture(scope="module")
def units(config: ParseConfig) -> list[ParsedUnit]:
    parsed = (parse_source(path.read_bytes(), config, path=str(path))[0] for path in PROGRAMS)
    found = [unit for unit in parsed if unit is not None and unit.has_kernel]
    assert len(found) > 50
    return found


@pytest.mark.full
def test_copies_are_hardly_told_from_originals(units: list[ParsedUnit]) -> None:
    scores = []
    for seed in (1, 2):
        pairs = [
            (unit.text.decode(), apply_edits(unit.text, plan_renaming(unit, seed).edits).decode()) for unit in units
        ]
        scores += [accuracy(pairs, seed=order) for order in (0, 1)]
    assert sum(scores) / len(scores) < MOST, scores


@pytest.mark.full
def test_the_classifier_finds_names_that_nobody_chooses(units: list[ParsedUnit]) -> None:
    pairs = [(unit.text.decode(), _numbered(unit, plan_renaming(unit, 1)).decode()) for unit in units]
    assert accuracy(pairs) > 0.9


def _numbered(unit: ParsedUnit, renaming: Renaming) -> bytes:
    numbers = {old: f"entity{number}" for number, old in enumerate(sorted(renaming.names))}
    edits = [type(e)(e.start, e.end, numbers[unit.text[e.start : e.end].decode()]) for e in renaming.edits]
    return apply_edits(unit.text, edits)


def test_copies_have_several_styles(config: ParseConfig) -> None:
    unit, _ = parse_source(PROGRAMS[0].read_bytes(), config, path=str(PROGRAMS[0]))
    assert unit is not None
    names = [" ".join(n for new in plan_renaming(unit, seed).names.values() for n in new) for seed in range(20)]
    assert len(STYLES) > 5
    assert any("_" in text for text in names) and any("_" not in text.replace("_t ", "") for text in names)
