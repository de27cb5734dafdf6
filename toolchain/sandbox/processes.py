"""Inspects running processes through /proc: descendants, memory, threads, processor time."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from pathlib import Path

from hipsynth.toolchain.sandbox.limits import JobEnd

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_BUSY_SHARE = 0.05  # an interval counts as idle if less than this share was spent running or runnable
SAMPLE_S = 0.1


class ProcessTimeMeter:
    """Measures busy and idle time of a process tree, independent of the machine's load.

    `cpu_s`: processor time of all processes. `idle_s`: time in which none of them ran or waited for a processor. Time
    spent waiting for a processor counts as neither. Call `sample` regularly; it updates both.
    """

    def __init__(self, pids: Sequence[int] = ()) -> None:
        """`pids`: processes that exist already; what they have used so far does not count."""
        self.cpu_s = self.idle_s = 0.0
        self.start = self.last = time.monotonic()
        self.worked = 0.0  # seconds running or runnable, at the last sample
        self.cpu_before = sum(cpu_seconds(pid) for pid in pids)
        self.queued_before = sum(_queued_seconds(pid) for pid in pids)

    def sample(self, pids: Sequence[int]) -> None:
        """Updates the times from the processes `pids`; does nothing within SAMPLE_S of the last update."""
        now = time.monotonic()
        if now - self.last < SAMPLE_S:
            return
        self.cpu_s = max(self.cpu_s, sum(cpu_seconds(pid) for pid in pids) - self.cpu_before)
        worked = self.cpu_s + sum(_queued_seconds(pid) for pid in pids) - self.queued_before
        if worked - self.worked < _BUSY_SHARE * (now - self.last) and not any(map(_is_runnable, pids)):
            self.idle_s += now - self.last
        self.worked, self.last = worked, now

    def exceeded_limit(self, cpu_s: float, idle_s: float, wall_s: float) -> JobEnd:
        """The exceeded limit of time, or FINISHED."""
        if self.cpu_s > cpu_s:
            return JobEnd.CPU_TIME
        if self.idle_s > idle_s:
            return JobEnd.IDLE_TIME
        return JobEnd.WALL_TIME if time.monotonic() - self.start > wall_s else JobEnd.FINISHED


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and its reaped children; 0 if it no longer exists."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a hot path
            fields = file.read().rpartition(")")[2].split()
        return sum(int(field) for field in fields[11:15]) * _TICK_S
    except (OSError, IndexError, ValueError):
        return 0.0


def _queued_seconds(pid: int) -> float:
    """Seconds that the threads of a process have waited for a processor; 0 if the kernel does not count it."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:  # noqa: PTH123
                total += int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        pass
    return total / 1e9


def _is_runnable(pid: int) -> bool:
    """Whether a thread of a process runs, or waits for a processor: such a wait is counted only when it ends."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            with open(f"/proc/{pid}/task/{task}/stat") as file:  # noqa: PTH123
                if file.read().rpartition(")")[2].split()[0] == "R":
                    return True
    except (OSError, IndexError):
        pass
    return False


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def child_processes(pid: int) -> list[int]:
    """The processes that the first thread of `pid` started."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def living_descendants(pid: int) -> list[int]:
    """`pid` and all its living descendants."""
    descendants, queue = [], [pid]
    while queue:
        current = queue.pop()
        descendants.append(current)
        try:
            for task in os.listdir(f"/proc/{current}/task"):  # noqa: PTH208
                with open(f"/proc/{current}/task/{task}/children") as file:  # noqa: PTH123 - a hot path
                    queue += [int(child) for child in file.read().split()]
        except OSError:
            continue
    return descendants


# Page tables too: reading 2 MiB of untouched memory takes 4 KiB of them. Line breaks in a program's name are escaped.
_HELD = re.compile(rb"^Vm(?:RSS|Swap|PTE):\s+(\d+) kB$", re.MULTILINE)
_FILE_BYTES = 1 << 10  # what an empty file or folder takes at least, in memory or on disk


def resident_bytes(pid: int) -> int:
    """Memory that a process holds in bytes: resident, swapped and page tables; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:  # noqa: PTH123 - a hot path
            return sum(map(int, _HELD.findall(file.read()))) << 10
    except OSError:
        return 0


def thread_count(pid: int) -> int:
    """Number of threads of a process; 0 if it has ended."""
    try:
        return len(os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208
    except OSError:
        return 0


def folder_bytes(folder: Path) -> int:
    """Disk usage below a folder in bytes; files that vanish during the walk are not counted."""
    total, queue = 0, [str(folder)]
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    total += max(_FILE_BYTES, entry.stat(follow_symlinks=False).st_blocks * 512)
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
        except OSError:
            continue
    return total
