"""The generated page of several surveys: counts equal numbers of rows, and every program that did not run is named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.profiling.survey import SurveyReport, SurveyRow, collections_page
from hipsynth.profiling.survey.documents import FolderProvenance, SurveyConditions

CONDITIONS = SurveyConditions(
    "mi250", 60.0, 0.0, False, 8 << 30, False, "v1", "clang 22", "HIP 7", True,
    FolderProvenance("some/where", "sub", "abc1234", "2026-01-01"),
)  # fmt: skip
ROWS = [
    SurveyRow("a.hip", "passed", compiled=True, evidence="PASSED"),
    SurveyRow("b.hip", "ran", compiled=True, warnings=("out of bounds: write of 4 bytes",)),
    SurveyRow("c.hip", "failed", "timeout", "stopped after 60 s | of processor time", compiled=True),
    SurveyRow("d.hip", "failed", "needs_arguments", "exit code 1", compiled=True),
    SurveyRow("e.hip", "failed", "needs_library", "needs rocBLAS, MPI: mpi.h not found", libraries=("rocBLAS", "MPI")),
    SurveyRow("f.hip", "failed", "compile_failed", "f.hip:1:1: error: unknown"),
    SurveyRow("g.cu", "failed", "cuda_source", "CUDA source"),
]


def report(arch: str, rows: list[SurveyRow] = ROWS) -> SurveyReport:
    return SurveyReport("folder", arch, rows, CONDITIONS)


def test_counts_are_of_rows() -> None:
    text = collections_page.page_section([report("gfx90a")])
    assert "| some/where, `sub` abc1234 | gfx90a | 7 | 1 | 1 | 1 | 4 | 1 | 3 | 2 (66.7 %) | 1 | 0 | 1 |" in text
    assert "60 s of processor time and 8 GiB" in text and "simulator `v1`" in text


def test_every_program_that_did_not_run_is_named_with_its_reason() -> None:
    text = collections_page.page_section([report("gfx90a")])
    assert "### Should run and did not (gfx90a)\n\n- `c.hip`: timeout: stopped after 60 s \\| of processor time" in text
    assert "### Ran with a warning (gfx90a)\n\n- `b.hip`: out of bounds: write of 4 bytes" in text
    assert "no file beside it gives (1): `d.hip`" in text
    assert "- `f.hip`: does not compile: f.hip:1:1: error: unknown" in text
    assert "MPI (1)" in text and "rocBLAS (1)" in text


def test_architectures_are_totalled_separately_and_compared() -> None:
    other = [SurveyRow("c.hip", "ran", compiled=True) if row.program == "c.hip" else row for row in ROWS]
    reports = [report("gfx90a"), report("gfx90a", []), report("gfx942", other)]
    text = collections_page.page_section(reports)
    assert "| **all** | gfx90a | 7 |" in text and "| **all** | gfx942 | 7 |" in text
    assert "### Differs between architectures\n\n- `c.hip`: gfx90a: timeout, gfx942: ran" in text
    assert "a.hip" not in text
    fewer = collections_page.page_section([report("gfx90a"), report("gfx942", ROWS[1:])])
    assert fewer.endswith("- Not surveyed on gfx942 (1): `a.hip`")


def test_only_the_generated_section_changes(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"# Mine\n\nbefore\n\n{collections_page.BEGIN}\nold\n{collections_page.END}\n\nafter\n")
    collections_page.update_page(path, [report("gfx90a")])
    text = path.read_text()
    assert text.startswith("# Mine\n\nbefore\n") and text.endswith("\n\nafter\n") and "old" not in text
    collections_page.update_page(path, [report("gfx90a")])
    assert path.read_text() == text
    collections_page.update_page(tmp_path / "new.md", [report("gfx90a")])
    assert collections_page.BEGIN in (tmp_path / "new.md").read_text()
    (tmp_path / "latin.md").write_bytes(b"\xe9")
    with pytest.raises(BadInput):
        collections_page.update_page(tmp_path / "latin.md", [report("gfx90a")])


def test_provenance_is_the_remote_and_commit(tmp_path: Path) -> None:
    assert collections_page.folder_provenance(tmp_path) == FolderProvenance(tmp_path.name, "", "", "")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "file").write_text("x")
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for arguments in (["init", "-q"], ["remote", "add", "origin", "https://example.org/some/where.git"], ["add", "."],
                  [*identity, "commit", "-qm", "one"]):  # fmt: skip
        subprocess.run(["git", *arguments], cwd=tmp_path, check=True)
    found = collections_page.folder_provenance(inner)
    assert (found.name, found.path, len(found.commit) >= 7) == ("some/where", "inner", True)
