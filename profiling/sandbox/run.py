"""Runs an untrusted program: no network, read-only file system, one writable scratch folder, limits on all resources.

Isolation uses bubblewrap and seccomp filters; where they do not work, nothing is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.profiling.sandbox import bubblewrap, jail
from hipsynth.profiling.sandbox.limits import SandboxLimits, SandboxResult
from hipsynth.profiling.sandbox.view import view_of
from hipsynth.profiling.sandbox.watch import SandboxLost, Watch
from hipsynth.synth.core.errors import Missing


def run(
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
    """Runs `command` with `scratch` as its working folder, the only one it can write to.

    `read_only`: further readable paths (/usr always is). `env`: its environment besides PATH, HOME and LC_ALL.
    `isolate=False` applies only the limits. `mounts`: path in the sandbox -> folder mounted there read-only (only with
    isolation). `stdin`: file or descriptor for standard input (default: empty). `fds`: descriptors that the program has
    as 3, 4, ... `on_output`: called with "out" or "err" and each piece of output as it arrives.
    Failures of the program are returned, not raised. Raises Missing if programs cannot be isolated here.
    """
    limits = limits or SandboxLimits()
    scratch = scratch.resolve()
    argv = [str(part) for part in command]
    environment = {"PATH": bubblewrap.PATH, "HOME": str(scratch), "LC_ALL": "C.UTF-8", **(env or {})}
    if isolate and not bubblewrap.switched_off():
        bubblewrap.require()
        bubblewrap.hand_over(scratch)
        view = view_of(scratch, read_only, mounts or {})
    else:
        view = None
    for last in (False, True):  # a kept sandbox may have ended meanwhile
        with jail.lease(view) as leased:
            try:
                place = _identity(scratch)
                job = _start(leased, argv, scratch, environment, limits, stdin, fds)
                result = Watch(leased, job, scratch, limits, on_output).result()
                return result if _identity(scratch) == place else replace(result, status="killed", reason="moved")
            except (BrokenPipeError, ConnectionResetError):
                problem = leased.problem()
            except SandboxLost as lost:
                problem = str(lost)
        if last:
            break
    raise Missing("the sandbox could not be created", cause=problem, remedy="see `synth doctor`")


def _identity(folder: Path) -> tuple[int, int] | None:
    """Tells whether a job put something else in the place of its folder, such as a link to another one."""
    try:
        found = folder.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _start(
    leased: jail.Jail,
    argv: Sequence[str],
    scratch: Path,
    env: Mapping[str, str],
    limits: SandboxLimits,
    stdin: Path | int | None,
    fds: Sequence[int],
) -> jail.Job:
    if isinstance(stdin, int):
        return leased.start(argv, scratch, env, limits, stdin, fds)
    source = os.open(stdin or os.devnull, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.set_blocking(source, True)
        return leased.start(argv, scratch, env, limits, source, fds)
    finally:
        os.close(source)
