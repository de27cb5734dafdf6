"""Options that would have no effect beside others are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "FILE", "--calls", "40"),
        ("optimize", "FILE", "--tokens", "9"),
        ("optimize", "FILE", "--api-key-env", "KEY"),
        ("optimize", "SCRIPT", "--calls", "9"),
        ("profile", "FILE", "--engine", "local"),
        ("profile", "FILE", "--sample", "auto", "--backend", "rocprof"),
        ("profile", "FILE", "--effort", "1", "--backend", "recorded:FOLDER"),
        ("profile", "FILE", "--per-kernel", "3", "--backend", "rocprof"),
        ("profile", "FILE", "--exact", "--backend", "recorded:FOLDER"),
        ("profile", "FOLDER", "--exact", "--backend", "preview", "--out", "FOLDER/corpus"),
        ("profile", "FILE", "--effort", "4", "--backend", "preview"),
        ("profile", "FOLDER", "--no-counters", "--out", "FOLDER/corpus"),
        ("export", "FOLDER", "--digits", "sig3", "--format", "questions", "--out", "FOLDER/questions.jsonl"),
        ("evaluate", "FOLDER", "--free-samples", "16"),
        ("release", "verify", "FOLDER", "--sample", "3", "--row", "0123456789abcdef"),
    ],
)
def test_an_option_without_effect_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("a.hip", "a.py"):
        (tmp_path / name).write_text("__global__ void fill(int *out) { out[0] = 1; }")
    places = {"FILE": tmp_path / "a.hip", "SCRIPT": tmp_path / "a.py"}
    typed = [str(places.get(word, word)).replace("FOLDER", str(tmp_path)) for word in words]
    ended = CliRunner().invoke(cli, typed, standalone_mode=False)
    option = next(word for word in words if word.startswith("--"))
    assert isinstance(ended.exception, UsageError) and option in ended.exception.what
    assert ended.exception.remedy
