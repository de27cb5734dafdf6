"""Surveys of several folders: none with a program, and folders whose names are alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.cli.main import main
from hipsynth.cli.survey import _name_reports


def test_a_survey_of_nothing_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["survey", *map(str, folders), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 3 and document["error"] == "no_programs"


def test_reports_of_folders_that_end_alike_have_names_of_their_own() -> None:
    folders = [Path("first/a/b/c"), Path("second/a/b/c"), Path("second/a/b/d")]
    names = _name_reports(folders)
    assert names[folders[2]] == "a-b-d" and len(set(names.values())) == 3
    assert _name_reports(folders[1:])[folders[1]] == "a-b-c"
