"""What the verbs say of --flags that leave the program unoptimized, and of refused ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.cli.programs import note_no_level
from hipsynth.core.errors import UsageError
from hipsynth.toolchain import parse_flags


@pytest.mark.parametrize("flags", ["-DN=3", "-ffast-math", "-g", ""])
def test_flags_without_a_level_are_noted(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    note_no_level(("-O3", flags))
    (note,) = capsys.readouterr().err.splitlines()
    assert "has no -O level: compiled without optimization" in note and "add -O3" in note


def test_flags_with_a_level_and_tags_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    note_no_level(("-O3 -DN=3", "-DN=3 -Os", "-O", "-Ofast", "@default"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [("profile",), ("predict",), ("run",), ("compare", "--flags=-O3")])
def test_verbs_note_it(words: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "none.hip"
    file.write_text("__global__ void fill(int *out) { out[0] = N; }")
    done = CliRunner().invoke(cli, [*words, str(file), "--flags=-DN=3 -fplugin=x"], standalone_mode=False)
    assert "note: --flags='-DN=3 -fplugin=x' has no -O level" in done.stderr
    assert isinstance(done.exception, UsageError)


def test_the_advice_of_a_refused_flag_keeps_a_level() -> None:
    with pytest.raises(UsageError) as caught:
        parse_flags("-O3 -fplugin=x")
    assert '--flags="-O3 -DN=1024"' in caught.value.remedy
