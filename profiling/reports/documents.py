"""The documents of profiles and runs. What makes them is in profiling/reports/describe.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hipsynth.core.documents import json_name
from hipsynth.core.kernel_record import Dim, Occupancy, Registers, TimingBounds, Traffic, Work
from hipsynth.profiling.lines.line_records import Amounts
from hipsynth.profiling.metrics.bottleneck import Bottleneck
from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.simulator.observation import Output
from hipsynth.simulator.transfers import Transfer


@dataclass(frozen=True)
class ProgramIdentity:
    """A program of a document: the hash of its text, and the path that was given."""

    id: str
    path: str


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """The error of one metric against hardware recordings, for kernels of this duration class on this device.

    `covered` is false if the kernel has a feature that affects the metric and that no recorded kernel has. `range`:
    what 80 % of the recorded kernels of this `class` stay within, in `unit`, with constants fitted without them; null
    for metrics that need none. `range_wide`: fewer than three kinds of such kernels were recorded.
    """

    __pydantic_config__: ClassVar[Mapping[str, object]] = {"alias_generator": json_name}

    median: float
    worst: float
    unit: str
    n: int
    compared: str
    device: str
    kernels: tuple[str, ...]
    covered: bool
    class_: str
    range: float | None
    range_wide: bool


@dataclass(frozen=True)
class _Place:
    file: str
    line: int


@dataclass(frozen=True)
class LineCost(Amounts, _Place):
    """What one line of a source file costs, per dispatch. Line 0 of file "": instructions of no line."""


@dataclass(frozen=True)
class _Extent(_Place):
    last: int
    depth: int
    passes: float


@dataclass(frozen=True)
class LoopCost(Amounts, _Extent):
    """What a loop costs, per dispatch: lines `line` to `last`, `depth` 1 for an outermost one, `passes` of waves."""


@dataclass(frozen=True, kw_only=True)
class ProfiledKernel:
    """One kernel of a profile: counters and duration (ns) are means per dispatch, `grid` counts work-groups.

    `extra_metrics` holds the other metrics of the metric table. For simulated kernels, `expected_error` is the error of
    each metric against hardware recordings (null: no evidence), `no_evidence` lists features that no recorded kernel
    has, and `bottleneck` describes what limits the kernel; for kernels measured on hardware all three are null.
    `sampled` and `groups_simulated` describe the sampling, `error_estimate` (counter or "Duration" -> relative error)
    and `metric_error_estimate` (metric -> error in its unit) the error that it adds, which 9 of 10 stay below; `reused`
    dispatches repeated earlier ones (docs/explanation/repeated-launches.md). With --lines: `registers`, `lines`,
    `loops`, and in `lines_without` the events that no instruction was seen to cause.
    """

    name: str
    dispatches: int
    grid: Dim
    block: Dim
    counters: Mapping[str, float]
    metrics: Mapping[str, float | None]
    duration_ns: float
    backend: str
    backend_version: str
    extra_metrics: Mapping[str, float | None]
    expected_error: Mapping[str, ExpectedError | None] | None
    no_evidence: tuple[str, ...] | None
    bottleneck: Bottleneck | None
    sampled: bool
    groups_simulated: int | None
    reused: int | None
    error_estimate: Mapping[str, float]
    metric_error_estimate: Mapping[str, float]
    registers: Registers | None = None
    lines: tuple[LineCost, ...] | None = None
    loops: tuple[LoopCost, ...] | None = None
    lines_without: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class ProfileResult:
    """A program on one target. `budget`: what became of all launches of a run within one; `transfers`: copies and
    fills, with `clock_ns`, the simulated time from the first operation to the end of the last."""

    budget: tuple[Spending, ...] | None = None
    transfers: tuple[Transfer, ...] | None = None
    clock_ns: float | None = None
    arch: str
    flags: str
    status: str
    reason: str
    exit_code: int | None
    stdout: str
    kernels: tuple[ProfiledKernel, ...]
    device: str
    message: str
    plot: RooflinePlot


@dataclass(frozen=True)
class ProfileDocument:
    """The document of `synth profile --json`, and of the server's jobs."""

    program: ProgramIdentity
    results: tuple[ProfileResult, ...]


@dataclass(frozen=True, kw_only=True)
class ExecutedKernel:
    """One kernel of `synth run --json`: amounts are totals over its dispatches."""

    name: str
    dispatches: int
    grid: Dim
    block: Dim
    duration_ns: float
    counters: Mapping[str, float]
    symbol: str
    signature: str
    same_shape: bool
    registers: Registers | None
    occupancy: Occupancy | None
    limits: TimingBounds | None
    work: Work | None
    traffic: Traffic | None
    bottleneck: str
    sampled: bool
    groups_simulated: int
    reused: int
    error_estimate: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class ExecutedDispatch(ExecutedKernel):
    """One launch; `kernel`: the number of its kernel in `kernels`."""

    kernel: int


@dataclass(frozen=True, kw_only=True)
class RunDocument:
    """The document of `synth run --json`. `dispatches` holds the first launches; `files`: those that it wrote."""

    path: str
    arch: str
    flags: str
    status: str
    reason: str
    message: str
    exit_code: int | None
    stdout: str
    stderr: str
    kernels: tuple[ExecutedKernel, ...]
    dispatches: tuple[ExecutedDispatch, ...]
    dispatch_count: int
    clock_ns: float
    spending: tuple[Spending, ...]
    outputs: tuple[Output, ...]
    transfers: tuple[Transfer, ...]
    device_s: float
    warnings: tuple[str, ...]
    wall_s: float
    cpu_s: float
    isolated: bool
    output_cut: bool
    files: tuple[str, ...]
