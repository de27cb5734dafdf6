"""The protocol that every profiling backend answers, and the results it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from hipsynth.profiling.sim.limits import Limits
from hipsynth.synth.core.program import Program


@dataclass(frozen=True)
class Target:
    """One cell of the matrix: an architecture table (device) and the compiler flags."""

    arch: str  # "gfx90a" | "gfx942"
    flags: str  # as given on the command line, e.g. "-O3 -ffast-math"
    device: str  # name of a table in profiling/devices, e.g. "mi250"


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
