"""Runs a program nobody trusts: no network, a read-only file system, one scratch folder, limits on everything.

Isolation is bubblewrap with a seccomp filter. Where bubblewrap does not work, the limits still hold but the file
system and the network are open: the result says so (`isolated` is False), and so does `synth doctor`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
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
) -> SandboxResult:
    """Runs `command` with `scratch` as its folder, the only one it can write to.

    `read_only`: further paths it may read (system libraries under /usr always are). `env`: its whole environment
    besides PATH and HOME. `isolate=False` asks for the limits alone. `mounts`: folders it sees, read-only, at other
    paths (only where isolation works). `stdin`: the file on its standard input. Never raises for what the program does.
    """
    limits = limits or SandboxLimits()
    scratch = scratch.resolve()
    words = [str(part) for part in command]
    how = bubblewrap.mode() if isolate else ""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8", **(env or {})}
    with contextlib.ExitStack() as stack:
        filter_fd = stack.enter_context(seccomp_file(forks=limits.processes > 1)) if how else None
        full = bubblewrap.limited(words, scratch, limits)
        if how:
            bubblewrap.hand_over(scratch)
            full = bubblewrap.command_line(
                full, scratch, read_only, environment, filter_fd, limits, mounts or {}, mode=how
            )
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
                pass_fds=() if filter_fd is None else (filter_fd,),
            )
        except OSError as error:
            return SandboxResult("failed", "not_started", None, None, "", str(error), 0.0, 0, bool(how))
        with process:
            return Watch(process, scratch, limits, bool(how)).result()
