"""Kernel-enforced limits: one control group (cgroups v2) per sandbox, below a folder that the user delegates.

$HIPSYNTH_CGROUP names that folder, in which `memory` and `pids` are enabled for children. Without it, memory and
processes are polled (monitor.py), which a program can exceed for as long as a poll takes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Sequence
from pathlib import Path

from hipsynth.core.errors import UsageError
from hipsynth.core.reasons import Reason
from hipsynth.toolchain.sandbox.limits import SandboxLimits

NEEDED = ("memory", "pids")
PREFIX = "hipsynth-"
OWN_PROCESSES = 2  # bubblewrap and the supervisor
# Runs the command that follows, in the group whose folder is $0, from its first instruction on.
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_numbers = itertools.count()


def delegated_folder() -> Path | None:
    """The folder that $HIPSYNTH_CGROUP names, or None if it is not set. Raises UsageError if it cannot be used."""
    name = os.environ.get("HIPSYNTH_CGROUP")
    if not name:
        return None
    folder = Path(name)
    try:
        enabled = (folder / "cgroup.subtree_control").read_text().split()
    except OSError as error:
        raise _unusable_folder_error(folder, f"it is no folder of cgroups v2: {error}") from error
    lacking = [controller for controller in NEEDED if controller not in enabled]
    if lacking:
        raise _unusable_folder_error(folder, f"{' and '.join(lacking)} not enabled in {folder}/cgroup.subtree_control")
    if not os.access(folder, os.W_OK):
        raise _unusable_folder_error(folder, "this user may not make groups in it")
    return folder


def _unusable_folder_error(folder: Path, cause: str) -> UsageError:
    return UsageError(
        f"HIPSYNTH_CGROUP={folder} cannot be used",
        cause=cause,
        remedy="delegate a folder (docs/explanation/security.md), or unset HIPSYNTH_CGROUP (then limits are polled)",
        reason=Reason.BAD_CGROUP,
    )


class Group:
    """The control group of one sandbox."""

    def __init__(self, above: Path) -> None:
        """Makes a new group in the folder `above`, and removes those of dead processes. Raises UsageError."""
        _sweep_groups(above)
        self.folder = above / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        self._killed_before = 0
        try:
            self.folder.mkdir()
        except OSError as error:
            raise _unusable_folder_error(above, str(error)) from error

    def enter_group(self, command: Sequence[str]) -> list[str]:
        """The command line that runs `command` in this group."""
        return ["/bin/sh", "-c", _ENTER, str(self.folder), *command]

    def set_limits(self, limits: SandboxLimits) -> None:
        """Sets the limits for the next job. Raises UsageError."""
        tasks = limits.processes + limits.threads + OWN_PROCESSES  # the kernel counts threads
        # The files of its folder are in memory, too, with a limit of their own.
        rows = {"memory.max": limits.memory_bytes + limits.scratch_bytes, "memory.swap.max": 0, "pids.max": tasks}
        try:
            for name, value in rows.items():
                if name != "memory.swap.max" or (self.folder / name).exists():  # absent in kernels without swap
                    (self.folder / name).write_text(f"{value}\n")
        except OSError as error:
            raise _unusable_folder_error(self.folder, str(error)) from error
        self._killed_before = self._count_killed()

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel has killed a process for memory since the last call of `limit`."""
        return self._count_killed() > self._killed_before

    def _count_killed(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            rows = dict(line.split() for line in (self.folder / "memory.events").read_text().splitlines())
            return int(rows.get("oom_kill", 0))
        return 0

    def close(self) -> None:
        """Kills everything in the group and removes it."""
        _remove_group(self.folder)


def _remove_group(folder: Path) -> None:
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1\n")
    for _ in range(100):  # killed processes take a moment to leave
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.01)
        else:
            return


def _sweep_groups(above: Path) -> None:
    """Removes the groups of processes that were killed."""
    for folder in above.glob(f"{PREFIX}*-*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            _remove_group(folder)
