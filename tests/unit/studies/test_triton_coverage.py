"""The list of public Triton programs that are tried, and the page of what came of it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from studies import triton_coverage
from studies.triton_coverage import (
    ARCHS,
    PAGE,
    TrialProgram,
    TrialResult,
    describe_coverage,
    iterate_results,
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


def test_a_trial_that_raises_is_a_result_of_its_own(tmp_path: Path) -> None:
    lost = TrialProgram("p", 0, "lost", tmp_path / "nothing", "")
    [result] = iterate_results([(lost, "gfx942")], 1)
    assert not result.passed and result.why.startswith("FileNotFoundError: ")


def test_no_trial_begins_after_an_interruption(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[str] = []
    stop = threading.Event()

    def try_slowly(program: TrialProgram, arch: str) -> TrialResult:
        begun.append(program.name)
        assert program.name == "0" or stop.wait(10)
        return TrialResult(program.project, program.name, arch, True, "")

    monkeypatch.setattr(triton_coverage, "try_program", try_slowly)
    trials = [(TrialProgram("p", number, str(number), tmp_path, ""), "gfx942") for number in range(9)]
    results = iterate_results(trials, 1)
    assert next(results).program == "0"
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)  # type: ignore[attr-defined]
    assert len(begun) <= 2, "the one that runs ends, and no other begins"


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
