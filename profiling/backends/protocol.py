"""The protocol that every profiling backend implements, and the results it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.languages import HIP
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.lines.line_records import KernelLines
from hipsynth.simulator.autotunings import Autotuning
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.transfers import Transfer


@dataclass(frozen=True)
class Target:
    """One cell of the matrix: an architecture, a device and the compiler flags."""

    arch: str  # "gfx90a" | "gfx942" | "gfx950"
    flags: str  # as given on the command line, e.g. "-O3 -ffast-math"
    device: str  # name of a table in simulator/devices, e.g. "mi250"


@dataclass(frozen=True)
class TargetResult:
    """Result of one program on one target; `reason` is why its `status` is not OK.

    A PARTIAL result is of a program that was ended before its end, within a budget with the reason "budget": `kernels`
    are those that ended. `spending` is what became of all launches, and `times` where processor time went, in seconds.
    """

    arch: str
    flags: str
    device: str
    status: RunStatus
    reason: Reason = Reason.NONE
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    # The same launches by kernel, grid and block, in the order of first launches, where the backend tells them apart;
    # () if each kernel has one shape.
    shapes: tuple[KernelRecord, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)  # compiler, headers, backend, device ... versions
    spending: tuple[Spending, ...] = ()
    transfers: tuple[Transfer, ...] = ()  # copies and fills; a program of nothing else is "ok" without kernels
    host_operators: Mapping[str, int] = field(default_factory=dict)  # of PyTorch, on the CPU; they take no GPU time
    autotunings: tuple[Autotuning, ...] = ()  # of a script with Triton kernels
    clock_ns: float = 0.0  # simulated time from the first operation to the end of the last; host code takes none
    lines: tuple[KernelLines, ...] = ()  # with RunLimits.lines: of the kernels that were compiled with the program
    diagnostics: str | None = None  # the compiler's, of a program that it refuses
    times: Mapping[str, float] = field(
        default_factory=dict, compare=False
    )  # compiling (elapsed), host code, device code

    @property
    def launches(self) -> tuple[KernelRecord, ...]:
        """A record for each kernel and launch shape, as far as the backend tells them apart."""
        return self.shapes or self.kernels


def describe_target(arch: str, device: str, flags: str) -> str:
    """A target as reports name it: "gfx942 (mi300x)  -O3", without flags for a Python script."""
    return f"{arch} ({device})  {flags}".rstrip()


@dataclass(frozen=True)
class Availability:
    """Whether a backend can run here; `detail` says with which parts or what is missing, `remedy` what to do."""

    ok: bool
    detail: str
    remedy: str = ""


class Backend(Protocol):
    """A profiling tool: its availability, version and supported targets, and profiling of one program on one target."""

    name: str

    def version(self) -> str: ...

    def available(self) -> Availability: ...

    def supports(self, target: Target) -> bool: ...

    def environment(self, target: Target, language: str = HIP) -> Mapping[str, str]:
        """Further versions that affect results of programs in a language: `compiler`, `headers`; {} if the backend
        compiles nothing."""
        ...

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult: ...


def failed_result(
    target: Target, reason: Reason, message: str, provenance: Mapping[str, str] | None = None
) -> TargetResult:
    """The result of a program that has no labels for `target`, with the reason and a message for its user."""
    return TargetResult(
        target.arch, target.flags, target.device, RunStatus.FAILED, reason=reason, message=message,
        provenance=dict(provenance or {}),
    )  # fmt: skip
