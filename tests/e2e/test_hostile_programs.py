"""`synth run` stops forbidden actions of untrusted programs and reports them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import needs
import pytest

from hipsynth.cli import profile as profile_verb
from hipsynth.cli import run as run_verb
from hipsynth.core.errors import MissingDependency
from hipsynth.toolchain import sandbox

PROGRAM = Path(__file__).parents[1] / "kernels" / "programs" / "hostile.hip"


def hostile(*arguments: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    needs.sandbox()
    needs.compiler()
    command = [
        sys.executable,
        "-m",
        "hipsynth.cli.main",
        "run",
        str(PROGRAM),
        *options,
        "--",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_secret_file_is_not_there(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    done = hostile("read", str(tmp_path), "secret.txt")  # no argument names it
    assert (done.returncode, done.stdout) == (1, "") and "No such file" in done.stderr
    assert "note: the program returned 1 (in a sandbox: no network, only a copy of its own folder" in done.stderr


def test_nothing_outside_is_written(tmp_path: Path) -> None:
    target = tmp_path / "mine"
    done = hostile("write", str(target))
    assert (done.returncode, done.stdout, target.exists()) == (1, "", False) and "at most 1 GiB written" in done.stderr


def test_there_is_no_network() -> None:
    done = hostile("socket")
    assert done.returncode == 1 and "socket: Permission denied" in done.stderr and "no network" in done.stderr


@pytest.mark.parametrize(
    ("deed", "options", "reason", "message"),
    [
        ("fork", (), "forbidden_call", "it tried to start a process"),
        ("disk", (), "output_limit", "its files took more than 1024 MiB"),
        ("file", (), "output_limit", "it wrote more than 256 MiB to one file"),
        ("flood", (), "output_limit", "it printed more than 256 MiB"),
        ("loop", ("--timeout", "0.5"), "timeout", "stopped after 0.5 s of processor time"),
        ("sleep", ("--timeout", "0.5"), "timeout", "stopped after 0.5 s in which it did nothing"),
        ("memory", ("--memory", "0.25"), "out_of_memory", "took more than the limit of 256 MiB"),
    ],
)
def test_programs_that_exceed_limits_are_killed(deed: str, options: tuple[str, ...], reason: str, message: str) -> None:
    done = hostile(deed, options=options)
    assert done.returncode == 3 and f"error: {reason}: " in done.stderr and message in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "FILLED" not in done.stdout and "FORKED" not in done.stdout


@pytest.mark.parametrize("verb", [run_verb, profile_verb])
def test_without_isolation_nothing_untrusted_is_started(verb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.bubblewrap, "is_available", lambda: False)
    context = verb.command.make_context("verb", [str(PROGRAM)])
    with pytest.raises(MissingDependency, match="cannot be isolated"):
        verb.command.invoke(context)


def test_a_missing_bubblewrap_is_noticed(tmp_path: Path) -> None:
    """A machine on which `bwrap` is not found, or does not work."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    code = "from hipsynth.toolchain import sandbox; print(sandbox.is_available())"
    for path in (str(tmp_path), "/nonexistent"):
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
        )
        assert done.stdout == "False\n"
