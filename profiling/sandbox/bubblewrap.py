"""Builds the command line that isolates a program: bubblewrap namespaces, an unprivileged user, resource limits.

A sandboxed program never runs as the host's root, not even in a user namespace: uid 1000 inside such a namespace would
be uid 0 for the kernel's own files (/proc/sys). Root therefore creates the namespaces itself and switches to an
unprivileged user inside; other users use a user namespace. Where that does not work there is no sandbox.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hipsynth.profiling.sandbox.limits import SandboxLimits
from hipsynth.profiling.sandbox.seccomp import seccomp_file
from hipsynth.synth.core.errors import Missing
from hipsynth.synth.core.folders import copy_folder

UNPRIVILEGED = 65534  # "nobody": exists in every container that maps the usual 65536 ids
# Kernel interfaces of /proc that are masked, besides /proc/sys, which is read-only.
_MASKED = (
    "/proc/sysrq-trigger",
    "/proc/kcore",
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/latency_stats",
)
_PROBE = 'test "$(id -u)" != 0 && ! test -w /proc/sys/kernel/core_pattern && ! test -w /proc/sysrq-trigger'


@functools.cache
def available() -> bool:
    """Whether sandboxes work on this machine: a probe runs in one, is not root, and cannot write kernel settings."""
    if shutil.which("bwrap") is None:
        return False
    with seccomp_file(forks=True) as filter_fd:
        probe = command_line(["/bin/sh", "-c", _PROBE], None, {}, filter_fd, SandboxLimits(), {})
        fds = () if filter_fd is None else (filter_fd,)
        try:
            done = subprocess.run(probe, capture_output=True, timeout=10, check=False, pass_fds=fds)
        except (OSError, subprocess.SubprocessError):
            return False
    return done.returncode == 0


def require() -> None:
    """Raises Missing if programs cannot be isolated on this machine."""
    if not available():
        raise Missing(
            "programs cannot be isolated here: they could read your files and use the network",
            cause="bubblewrap (bwrap) is not installed, or this machine does not allow it to create namespaces",
            remedy="apt install bubblewrap; in a container, run as an ordinary user and allow user namespaces. "
            "`synth doctor` shows details",
        )


def limited(command: list[str], folder: Path, limits: SandboxLimits) -> list[str]:
    """The command in `folder` under resource limits, set by a shell that then execs it (no fork, about 1 ms)."""
    # Limits apply per process. The soft limit sends SIGXCPU; the hard limit, two seconds later, kills.
    seconds = max(1, math.ceil(limits.cpu_s) + 1)
    settings = (
        f"ulimit -c 0; ulimit -S -t {seconds}; ulimit -H -t {seconds + 2}; "
        f"ulimit -f {max(1, limits.file_bytes // 512)}; ulimit -n {limits.open_files}; "
    )
    return ["/bin/sh", "-c", settings + 'cd "$0" && exec "$@"', str(folder), *_fixed_layout(), *command]


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


def hand_over(folder: Path) -> None:
    """Changes the owner of a scratch folder and its contents to the user that sandboxed programs run as.

    Does nothing unless this process is root. Symbolic links are not followed.
    """
    if not _is_root():
        return
    os.chown(folder, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            os.chown(os.path.join(place, name), UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)  # noqa: PTH118


@contextlib.contextmanager
def readable(path: Path) -> Iterator[Path]:
    """`path`, or a copy of it while the block runs if the unprivileged user of root's sandboxes may not read it."""
    needed = 0o005 if path.is_dir() else 0o004
    if not _is_root() or not path.exists() or path.stat().st_mode & needed == needed:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="hipsynth-") as folder:
        copy = Path(folder) / path.name
        if path.is_dir():
            copy_folder(path, copy)
        else:
            shutil.copy(path, copy)
        hand_over(Path(folder))
        yield copy


def _is_root() -> bool:
    return os.geteuid() == 0


def _become_unprivileged() -> list[str]:
    user = str(UNPRIVILEGED)
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return [*words, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]


def _namespaces() -> list[str]:
    """bwrap's arguments for namespaces and privileges."""
    if _is_root():
        words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        # setpriv needs these to drop privileges; it then drops them too.
        kept = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
        return [*words, "--cap-drop", "ALL", *(word for cap in kept for word in ("--cap-add", cap))]
    ids = ["--uid", "1000", "--gid", "1000"]
    return ["--unshare-all", "--unshare-user", "--disable-userns", *ids, "--cap-drop", "ALL"]


def _system() -> list[str]:
    """bwrap's arguments for the files that every program sees: /usr and the loader's files, read-only."""
    words = ["--ro-bind", "/usr", "/usr"]
    for name in ("/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin"):
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    words += ["--perms", "0755", "--dir", "/etc"]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        words += ["--ro-bind-try", name, name]
    return words


def _kernel_files(limits: SandboxLimits) -> list[str]:
    """bwrap's arguments for a private /proc without kernel settings, a minimal /dev, size-limited /dev/shm and /tmp."""
    words = ["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]
    for name in _MASKED:
        if Path(name).exists():
            words += ["--ro-bind", "/dev/null", name]
    size = str(limits.file_bytes)
    words += ["--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    return [*words, "--size", size, "--perms", "1777", "--tmpfs", "/tmp"]


def _parents(paths: Iterable[Path]) -> list[str]:
    """bwrap's arguments for the parent folders of mounted paths, which it would otherwise create for root only."""
    folders = sorted({parent for path in paths for parent in path.parents} - {Path("/"), Path("/tmp"), Path("/usr")})
    return [word for folder in folders for word in ("--perms", "0755", "--dir", str(folder))]


def command_line(
    command: list[str],
    scratch: Path | None,
    env: Mapping[str, str],
    filter_fd: int | None,
    limits: SandboxLimits,
    mounts: Mapping[Path, Path],
) -> list[str]:
    """The command line that runs `command` in a sandbox.

    It sees /usr and `mounts` (path inside -> path outside) read-only, and may write to `scratch`, /tmp and /dev/shm.
    `filter_fd`: where bwrap reads the system call filter.
    """
    words = ["bwrap", *_namespaces(), "--die-with-parent", "--new-session", "--hostname", "sandbox"]
    words += [*_system(), *_kernel_files(limits)]
    binds = [("--ro-bind", outside, inside) for inside, outside in mounts.items()]
    binds += [("--bind", scratch, scratch)] if scratch else []
    words += _parents(inside for _, _, inside in binds)
    for kind, outside, inside in binds:
        words += [kind, str(outside), str(inside)]
    words += ["--chdir", "/", "--clearenv"]  # the scratch folder belongs to the user that the program becomes later
    for key, value in env.items():
        words += ["--setenv", key, value]
    if filter_fd is not None:
        words += ["--seccomp", str(filter_fd)]
    return [*words, "--", *(_become_unprivileged() if _is_root() else ()), *command]
