"""Runs an untrusted program: no network, read-only file system, one writable scratch folder, limits on all resources.

Isolation uses bubblewrap and seccomp filters; where they do not work, nothing is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.toolchain.sandbox import bubblewrap, jail
from hipsynth.toolchain.sandbox.limits import JobEnd, JobStatus, SandboxLimits, SandboxResult
from hipsynth.toolchain.sandbox.monitor import OutputClosed, SandboxLost, Watch
from hipsynth.toolchain.sandbox.mounts import view_of
from hipsynth.toolchain.sandbox.stdin_pipe import feed_input
from hipsynth.toolchain.sandbox.workspace import WorkspaceFull


def run_sandboxed(
    command: Sequence[str | Path],
    scratch: Path,
    limits: SandboxLimits | None = None,
    *,
    read_only: Iterable[Path] = (),
    env: Mapping[str, str] | None = None,
    isolate: bool = True,
    mounts: Mapping[str, Path] | None = None,
    stdin: Path | int | None = None,
    fds: Sequence[int] = (),
    on_output: Callable[[str, bytes], None] | None = None,
) -> SandboxResult:
    """Runs `command` with `scratch` as its working folder, the only one it can write to: in a copy, if isolated.

    `read_only`: further readable paths (/usr always is). `env`: its environment besides PATH, HOME and LC_ALL.
    `isolate=False` applies only the limits. `mounts`: path in the sandbox -> folder mounted there read-only (only with
    isolation). `stdin`: a file or descriptor whose bytes the program reads, through a pipe (default: none). `fds`:
    descriptors that the program has as 3, 4, ... `on_output`: called with "out" or "err" and each piece of output as
    it arrives.
    Failures of the program are returned, not raised. Raises MissingDependency if programs cannot be isolated here,
    BrokenPipeError if `on_output` does, after ending the program.
    """
    limits = limits or SandboxLimits()
    scratch = scratch.resolve()
    argv = [str(part) for part in command]
    environment = {"PATH": bubblewrap.PATH, "HOME": str(scratch), "LC_ALL": "C.UTF-8", **(env or {})}
    view = None
    if isolate and not bubblewrap.switched_off():
        bubblewrap.require_sandbox()
        view = view_of(scratch, limits.scratch_bytes, read_only, mounts or {})
    with feed_input(stdin) as source:

        def watch_job(leased: jail.Jail) -> SandboxResult:
            job = leased.start(argv, scratch, environment, limits, source, fds)
            return Watch(leased, job, scratch, limits, on_output).result()

        run_there = _run_in_copy if view is not None else _run_in_place
        for _ in range(2):  # a kept sandbox may have ended meanwhile
            with jail.lease_jail(view) as leased:
                try:
                    return run_there(leased, scratch, watch_job)
                except OutputClosed as closed:
                    raise BrokenPipeError(str(closed)) from closed
                except (BrokenPipeError, ConnectionResetError):
                    problem = leased.creation_error()
                except SandboxLost as lost:
                    problem = str(lost)
    raise jail.creation_failure(problem)


def _run_in_copy(leased: jail.Jail, scratch: Path, watch_job: Callable[[jail.Jail], SandboxResult]) -> SandboxResult:
    """Runs a job in a copy of its folder inside the sandbox, and copies back what it changed."""
    workspace = leased.open_workspace()
    try:
        copied = workspace.copy_in(scratch)
    except WorkspaceFull:
        leased.usable = False
        return SandboxResult(JobStatus.KILLED, JobEnd.DISK, None, None, "", "", 0.0, 0, True)
    result = watch_job(leased)
    if not workspace.copy_out(scratch, copied):
        result = replace(result, status=JobStatus.KILLED, reason=JobEnd.MOVED)
    leased.usable = leased.usable and workspace.clear()
    return result


def _run_in_place(leased: jail.Jail, scratch: Path, watch_job: Callable[[jail.Jail], SandboxResult]) -> SandboxResult:
    """Runs a job that nothing isolates in its folder itself."""
    place = _folder_identity(scratch)
    result = watch_job(leased)
    if _folder_identity(scratch) == place:
        return result
    return replace(result, status=JobStatus.KILLED, reason=JobEnd.MOVED)


def _folder_identity(folder: Path) -> tuple[int, int] | None:
    """Tells whether a job put something else in the place of its folder, such as a link to another one."""
    try:
        status = folder.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
