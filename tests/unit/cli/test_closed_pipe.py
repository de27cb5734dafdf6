"""A reader that closes our output, such as `head`, is no failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run_without_reader(*words: str) -> int:
    """The exit code of a verb whose output nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "hipsynth.cli.main", *words]
        return subprocess.run(command, stdout=writer, stderr=subprocess.DEVNULL, check=False).returncode
    finally:
        os.close(writer)


@pytest.mark.parametrize("words", [("--help",), ("run", "--help"), ("generate", "--count", "1", "--json", "--out")])
def test_a_closed_pipe_ends_with_success(words: tuple[str, ...], tmp_path: Path) -> None:
    place = [str(tmp_path / "out")] if words[-1] == "--out" else []
    assert run_without_reader(*words, *place) == 0


def test_an_error_keeps_its_code(tmp_path: Path) -> None:
    assert run_without_reader("stats", str(tmp_path / "none"), "--json") == 3
