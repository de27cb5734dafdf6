"""Is the report on instructions fresh, and does every test that it names exist?"""

from __future__ import annotations

import re
from pathlib import Path

from hipsynth.simulator.isa.coverage import OF_THEIR_OWN, REPORT, full_coverage, render_report
from hipsynth.simulator.isa.table import load_rows

TESTS = Path(__file__).parents[2] / "differential"


def test_the_report_is_fresh() -> None:
    assert REPORT.read_text() == render_report(), "run `python -m hipsynth.simulator.isa.coverage --write`"


def test_every_test_that_is_named_exists() -> None:
    missing = []
    for place in {entry.test for entry in full_coverage() if entry.state == "executes"}:
        file, _, function = place.partition("::")
        text = (TESTS / file).read_text()
        if function and f"def {function}(" not in text:
            missing.append(place)
    assert missing == []


def test_every_pattern_of_names_has_an_opcode() -> None:
    names = [row.name for row in load_rows()]
    assert [pattern for pattern in OF_THEIR_OWN if not any(re.fullmatch(pattern, name) for name in names)] == []


def test_rejected_opcodes_have_a_reason() -> None:
    refused = [entry for entry in full_coverage() if entry.state == "refused"]
    assert refused and all(entry.reason for entry in refused)
