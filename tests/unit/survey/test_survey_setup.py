"""Commands that precede a program in its Makefile or script: what a survey says where they did not do their work."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build_plan import Invocation
from hipsynth.profiling.survey.execute import add_setup_problem, run_setup_commands
from hipsynth.profiling.survey.self_check import RunVerdict
from hipsynth.toolchain import sandbox


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ((), ""),
        (("echo 1 > data.txt",), ""),
        (("echo 1 > data.txt", "exit 3"), "its set-up commands failed: exit code 3"),
        (("kill -9 $$",), "its set-up commands failed: signal"),
    ],
)
def test_set_up_commands_that_fail_are_named(before: tuple[str, ...], problem: str, tmp_path: Path) -> None:
    needs.sandbox()
    assert run_setup_commands(Invocation(before=before), tmp_path, {}) == problem
    assert (tmp_path / "data.txt").exists() == ("data.txt" in "".join(before))


def test_set_up_commands_that_did_not_run_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sandbox, "is_available", lambda: False)
    problem = run_setup_commands(Invocation(before=("touch data.txt",)), tmp_path, {})
    assert problem == "its set-up commands did not run: there is no sandbox"
    failed = RunVerdict("failed", Reason.NEEDS_DATA, "it exited with code 1")
    assert add_setup_problem(failed, problem).message == f"it exited with code 1; {problem}"
    assert add_setup_problem(RunVerdict("ran"), problem).message == problem
    assert add_setup_problem(RunVerdict("passed"), problem).message == ""
