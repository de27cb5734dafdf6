"""Builds the command line that isolates a program: bubblewrap namespaces with resource limits inside."""

from __future__ import annotations

import functools
import math
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from hipsynth.profiling.sandbox.limits import SandboxLimits
from hipsynth.synth.core.errors import Missing


@functools.cache
def available() -> bool:
    """Whether bubblewrap is installed and can create a sandbox on this machine (cached)."""
    if shutil.which("bwrap") is None:
        return False
    probe = bubblewrap(["/bin/true"], Path("/tmp"), (), {}, None, SandboxLimits(), {})
    try:
        return subprocess.run(probe, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def require() -> None:
    """Raises Missing if programs cannot be isolated on this machine."""
    if not available():
        raise Missing(
            "programs cannot be isolated here: they could read your files and use the network",
            cause="bubblewrap (bwrap) is not installed, or this machine does not allow it to create namespaces",
            remedy="apt install bubblewrap; in a container, allow user namespaces. `synth doctor` shows details",
        )


def limited(command: list[str], limits: SandboxLimits) -> list[str]:
    """The command under resource limits, set by a shell that then execs it (no fork, about 1 ms)."""
    # Limits apply per process. The soft limit sends SIGXCPU; the hard limit, two seconds later, kills.
    seconds = max(1, math.ceil(limits.cpu_s) + 1)
    settings = (
        f"ulimit -c 0; ulimit -S -t {seconds}; ulimit -H -t {seconds + 2}; "
        f"ulimit -f {max(1, limits.file_bytes // 512)}; ulimit -n {limits.open_files}; "
    )
    return ["/bin/sh", "-c", settings + 'exec "$@"', "sh", *_fixed_layout(), *command]


@functools.cache
def _fixed_layout() -> tuple[str, ...]:
    """The command prefix that disables address space randomisation, if the system allows it.

    clang 22 orders some device variables by address, so its output can differ between randomised runs.
    """
    prefix = ("setarch", "-R")
    try:
        works = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix if works else ()


def bubblewrap(
    command: list[str],
    scratch: Path,
    read_only: Iterable[Path],
    env: Mapping[str, str],
    filter_fd: int | None,
    limits: SandboxLimits,
    mounts: Mapping[str, Path],
) -> list[str]:
    """The bwrap command line: new namespaces, no capabilities, read-only /usr, size-limited private /tmp, /dev/shm."""
    words = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    words += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]
    for name in ("/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin"):
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        words += ["--ro-bind-try", name, name]
    size = str(limits.file_bytes)
    words += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    words += ["--size", size, "--tmpfs", "/tmp"]
    for path in read_only:
        words += ["--ro-bind", str(path.resolve()), str(path.resolve())]
    for place, path in mounts.items():
        words += ["--ro-bind", str(path.resolve()), place]
    words += ["--bind", str(scratch), str(scratch), "--chdir", str(scratch), "--clearenv"]
    for key, value in env.items():
        words += ["--setenv", key, value]
    if filter_fd is not None:
        words += ["--seccomp", str(filter_fd)]
    return [*words, "--", *command]
