"""`synth run` as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profiling import toolchain
from synth.errors import Missing

PROGRAMS = Path(__file__).parents[1] / "kernels" / "programs"


def synth_run(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        toolchain.find()
    except Missing as error:
        pytest.skip(f"no compiler: {error.what}")
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))}
    command = [sys.executable, "-m", "synth.cli.main", "run", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=120, check=False)


def test_output_arguments_and_exit_code_are_the_programs_own(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--", "7", "return", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, "to stdout\n", "to stderr\n")


def test_program_without_kernels_runs(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "no_kernel.hip"), cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_sandboxed_output_and_exit_code(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--sandbox", "--", "9", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (9, "to stdout\n")
    said, note = done.stderr.splitlines()
    assert said == "to stderr" and note.startswith("note: it ended with exit code 9 where it had no network")


def test_simulator_failure_exits_with_3(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "out_of_bounds.hip"), "--arch", "gfx942", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == "before\n"
    assert "error: illegal_access: " in done.stderr
    assert "Traceback" not in done.stderr


def test_json_is_one_document(tmp_path: Path) -> None:
    done = synth_run(str(PROGRAMS / "exit_code.hip"), "--json", "--", "0", cwd=tmp_path)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert (document["status"], document["exit_code"], document["stdout"]) == ("ok", 0, "to stdout\n")
    assert document["kernels"][0]["dispatches"] == 1


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["missing.hip"], 3, "no such file"),
        ([str(PROGRAMS / "exit_code.hip"), "--arch", "gfx1"], 2, "unknown architecture"),
        ([str(PROGRAMS / "exit_code.hip"), "--device", "mi300x"], 2, "is no gfx90a"),
        ([str(PROGRAMS / "exit_code.hip"), "--flags=-Wrong-flag"], 2, "flag"),
    ],
)
def test_bad_input(words: list[str], code: int, says: str, tmp_path: Path) -> None:
    done = synth_run(*words, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
