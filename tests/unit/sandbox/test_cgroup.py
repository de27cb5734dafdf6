"""Control groups, on a folder tree that stands for the kernel's: what is written where, and what is refused.

In the kernel's tree, the files of a group come and go with its folder.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import SandboxLimits, cgroup, jail

VARIABLE = "HIPSYNTH_CGROUP"
LIMITS = SandboxLimits(memory_bytes=1 << 30, scratch_bytes=1 << 20, processes=8, threads=100)


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "delegated"
    folder.mkdir()
    (folder / "cgroup.subtree_control").write_text("cpu memory pids\n")
    monkeypatch.setenv(VARIABLE, str(folder))
    monkeypatch.setattr(Path, "rmdir", lambda path: shutil.rmtree(path))
    monkeypatch.setattr(jail, "_pool", jail._JailPool())  # sandboxes made before have no group
    return folder


def groups(above: Path) -> list[Path]:
    return [path for path in above.iterdir() if path.is_dir()]


def test_without_the_variable_there_is_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert cgroup.delegated_folder() is None


@pytest.mark.parametrize("kind", ["absent", "a file", "cgroups v1", "not enabled"])
def test_a_setting_that_cannot_work_is_an_error(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "group"
    if kind == "a file":
        folder.touch()
    elif kind != "absent":
        folder.mkdir()
    if kind == "not enabled":
        (folder / "cgroup.subtree_control").write_text("cpu pids\n")
    monkeypatch.setenv(VARIABLE, str(folder))
    with pytest.raises(UsageError) as caught:
        cgroup.delegated_folder()
    assert caught.value.reason == "bad_cgroup" and "unset HIPSYNTH_CGROUP" in caught.value.remedy
    assert ("memory not enabled" in caught.value.cause) == (kind == "not enabled")


def test_a_group_has_the_limits_of_the_job(above: Path) -> None:
    group = cgroup.Group(above)
    (group.folder / "memory.swap.max").touch()
    group.set_limits(LIMITS)
    written = {path.name: path.read_text() for path in group.folder.iterdir()}
    assert written == {"memory.max": f"{(1 << 30) + (1 << 20)}\n", "memory.swap.max": "0\n", "pids.max": "110\n"}
    group.close()
    assert groups(above) == []


def test_a_process_that_the_kernel_killed_for_memory_is_noticed(above: Path) -> None:
    group = cgroup.Group(above)
    events = group.folder / "memory.events"
    events.write_text("low 0\noom 1\noom_kill 1\n")
    group.set_limits(LIMITS)
    assert not group.ran_out_of_memory(), "an earlier job's"
    events.write_text("low 0\noom 2\noom_kill 2\n")
    assert group.ran_out_of_memory()


def test_everything_in_it_is_killed_first(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group, seen = cgroup.Group(above), list[str]()
    monkeypatch.setattr(Path, "rmdir", lambda path: seen.append((path / "cgroup.kill").read_text()))
    group.close()
    assert seen == ["1\n"]


def test_groups_of_dead_processes_are_removed(above: Path) -> None:
    gone, alive = above / "hipsynth-999999999-0", above / f"hipsynth-{os.getppid()}-0"
    gone.mkdir()
    alive.mkdir()
    group = cgroup.Group(above)
    assert set(groups(above)) == {alive, group.folder}


@pytest.mark.usefixtures("sandboxed")
def test_a_sandbox_enters_its_group_and_takes_it_along(above: Path, tmp_path: Path) -> None:
    """The whole way: the supervisor's process id is written by a process that then becomes it."""
    done = sandbox.run_sandboxed(["/bin/echo", "fine"], tmp_path, LIMITS)
    assert (done.status, done.stdout) == ("ok", "fine\n"), done
    (group,) = groups(above)
    (jails,) = jail._pool.idle.values()
    assert int((group / "cgroup.procs").read_text()) == jails[0].process.pid
    (group / "memory.events").write_text("oom_kill 0\n")
    code = f"echo oom_kill 3 > {group}/memory.events"  # what the kernel would do
    unjailed = sandbox.run_sandboxed(["/bin/sh", "-c", code], tmp_path, LIMITS, isolate=False)
    assert unjailed.status == "ok"
    jails[0].close()
    assert groups(above) == []


@pytest.mark.usefixtures("sandboxed")
def test_a_bad_setting_stops_the_start_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "_pool", jail._JailPool())
    monkeypatch.setenv(VARIABLE, "/nonexistent")
    with pytest.raises(UsageError, match="HIPSYNTH_CGROUP=/nonexistent"):
        sandbox.run_sandboxed(["/bin/echo", "fine"], tmp_path, LIMITS)
