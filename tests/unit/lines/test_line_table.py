"""Which files of a line table have a name, and so a text in reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.core.program import Project, SourceFile
from hipsynth.profiling.lines.line_table import own_files_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    (folder / "parts").mkdir(parents=True)
    for name in ("main.hip", "parts/reduce.h", "notes.txt"):
        (folder / name).write_text("")
    return folder


def test_headers_below_the_folder_have_their_path(folder: Path) -> None:
    name = own_files_of(Project((SourceFile(folder / "main.hip"),), folder))
    assert name(str(folder / "parts" / "reduce.h")) == str(folder / "parts" / "reduce.h")
    assert name("/elsewhere/main.hip") == name("/elsewhere/same_text.hip") == str(folder / "main.hip")
    assert name("") == name("/usr/include/stdio.h") == ""


def test_a_copy_of_the_folder_names_the_same_files(folder: Path) -> None:
    name = own_files_of(Project((SourceFile(folder / "main.hip"),), folder))
    assert name("/tmp/job/run/parts/reduce.h") == str(folder / "parts" / "reduce.h")


def test_modules_of_a_script_are_not_the_script(folder: Path) -> None:
    for script in ("main.py", "parts/kernels.py"):
        (folder / script).write_text("")
    name = own_files_of(Project((SourceFile(folder / "main.py", "python"),), folder))
    assert name("/tmp/job/run/parts/kernels.py") == str(folder / "parts" / "kernels.py")
    assert name("/somewhere/unknown.py") == ""


def test_files_elsewhere_have_no_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "id_rsa").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "id_rsa")
    name = own_files_of(Project((SourceFile(folder / "main.hip"),), folder))
    for text in (tmp_path / "id_rsa", folder / "link", folder / ".." / "id_rsa", "/x/../id_rsa"):
        assert name(str(text)) == ""


def test_folders_of_flags_are_the_programs_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    header = tmp_path / "include" / "shared.h"
    header.write_text("")
    sources = (SourceFile(folder / "main.hip", flags=f"-I{header.parent}"),)
    assert own_files_of(Project(sources, folder))(str(header)) == str(header)
    assert own_files_of(Project((SourceFile(folder / "main.hip"),), folder))(str(header)) == ""
    (folder / "shared.h").write_text("")
    assert own_files_of(Project(sources, folder))(str(header)) == str(header), "no file of the same name elsewhere"


def test_of_a_home_folder_only_sources_and_headers_have_a_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    name = own_files_of(Project((SourceFile(folder / "main.hip"),), folder))
    assert name(str(folder / "notes.txt")) == name(str(folder / "parts" / "reduce.h")) == ""
    assert name(str(folder / "main.hip")) == str(folder / "main.hip")
