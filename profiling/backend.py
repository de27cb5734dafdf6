"""The protocol that every profiling backend answers, and the results it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from synth.program import Program

# Stretches of a large grid that a profile runs between the first and the last one, unless told otherwise.
STRETCHES = 12


@dataclass(frozen=True)
class Limits:
    """Bounds on one run; passing one is a result with a reason, never a hang.

    `time_s` is processor time of the program on the simulator, whatever else the machine does (and the longest that
    it may idle); on a GPU it is time on the clock.
    `strict_bounds=False` lets accesses go on that leave an array but stay in memory which hardware maps around it;
    they become warnings. `stretches` bounds the work on large grids: so many representative parts run besides the
    first and the last, and their counts are scaled up; 0 runs every grid in full. Small grids are always run in full:
    how large that is, and how long a grid may take to be followed, goes with `effort`, as a multiple of what is usual.
    """

    time_s: float = 60.0
    wave_instructions: int = 2_000_000_000
    memory_bytes: int = 8 << 30
    output_bytes: int = 1 << 20
    stretches: int = STRETCHES
    effort: float = 1.0
    strict_bounds: bool = True


@dataclass(frozen=True)
class Target:
    """One cell of the matrix: an architecture table (device) and the compiler flags."""

    arch: str  # "gfx90a" | "gfx942"
    flags: str  # as given on the command line, e.g. "-O3 -ffast-math"
    device: str  # name of a table in profiling/archs, e.g. "mi250"


@dataclass(frozen=True)
class KernelResult:
    """One kernel of one run, summed over its dispatches (duration_ns and counters are means per dispatch)."""

    name: str
    dispatches: int
    grid: tuple[int, int, int]  # work-groups
    block: tuple[int, int, int]  # work-items
    counters: Mapping[str, float]
    metrics: Mapping[str, float | None]
    duration_ns: float
    backend: str
    backend_version: str
    details: Mapping[str, Any] = field(default_factory=dict)  # e.g. bottleneck shares, registers, occupancy
    sampled: bool = False  # counters are scaled up from a part of the grid; results were not computed
    groups_simulated: int | None = None  # work-groups that ran, over all dispatches
    # Of a sampled kernel: counter, or "Duration" -> expected relative error of the scaling (two standard deviations).
    error_estimate: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class TargetResult:
    """What happened to one program on one target. `status` is "ok" or "failed"; `reason` says which failure."""

    arch: str
    flags: str
    device: str
    status: str
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    kernels: tuple[KernelResult, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)  # compiler, headers, backend, device ... versions


@dataclass(frozen=True)
class Availability:
    ok: bool
    detail: str
    remedy: str = ""


class Backend(Protocol):
    """Three questions: are you here, which target can you do, and what happens to this program on it."""

    name: str

    def version(self) -> str: ...

    def available(self) -> Availability: ...

    def supports(self, target: Target) -> bool: ...

    def profile(self, program: Program, target: Target, scratch: Path, limits: Limits) -> TargetResult: ...
