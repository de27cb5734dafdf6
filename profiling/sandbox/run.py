"""Runs an untrusted program: no network, read-only file system, one writable scratch folder, limits on all resources.

Isolation uses bubblewrap and a seccomp filter. If bubblewrap does not work, the limits still apply, but the program can
access the file system and the network; the result then has `isolated == False`, and `synth doctor` reports it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from hipsynth.profiling.sandbox import bubblewrap
from hipsynth.profiling.sandbox.limits import SandboxLimits, SandboxResult
from hipsynth.profiling.sandbox.seccomp import seccomp_file
from hipsynth.profiling.sandbox.watch import Watch


def run(
    command: Sequence[str | Path],
    scratch: Path,
    limits: SandboxLimits | None = None,
    *,
    read_only: Iterable[Path] = (),
    env: Mapping[str, str] | None = None,
    isolate: bool = True,
    mounts: Mapping[str, Path] | None = None,
    stdin: Path | None = None,
    fds: Sequence[int] = (),
    on_output: Callable[[str, bytes], None] | None = None,
) -> SandboxResult:
    """Runs `command` with `scratch` as its working folder, the only one it can write to.

    `read_only`: further readable paths (/usr always is). `env`: its environment besides PATH, HOME and LC_ALL.
    `isolate=False` applies only the limits. `mounts`: path in the sandbox -> folder mounted there read-only (only with
    isolation). `stdin`: file for standard input (default: empty). `fds`: descriptors that the program sees as 3, 4, ...
    `on_output`: called with "out" or "err" and each chunk of output. Failures of the program are returned, not raised.
    """
    limits = limits or SandboxLimits()
    scratch = scratch.resolve()
    argv = [str(part) for part in command]
    isolated = isolate and bubblewrap.available()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8", **(env or {})}
    with contextlib.ExitStack() as stack:
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in fds]
        low = [fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3) for _ in fds]  # keeps Popen's own descriptors out of the way
        for fd in (*high, *low):
            stack.callback(os.close, fd)
        filter_fd = stack.enter_context(seccomp_file(forks=limits.processes > 1)) if isolated else None
        if filter_fd is not None and fds:
            filter_fd = fcntl.fcntl(filter_fd, fcntl.F_DUPFD_CLOEXEC, 100)
            stack.callback(os.close, filter_fd)

        def place() -> None:
            for number, fd in enumerate(high, 3):
                os.dup2(fd, number)

        full = bubblewrap.limited(argv, scratch, limits)
        if isolated:
            bubblewrap.hand_over(scratch)
            seen = {path.resolve(): path.resolve() for path in read_only}
            seen |= {Path(inside): path.resolve() for inside, path in (mounts or {}).items()}
            seen = {inside: stack.enter_context(bubblewrap.readable(path)) for inside, path in seen.items()}
            full = bubblewrap.command_line(full, scratch, environment, filter_fd, limits, seen)
        source = stack.enter_context((stdin or Path(os.devnull)).open("rb"))
        try:
            process = subprocess.Popen(
                full,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=scratch,
                env=environment,
                start_new_session=True,
                pass_fds=(*(() if filter_fd is None else (filter_fd,)), *range(3, 3 + len(fds))),
                preexec_fn=place if fds else None,
            )
        except OSError as error:
            return SandboxResult("failed", "not_started", None, None, "", str(error), 0.0, 0, isolated)
        with process:
            return Watch(process, scratch, limits, isolated, on_output).result()
