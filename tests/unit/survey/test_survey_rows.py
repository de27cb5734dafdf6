"""Which rows of an earlier survey hold for the next one."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import needs
import pytest
from triton_samples import DOUBLE

from hipsynth.core.errors import BadInput
from hipsynth.core.journal import Journal
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey import project as survey_project
from hipsynth.profiling.survey.build import BuildResult
from hipsynth.profiling.survey.build_plan import BuildPlan, CodeObject, Invocation, SourceUnit, SurveyedProgram
from hipsynth.profiling.survey.documents import SurveyRow, SurveyStatus
from hipsynth.profiling.survey.program_files import digest_program
from hipsynth.profiling.survey.run_survey import SurveyOptions, _finished_rows, _journal_path, _row_key, _RowJournal
from hipsynth.profiling.survey.scripts import find_scripts
from hipsynth.profiling.survey.sources import scan_folder

OPTIONS = SurveyOptions()
MAIN = '#include "k.h"\n#include "shared.h"\nint main() { std::ifstream file("../data/graph.txt"); }\n'
FILES = {
    "app/main.hip": MAIN,
    "app/k.h": '#include "deeper.h"\n',
    "app/deeper.h": "int a;\n",
    "app/loaded.hip": '#include "loaded.h"\n',
    "app/loaded.h": "int b;\n",
    "app/input.dat": "1",
    "app/notes.md": "see main.hip",
    "common/shared.h": "int c;\n",
    "nearer/app/shared.h": "int d;\n",
    "data/graph.txt": "2",
}


def write_files(root: Path) -> SurveyedProgram:
    """A program that loads a code object, reads files, and finds a header by -I."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    folder, main = root / "app", root / "app/main.hip"
    loaded = CodeObject(SourceUnit(folder / "loaded.hip"), folder / "loaded.co")
    unit = SourceUnit(main, includes=(root / "common",))
    plan = BuildPlan("main", (unit,), folder, "make", code_objects=(loaded,), calls=(Invocation(("input.dat", "3")),))
    return SurveyedProgram("app/main.hip", main, (plan,))


def test_the_digest_of_a_program_holds_wherever_its_folder_lies(tmp_path: Path) -> None:
    needs.compiler()
    places = [tmp_path / "here", tmp_path / "there"]
    assert len({digest_program(write_files(place), scan_folder(place)) for place in places}) == 1


def test_a_changed_header_changes_the_digest_of_a_folders_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.compiler()
    surveyed = write_files(tmp_path / "folder")
    monkeypatch.setattr(survey_project, "find_programs", lambda *_: [surveyed])
    monkeypatch.setattr(survey_project, "try_plans", lambda program, *_: BuildResult(program.plans[0]))

    def read_digest() -> str:
        (program,) = survey_project.folder_programs(tmp_path / "folder", "gfx90a", tmp_path, errors.append)
        assert program.project is not None
        return program.project.digest

    errors: list[BadInput] = []
    before = read_digest()
    (tmp_path / "folder/app/k.h").write_text("// changed\n")
    assert read_digest() != before and not errors


@pytest.mark.parametrize(
    ("name", "matters"),
    [(name, name not in ("app/notes.md", "nearer/app/shared.h")) for name in FILES],
)
def test_a_row_depends_on_what_the_program_reads(name: str, matters: bool, tmp_path: Path) -> None:
    needs.compiler()
    program = write_files(tmp_path)
    before = _row_key(program, OPTIONS, scan_folder(tmp_path))
    assert _row_key(program, OPTIONS, scan_folder(tmp_path)) == before
    (tmp_path / name).write_text(FILES[name] + "// changed\n")
    assert (_row_key(program, OPTIONS, scan_folder(tmp_path)) != before) == matters


def test_a_row_depends_on_isolation_and_on_files_that_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.compiler()
    monkeypatch.setattr("hipsynth.toolchain.sandbox.is_available", lambda: True)
    program = write_files(tmp_path)
    keys = {_row_key(program, replace(OPTIONS, isolate=isolate), scan_folder(tmp_path)) for isolate in (True, False)}
    (tmp_path / "data/graph.txt").unlink()
    keys.add(_row_key(program, OPTIONS, scan_folder(tmp_path)))
    assert len(keys) == 3


def test_a_row_depends_on_the_modules_that_a_script_imports(tmp_path: Path) -> None:
    needs.compiler()
    texts = {
        "run/launch.py": "def main():\n    from kernels.ops.double import double\n    double[(1,)](x)\n\nmain()\n",
        "kernels/__init__.py": "",
        "kernels/ops/__init__.py": "from . import settings\n",
        "kernels/ops/double.py": DOUBLE,
        "kernels/ops/settings.py": "BLOCK = 64\n",
        "kernels/ops/unused.py": "BLOCK = 32\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(DOUBLE + text if name == "run/launch.py" else text)
    (program,) = (program for program in find_scripts(tmp_path) if program.id == "run/launch.py")
    before = _row_key(program, OPTIONS, scan_folder(tmp_path))
    changes = {}
    for name in texts:
        content = (tmp_path / name).read_text()
        (tmp_path / name).write_text(content + "# changed\n")
        changes[name] = _row_key(program, OPTIONS, scan_folder(tmp_path)) != before
        (tmp_path / name).write_text(content)
    assert changes == {name: "unused" not in name for name in texts}


def test_a_time_out_in_the_journal_is_tried_again_with_more_time(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    late, passed = (
        SurveyRow("a", SurveyStatus.FAILED, Reason.TIMEOUT, key="a"),
        SurveyRow("b", SurveyStatus.PASSED, key="b"),
    )
    with _RowJournal(out, timeout_s=10.0) as journal:
        journal.keep(late)
        journal.keep(passed)
    assert _finished_rows(out, replace(OPTIONS, timeout_s=10.0)) == {"a": late, "b": passed}
    assert _finished_rows(out, replace(OPTIONS, timeout_s=600.0)) == {"b": passed}
    with Journal(_journal_path(out)) as earlier:  # as earlier versions wrote rows
        earlier.append(asdict(replace(late, key="c")))
    assert "c" not in _finished_rows(out, replace(OPTIONS, timeout_s=10.0))
