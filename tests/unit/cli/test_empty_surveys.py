"""A survey that finds no program anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.cli.main import main


def test_a_survey_of_nothing_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(SystemExit) as ended:
        main(["survey", *map(str, folders), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 3 and document["error"] == "no_programs"
