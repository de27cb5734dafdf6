"""The file in which a script's autotuner says what it tried: the script can write anything into it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.simulator.scripts.compiled_kernels import CACHE, TUNINGS
from hipsynth.simulator.scripts.tuning_file import read_autotunings

ROW = {
    "kernel": "k",
    "key": {"n": 8, "dtype": "fp16"},
    "configurations": [
        {"meta": {"BLOCK": 64, "EVEN": True}, "time_ns": 5.5, "chosen": True},
        {"meta": {"BLOCK": 128, "EVEN": False}, "time_ns": None, "chosen": False},
    ],
    "plain": True,
}


def write(folder: Path, text: str) -> None:
    (folder / CACHE).mkdir()
    (folder / CACHE / TUNINGS).write_text(text)


def test_each_line_is_a_choice(tmp_path: Path) -> None:
    assert read_autotunings(tmp_path) == ()
    write(tmp_path, json.dumps(ROW) + "\n" + json.dumps(ROW | {"kernel": "other"}) + "\n")
    first, second = read_autotunings(tmp_path)
    assert (first.kernel, second.kernel, first.key) == ("k", "other", {"n": 8, "dtype": "fp16"})
    assert first.chosen.meta == {"BLOCK": 64, "EVEN": True} and first.chosen.time_ns == 5.5
    assert first.configurations[1].time_ns is None and first.plain


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "[" * 100_000,
        json.dumps(ROW | {"kernel": 5}),
        json.dumps(ROW | {"configurations": []}),
        json.dumps(ROW | {"further": 1}),
        json.dumps(ROW).replace("5.5", "Infinity"),
        json.dumps(ROW).replace("5.5", "NaN"),
        json.dumps(ROW).replace("5.5", "-1"),
        json.dumps(ROW).replace("false}]", "true}]"),
    ],
)
def test_what_no_autotuner_wrote_counts_as_nothing(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    assert read_autotunings(tmp_path) == ()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps(ROW))
    cache = tmp_path / "run" / CACHE
    cache.mkdir(parents=True)
    (cache / TUNINGS).symlink_to(tmp_path / "elsewhere")
    assert read_autotunings(tmp_path / "run") == ()
