"""Limits and result of a sandboxed run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

MIB = 1 << 20
OUTPUT_FACTOR = 64  # a program that writes so many times what is kept of its output is killed


class JobStatus(StrEnum):
    """How a sandboxed job ended. Its JobEnd says why."""

    OK = "ok"  # with exit code 0
    FAILED = "failed"  # with an exit code or signal of its own, or without a start
    TIMEOUT = "timeout"
    KILLED = "killed"  # it exceeded another limit, or was stopped


class JobEnd(StrEnum):
    """Why a sandboxed job ended."""

    FINISHED = ""  # with exit code 0
    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    FORBIDDEN_CALL = "forbidden_call"
    WALL_TIME = "wall_time"
    CPU_TIME = "cpu_time"
    IDLE_TIME = "idle_time"
    MEMORY = "memory"
    OUTPUT = "output"
    FILE_SIZE = "file_size"
    DISK = "disk"
    PROCESSES = "processes"
    THREADS = "threads"
    MOVED = "moved"  # it moved its own folder
    LOST = "lost"  # something outside ended its sandbox
    NOT_STARTED = "not_started"
    INTERRUPTED = "interrupted"  # this process was asked to stop


TIME_LIMITS = (JobEnd.WALL_TIME, JobEnd.CPU_TIME, JobEnd.IDLE_TIME)


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
    output_bytes: int = MIB  # kept of stdout and stderr each; see OUTPUT_FACTOR
    file_bytes: int = 256 * MIB  # one file
    scratch_bytes: int = 1 << 30  # all files in the scratch folder
    open_files: int = 256
    processes: int = 1  # 1: fork is forbidden
    threads: int = 512


@dataclass(frozen=True)
class SandboxResult:
    """`isolated`: False if only the limits applied. `cut`: output beyond the limit was dropped."""

    status: JobStatus
    reason: JobEnd
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
