"""The list of public Triton programs that are tried, and the page of what came of it."""

from __future__ import annotations

from pathlib import Path

from studies.triton_coverage import (
    ARCHS,
    PAGE,
    TrialResult,
    describe_coverage,
    list_programs,
    list_projects,
    read_results,
)


def test_scripts_of_ours_are_python_and_programs_are_found_below_the_sources(tmp_path: Path) -> None:
    for task in ("one", "two"):
        (tmp_path / "aka" / "tasks" / "triton2triton" / "vllm" / task).mkdir(parents=True)
    (tmp_path / "triton" / "python" / "tutorials").mkdir(parents=True)
    programs = list(list_programs(tmp_path))
    assert [program.name for program in programs[-2:]] == ["one", "two"]
    assert len({program.name for program in programs}) == len(programs) == 12
    for program in programs:
        compile(program.script, program.name, "exec")


def test_the_page_counts_what_passes_and_says_why_others_fail() -> None:
    title = list_projects()[0].title
    rows = [
        TrialResult(title, "first", "gfx942", True, ""),
        TrialResult(title, "second", "gfx942", False, "compile_failed: a|b"),
        TrialResult(title, "second", "gfx90a", True, ""),
    ]
    page = "\n".join(describe_coverage(rows))
    assert "- MI300X (gfx942): 1 of 2 pass." in page and "- MI250X (gfx90a): 1 of 1 pass." in page
    assert "| second | MI300X | compile_failed: a\\|b |" in page


def test_the_page_is_that_of_the_recorded_results() -> None:
    results = read_results()
    titles = {project.title for project in list_projects()}
    assert {row.project for row in results.values()} <= titles and {row.arch for row in results.values()} <= set(ARCHS)
    recorded, page = "\n".join(describe_coverage(list(results.values()))), PAGE.read_text()
    assert page.partition("## ")[2] == recorded.partition("## ")[2], "python -m studies.triton_coverage"


def test_the_page_has_the_versions_and_days_of_its_results() -> None:
    title = list_projects()[0].title
    rows = [
        TrialResult(title, "first", "gfx942", True, "", "2026-11-26", "triton 3.8.0, torch 2.13.0"),
        TrialResult(title, "second", "gfx942", True, "", "2026-11-28", "triton 3.8.0, torch 2.13.0"),
    ]
    page = "\n".join(describe_coverage(rows))
    assert "with triton 3.8.0, torch 2.13.0;" in page and "decides. 26 to 28 November 2026." in page
    page = "\n".join(describe_coverage([*rows, TrialResult(title, "third", "gfx942", True, "")]))
    assert "with triton 3.8.0, torch 2.13.0 and versions that were not recorded;" in page
    assert "26 to 28 November 2026; the date of 1 of the 3 results is not recorded." in page
