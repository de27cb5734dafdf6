"""Results of autotuning that are taken from a script's folder: it can write anything there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.simulator.artefacts import Artefacts, ScriptInterpreter
from hipsynth.simulator.scripts.autotune_cache import copy_autotune_results
from hipsynth.simulator.scripts.compiled_kernels import CACHE, reuse_entry

RESULT = json.dumps({"key": [4096, "fp16"], "configs_timings": [
    [{"kwargs": {"BLOCK": 64}, "num_warps": 4}, [0.5, 0.5, 0.5]], [{"kwargs": {}}, [float("inf")] * 3],
]})  # fmt: skip


def write(folder: Path, name: str, text: str = RESULT) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def copied(source: Path, target: Path) -> list[str]:
    copy_autotune_results(source, target)
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def test_results_are_added_and_nothing_else(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name in (
        "ABC2/k.autotune.json",
        "ABC2/k.json",
        "k.autotune.json",
        "ABC2/DEF/k.autotune.json",
        ".git/k.autotune.json",
    ):
        write(source, name)
    assert copied(source, target) == ["ABC2/k.autotune.json"]
    write(source, "ABC2/k.autotune.json", RESULT.replace("0.5", "0.25"))
    assert (
        copied(source, target) == ["ABC2/k.autotune.json"]
        and "0.25" not in (target / "ABC2/k.autotune.json").read_text()
    )


@pytest.mark.parametrize("text", [
    "", "[]", "{}", '{"key": [], "configs_timings": []}', '{"key": [], "configs_timings": [[{"kwargs": {}}, "soon"]]}',
    '{"key": [], "configs_timings": [[{"kwargs": []}, [1]]]}', '{"key": 1, "configs_timings": [[{"kwargs": {}}, [1]]]}',
    "[" * 100_000, " " * (2 << 20),
])  # fmt: skip
def test_what_has_another_form_is_left_out(text: str, tmp_path: Path) -> None:
    write(tmp_path / "source", "ABC2/k.autotune.json", text)
    assert copied(tmp_path / "source", tmp_path / "target") == []


def test_links_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "secret", RESULT)
    (tmp_path / "source/ABC2").mkdir(parents=True)
    (tmp_path / "source/ABC2/k.autotune.json").symlink_to(tmp_path / "secret")
    assert copied(tmp_path / "source", tmp_path / "target") == []


def test_a_folder_that_cannot_be_written_is_bad_input(tmp_path: Path) -> None:
    write(tmp_path / "source", "ABC2/k.autotune.json")
    (tmp_path / "target").write_text("")
    with pytest.raises(BadInput):
        copy_autotune_results(tmp_path / "source", tmp_path / "target")


def test_compiled_kernels_of_an_interrupted_run_are_kept(tmp_path: Path) -> None:
    script = Artefacts(tmp_path / "k.py", interpreter=ScriptInterpreter(("python",)))
    entry, folder = tmp_path / "kept/entry", tmp_path / "run"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt), reuse_entry(entry, entry, script, folder):
        (folder / CACHE / "AB").mkdir()
        (folder / CACHE / "AB/k.hsaco").write_bytes(b"code")
        raise KeyboardInterrupt
    assert (entry / "AB/k.hsaco").read_bytes() == b"code" and not (folder / CACHE).exists()
