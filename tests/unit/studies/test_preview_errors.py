"""How the study of previews asks about surveyed programs, and what it counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hipsynth.profiling.survey.build_plan import BuildPlan, SourceUnit, SurveyedProgram
from studies.preview_errors import NO_LAUNCH, PreviewRow, find_place, summarize_errors


def test_a_program_is_asked_about_in_its_folder_with_what_its_build_adds(tmp_path: Path) -> None:
    main = tmp_path / "sum" / "main.hip"
    unit = SourceUnit(main, includes=(tmp_path / "include",), defines=("N=4",), standard="c++20", options=("-O2",))
    program = SurveyedProgram("sum/main.hip", main, (BuildPlan("sum", (unit,), main.parent, "cmake"),))
    place = find_place(program)
    assert place.flags == f"-std=c++20 -I {tmp_path / 'include'}", "-O2 is in the label, N in its text"
    linked = BuildPlan("sum", (unit,), main.parent, "make", libraries=("omp",))
    assert find_place(replace(program, plans=(linked,))).flags == f"{place.flags} -fopenmp"
    assert place.project.folder == main.parent and place.project.sources[0].path == main


def test_reasons_are_counted_where_labels_have_no_preview() -> None:
    rows = [PreviewRow("a", "gfx942", "k", {"duration": 1.05}), PreviewRow("b", "gfx942", "k", {}, NO_LAUNCH)]
    text = summarize_errors("gfx942", [*rows, PreviewRow("c", "gfx942", "k", {}, NO_LAUNCH)])
    assert "3 labels, 2 without a preview (2 x no launch of it was found)" in text and "33 % within 10 %" in text
    assert "1 labels, 0 without a preview; " in summarize_errors("gfx942", rows[:1])
