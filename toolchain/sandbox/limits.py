"""Limits and result of a sandboxed run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

MIB = 1 << 20
TIME_REASONS = ("wall_time", "cpu_time", "idle_time")


@dataclass(frozen=True)
class SandboxLimits:
    """Limits on one run. `memory_bytes` limits resident memory, not address space (allocators reserve a lot).

    `cpu_s`: processor time of all processes together. `idle_s`: time in which none of them runs or waits for a
    processor. Neither depends on the machine's load. `wall_s`: backstop for cases that neither covers.
    """

    wall_s: float = 660.0
    cpu_s: float = 60.0
    idle_s: float = 60.0
    memory_bytes: int = 8 << 30
    output_bytes: int = MIB  # kept of stdout and stderr each; a program that writes 64 times as much is killed
    file_bytes: int = 256 * MIB  # one file
    scratch_bytes: int = 1 << 30  # all files in the scratch folder
    open_files: int = 256
    processes: int = 1  # 1: fork is forbidden
    threads: int = 512


@dataclass(frozen=True)
class SandboxResult:
    """`status`: ok (exit code 0) | failed (its own exit code or signal) | timeout | killed (a limit was exceeded).

    `reason`: "" for ok, else one of exit_code, signal, forbidden_call, wall_time, cpu_time, idle_time, memory, output,
    file_size, disk, processes, threads, moved (it moved its own folder), lost (something outside ended its sandbox),
    not_started. `isolated`: False if only the limits applied. `cut`: output beyond the limit was dropped.
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
    cut: bool = False


WALL_FACTOR, WALL_EXTRA_S = 10.0, 60.0  # wall_s = cpu_s * WALL_FACTOR + WALL_EXTRA_S


class TimeLimits(TypedDict):
    """The time fields of SandboxLimits."""

    wall_s: float
    cpu_s: float
    idle_s: float


def time_limits(seconds: float) -> TimeLimits:
    """The time limits for a run that may use `seconds` of processor time and be idle as long."""
    return {"cpu_s": seconds, "idle_s": seconds, "wall_s": seconds * WALL_FACTOR + WALL_EXTRA_S}
