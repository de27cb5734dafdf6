"""Widths of intervals are measured on other programs than those that the study compares."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import BadInput
from studies.half_written import MEASURED, TESTED, choose_programs


def test_the_parts_have_no_common_program() -> None:
    tested, measured = choose_programs(60, TESTED), choose_programs(100, MEASURED)
    assert (len(tested), len(measured)) == (60, 100)
    assert {text for _, text in tested}.isdisjoint(text for _, text in measured)
    assert tested == choose_programs(60, TESTED)


def test_a_part_with_too_few_programs_is_refused() -> None:
    with pytest.raises(BadInput, match="where a part has"):
        choose_programs(1000, TESTED)
