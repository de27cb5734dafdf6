"""Builds the command line that isolates a program: bubblewrap namespaces, an unprivileged user, resource limits.

A sandboxed program never runs as the host's root, not even in a user namespace: uid 1000 inside such a namespace would
be uid 0 for the kernel's own files (/proc/sys). Root therefore creates the namespaces itself and switches to an
unprivileged user inside; other users use a user namespace. Where that does not work there is no sandbox.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hipsynth.core.errors import MissingDependency
from hipsynth.core.folders import copy_folder
from hipsynth.core.scratch import process_folder, scratch_folder
from hipsynth.toolchain.sandbox.seccomp import seccomp_file

UNPRIVILEGED = 65534  # "nobody": exists in every container that maps the usual 65536 ids
# Kernel interfaces that are masked. All of /proc is read-only.
_MASKED = (
    "/proc/kcore",
    "/proc/kallsyms",
    "/proc/keys",
    "/proc/timer_list",
    "/proc/latency_stats",
)
_MASKED_FOLDERS = ("/proc/pressure",)
PATH = "/usr/bin:/bin"
TEMPORARY_FOLDERS = ("/tmp", "/dev/shm")  # that programs write to besides their own
TEMPORARY_BYTES = 256 << 20  # size of /tmp and of /dev/shm in a sandbox
_PROBE = 'test "$(id -u)" != 0 && ! test -w /proc/sys/kernel/core_pattern && ! test -w /proc/sysrq-trigger'


def switched_off() -> bool:
    """Whether the user chose, for all commands, to run programs without isolation ($HIPSYNTH_SANDBOX=off)."""
    return os.environ.get("HIPSYNTH_SANDBOX") == "off"


def require_sandbox() -> None:
    """Raises MissingDependency if programs cannot be isolated on this machine, unless isolation is switched off."""
    if not is_available() and not switched_off():
        raise MissingDependency(
            "programs cannot be isolated here: they could read your files and use the network",
            cause=why_unavailable(),
            remedy="apt install bubblewrap, or allow user namespaces in this container; --no-sandbox (for all "
            "commands: HIPSYNTH_SANDBOX=off) runs programs with your rights. `synth doctor` shows details",
        )


@functools.cache
def why_unavailable() -> str:
    """Why sandboxes do not work here, or "". A probe in one must not be root nor be able to write kernel settings."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    with seccomp_file(forks=True) as filter_fd:
        probe = command_line(["/bin/sh", "-c", _PROBE], None, 0, filter_fd, {})
        fds = () if filter_fd is None else (filter_fd,)
        try:
            process = subprocess.run(probe, capture_output=True, text=True, timeout=10, check=False, pass_fds=fds)
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
    if process.returncode == 0:
        return ""
    return process.stderr.strip() or "a program in the sandbox could change kernel settings"


def is_available() -> bool:
    """Whether programs can be isolated on this machine."""
    return not why_unavailable()


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


def hand_over_below(folder: Path, paths: Iterable[Path]) -> None:
    """Lets the user that sandboxed programs run as read those of `paths` that lie below this process's `folder`.

    Does nothing unless this process is root.
    """
    if not _is_root():
        return
    for path in paths:
        if not path.is_relative_to(folder) or path == folder:
            continue
        for parent in path.parents:
            if parent == folder:
                break
            parent.chmod(0o711)
        if path.is_dir():
            hand_over(path)
        else:
            os.chown(path, UNPRIVILEGED, UNPRIVILEGED, follow_symlinks=False)


@contextlib.contextmanager
def make_readable(path: Path) -> Iterator[Path]:
    """`path`, or a copy of it while the block runs if the unprivileged user of root's sandboxes may not read it.

    The owner and mode of the original stay as they are.
    """
    needed = 0o005 if path.is_dir() else 0o004
    is_open = path == process_folder().resolve() or (path.exists() and path.stat().st_mode & needed == needed)
    if not _is_root() or is_open or not path.exists():
        yield path
        return
    with scratch_folder() as folder:
        copy = folder / path.name
        if path.is_dir():
            copy_folder(path, copy, links=True)
        else:
            shutil.copy(path, copy)
        hand_over(folder)
        yield copy


def _is_root() -> bool:
    return os.geteuid() == 0


def _become_unprivileged() -> list[str]:
    user = str(UNPRIVILEGED)
    words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    return [*words, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"]


def _namespace_arguments() -> list[str]:
    """bwrap's arguments for namespaces and privileges."""
    if _is_root():
        words = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        # setpriv needs these to drop privileges; it then drops them too.
        capabilities = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
        return [*words, "--cap-drop", "ALL", *(word for cap in capabilities for word in ("--cap-add", cap))]
    ids = ["--uid", "1000", "--gid", "1000"]
    return ["--unshare-all", "--unshare-user", "--disable-userns", *ids, "--cap-drop", "ALL"]


def _system_arguments() -> list[str]:
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


def _kernel_files() -> list[str]:
    """bwrap's arguments for a private read-only /proc, a minimal /dev, and TEMPORARY_FOLDERS of a fixed size."""
    words = ["--proc", "/proc"]
    for name in _MASKED:
        if Path(name).exists():
            words += ["--ro-bind", "/dev/null", name]
    for name in _MASKED_FOLDERS:
        if Path(name).is_dir():
            words += ["--tmpfs", name, "--remount-ro", name]
    words += ["--remount-ro", "/proc"]
    # Shared mappings of /dev/zero are memory that no limit sees; /dev/full reads the same and cannot be mapped.
    words += [
        "--dev",
        "/dev",
        "--dev-bind",
        "/dev/full",
        "/dev/zero",
        *_file_system("/dev/shm", TEMPORARY_BYTES, "1777"),
    ]
    return [*words, "--remount-ro", "/dev", *_file_system("/tmp", TEMPORARY_BYTES, "1777")]


def _file_system(place: str, size: int, mode: str) -> list[str]:
    """bwrap's arguments for a file system in memory."""
    return ["--size", str(size), "--perms", mode, "--tmpfs", place]


def _parent_arguments(paths: Iterable[Path]) -> list[str]:
    """bwrap's arguments for the parent folders of mounted paths, which it would otherwise create for root only."""
    given_paths = {Path("/"), Path("/usr"), *map(Path, TEMPORARY_FOLDERS)}
    folders = sorted({parent for path in paths for parent in path.parents} - given_paths)
    return [word for folder in folders for word in ("--perms", "0755", "--dir", str(folder))]


def _top_folders(paths: Iterable[Path]) -> list[Path]:
    """The folders right below TEMPORARY_FOLDERS that other paths lie in."""
    above = {path: (*reversed(path.parents),) for path in paths}
    pairs = [(folders[at + 1], folder) for folders in above.values() for at, folder in enumerate(folders[:-1])]
    return sorted({top for top, folder in pairs if str(folder) in TEMPORARY_FOLDERS})


def command_line(
    command: list[str],
    writable: Path | None,
    writable_bytes: int,
    filter_fd: int | None,
    paths_shown: Mapping[Path, Path],
) -> list[str]:
    """The command line that runs `command` as process 1 of a sandbox.

    It sees /usr and `paths_shown` (path inside -> path outside) read-only, and may write to TEMPORARY_FOLDERS and to a
    file system in memory of `writable_bytes` at `writable`. `filter_fd`: where bwrap reads the system call filter.
    """
    words = ["bwrap", *_namespace_arguments(), "--as-pid-1", "--new-session", "--hostname", "sandbox"]
    words += [*_system_arguments(), *_kernel_files()]
    places = [*paths_shown, *([writable] if writable else [])]
    tops = _top_folders(places)  # in a file system each, or jobs could rename them and change their modes
    for top in tops:
        words += ["--perms", "0755", "--tmpfs", str(top)]
    words += _parent_arguments(places)
    for inside, outside in paths_shown.items():
        words += ["--ro-bind", str(outside), str(inside)]
    if writable:
        words += _file_system(str(writable), writable_bytes, "0755")
    for top in tops:
        words += ["--remount-ro", str(top)]
    words += ["--remount-ro", "/"]  # the root folder is a file system in memory, which all jobs would share
    # Jobs change to their folder themselves: it may belong to the user that they become later.
    words += ["--chdir", "/", "--clearenv", "--setenv", "PATH", PATH]
    if filter_fd is not None:
        words += ["--seccomp", str(filter_fd)]
    return [*words, "--", *(_become_unprivileged() if _is_root() else ()), *command]
