"""Bounds on a sandboxed run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

MIB = 1 << 20
TIME_REASONS = ("wall_time", "cpu_time", "idle_time")


@dataclass(frozen=True)
class SandboxLimits:
    """Bounds on one run. Memory is what its processes have resident; address space is free (arenas reserve much).

    Time is what its processes use together (`cpu_s`), and what they spend neither running nor waiting for a processor
    (`idle_s`): a busy machine changes neither. `wall_s` is there for what neither sees.
    """

    wall_s: float = 660.0
    cpu_s: float = 60.0
    idle_s: float = 60.0
    memory_bytes: int = 8 << 30
    output_bytes: int = MIB  # kept of stdout and of stderr each; a program that writes 64 times as much is killed
    file_bytes: int = 256 * MIB  # one file
    scratch_bytes: int = 1 << 30  # all files in the scratch folder
    open_files: int = 256
    processes: int = 1  # 1 = may not fork
    threads: int = 512


@dataclass(frozen=True)
class SandboxResult:
    """`status`: ok (exit code 0) | failed (exit code or signal of its own) | timeout | killed (a limit was passed).

    `reason` is "" for ok, else one of: exit_code, signal, forbidden_call, wall_time, cpu_time, idle_time, memory,
    output, file_size, disk, processes, threads, not_started. `isolated` is False when only the limits held.
    """

    status: str
    reason: str
    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    wall_s: float
    peak_memory_bytes: int
    isolated: bool
    cpu_s: float = 0.0


WALL_FACTOR, WALL_EXTRA_S = 10.0, 60.0  # of the processor's and idle time allowed


class TimeLimits(TypedDict):
    """Those fields of SandboxLimits."""

    wall_s: float
    cpu_s: float
    idle_s: float


def time_limits(seconds: float) -> TimeLimits:
    """The three limits on time of a run that may work, or idle, for so many seconds."""
    return {"cpu_s": seconds, "idle_s": seconds, "wall_s": seconds * WALL_FACTOR + WALL_EXTRA_S}
