"""The days of results that a page shows, and of which program they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from studies import swizzle_table
from studies.result_origin import UNKNOWN, ResultOrigin, describe_days, describe_origins, record_origin


def test_days_are_those_of_the_results() -> None:
    assert describe_days(["2026-11-30", "2026-11-30"]) == "30 November 2026"
    assert describe_days(["2026-11-28", "2026-11-03"]) == "3 to 28 November 2026"
    assert describe_days(["2026-11-28", "2026-12-03"]) == "28 November 2026 to 3 December 2026"
    assert describe_days(["", "2026-12-03"]) == "3 December 2026; the date of 1 of the 2 results is not recorded"
    assert describe_days([""]) == describe_days([]) == "Date not recorded"
    origins = [ResultOrigin("2026-11-28", tools) for tools in ("a", "b")]
    assert describe_origins(origins) == "28 November 2026; by 2 versions of the tools"


def test_an_origin_tells_another_text() -> None:
    origin = record_origin("int main() {}")
    assert origin.is_of("int main() {}") and not origin.is_of("int main() { }") and origin.day and origin.tools
    assert UNKNOWN.is_of("any text")


def test_rows_of_an_older_page_stay_without_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "swizzle.md"
    old = "| [GEMM](gemm.hip) | ceiling | 76.7 % | ~81.1 % | 24.8 | as it is | 2 | 50 | 1.03 x |"
    new = "| [SpMV](spmv.hip) | ceiling | 76.7 % | ~81.1 % | 24.8 | as it is | 2 | 50 | 1.01 x | 30 November 2026 |"
    page.write_text(f"{old}\n{new}\n")
    monkeypatch.setattr(swizzle_table, "PAGE", page)
    lines = swizzle_table.read_lines()
    assert lines["GEMM"] == f"{old}  |" and lines["SpMV"] == new
    swizzle_table.write_page(lines)
    assert page.read_text() == swizzle_table.HEAD + f"{old}  |\n{new}\n" and swizzle_table.read_lines() == lines
