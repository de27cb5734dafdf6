"""The documents of profiles and runs. profiling/reports/describe.py fills them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from hipsynth.core.documents import json_name
from hipsynth.core.kernel_record import Dim, Occupancy, Registers, TimingBounds, Traffic, Work
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.tabular import Row, TabularDocument, shape_text
from hipsynth.profiling.lines.line_records import Amounts, IntermediateOperation
from hipsynth.profiling.metrics.bottleneck import Bottleneck
from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.simulator.observation import Output
from hipsynth.simulator.run_result import Notice
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
class _CodePlace(_Place):
    address: int
    text: str
    issue_cycles: float


@dataclass(frozen=True)
class InstructionCost(Amounts, _CodePlace):
    """What one machine instruction costs, per dispatch: its place as of LineCost, its address in the code object, its
    text, and the cycles that issuing it took, summed over waves."""


@dataclass(frozen=True)
class _Extent(_Place):
    last: int
    depth: int
    passes: float


@dataclass(frozen=True)
class LoopCost(Amounts, _Extent):
    """What a loop costs, per dispatch: lines `line` to `last`, `depth` 1 for an outermost one, `passes` of waves."""


class WhatIfCause(StrEnum):
    """A cause of time that `--what-if` removes."""

    MEMORY = "memory"
    COALESCING = "coalescing"
    L1_MISSES = "l1_misses"
    L2_MISSES = "l2_misses"
    LATENCY = "latency"
    OCCUPANCY = "occupancy"
    LDS_CONFLICTS = "lds_conflicts"
    LDS = "lds"
    ATOMICS = "atomics"
    BARRIERS = "barriers"
    BRANCHES = "branches"
    VECTOR_ALU = "vector_alu"
    MATRIX_CORES = "matrix_cores"
    SCALAR_UNIT = "scalar_unit"
    WAVE_LAUNCH = "wave_launch"
    LAUNCH_OVERHEAD = "launch_overhead"


@dataclass(frozen=True)
class WhatIf:
    """What removing a cause is worth at most: the duration without it, and what that saves in ns and in per cent of
    the duration. `title`: what is assumed. What several are worth does not add up."""

    cause: WhatIfCause
    title: str
    duration_ns: float
    worth_ns: float
    worth_percent: float


@dataclass(frozen=True, kw_only=True)
class ProfiledKernel:
    """One kernel of a profile in one launch shape, in the order of first launches: counters and duration (ns) are means
    over its `dispatches`, `grid` counts work-groups. Without `same_shape`, it is of several shapes, and the grid is the
    first launch's: those of a program beyond the first 256, or of a backend that does not tell launches apart.

    `extra_metrics` holds the other metrics of the metric table. For simulated kernels, `expected_error` is the error
    of each metric against hardware recordings (null: no evidence), `no_evidence` lists features that no recorded
    kernel has, and `bottleneck` describes what limits the kernel; for kernels measured on hardware all three are
    null. `sampled` and `groups_simulated` describe the sampling, `error_estimate` (counter or "Duration" -> relative
    error) and `metric_error_estimate` (metric -> error in its unit) the error that it adds, which 9 of 10 stay below;
    `reused` dispatches repeated earlier ones (docs/explanation/repeated-launches.md). With --lines: `registers`,
    `lines`, `loops`, the `instructions` that ran, and in `lines_without` the events that no instruction was seen to
    cause; they are of the kernel's launches in all shapes. With --what-if: `what_if`, the most first. For kernels of
    a Triton script, `language` is "triton", `meta` holds "argument types", the values of constexpr parameters and the
    compile options (builds that differ in them are kernels of their own), and with --lines `ttgir` the lines of the
    kernel's TTGIR, with the source lines that they come from.
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
    same_shape: bool
    registers: Registers | None = None
    lines: tuple[LineCost, ...] | None = None
    loops: tuple[LoopCost, ...] | None = None
    instructions: tuple[InstructionCost, ...] | None = None
    ttgir: tuple[IntermediateOperation, ...] | None = None
    lines_without: tuple[str, ...] | None = None
    what_if: tuple[WhatIf, ...] | None = None
    language: str | None = None
    meta: Mapping[str, bool | int | str] | None = None


@dataclass(frozen=True)
class TunedConfiguration:
    """A `triton.Config` that was tried. `time_ns`: simulated time of a launch from empty caches, null if it does not
    compile; `times_chosen`: relative to the chosen one's. `limited_by`: the two units that need most of the time."""

    meta: Mapping[str, bool | int | str]
    time_ns: float | None
    chosen: bool
    times_chosen: float | None
    limited_by: str
    occupancy: str


@dataclass(frozen=True)
class KernelTuning:
    """What `triton.autotune` tried for a kernel and one `key`, fastest first."""

    kernel: str
    key: Mapping[str, bool | int | str]
    configurations: tuple[TunedConfiguration, ...]


@dataclass(frozen=True, kw_only=True)
class ProfileResult:
    """A program on one target. `budget`: what became of all launches of a run within one; `transfers`: copies and
    fills, with `clock_ns`, the simulated time from the first operation to the end of the last. `host_operators`: calls
    of PyTorch's own operators that made or changed device tensors; they ran on the CPU, and are in no time here.
    `autotunings`: what `triton.autotune` tried; those launches are in `kernels`, too. `remedy`: what may help where the
    program failed; `diagnostics`: the compiler's messages, where it refused the program."""

    budget: tuple[Spending, ...] | None = None
    transfers: tuple[Transfer, ...] | None = None
    clock_ns: float | None = None
    host_operators: Mapping[str, int] | None = None
    autotunings: tuple[KernelTuning, ...] | None = None
    remedy: str | None = None
    diagnostics: str | None = None
    arch: str
    flags: str
    status: RunStatus
    reason: Reason
    exit_code: int | None
    stdout: str
    kernels: tuple[ProfiledKernel, ...]
    device: str
    message: str
    plot: RooflinePlot


@dataclass(frozen=True, repr=False)
class ProfileDocument(TabularDocument):
    """The document of `synth profile --json`, and of the server's jobs. `assumed`: of the launches of kernels without
    main(), a sentence each."""

    program: ProgramIdentity
    results: tuple[ProfileResult, ...]
    assumed: tuple[str, ...] | None = None

    def table_rows(self) -> list[Row]:
        """One row for each kernel on each target: what limits it, its metrics, then its counters."""
        kernels = [(result, kernel) for result in self.results for kernel in result.kernels]
        counted = sorted({name for _, kernel in kernels for name in kernel.counters})
        return [
            {
                "kernel": kernel.name,
                "arch": result.arch,
                "device": result.device,
                "flags": result.flags,
                "grid": shape_text(kernel.grid),
                "block": shape_text(kernel.block),
                "dispatches": kernel.dispatches,
                "duration_ns": kernel.duration_ns,
                "limited_by": kernel.bottleneck.summary if kernel.bottleneck else None,
                **kernel.metrics,
                **kernel.extra_metrics,
                **{name: kernel.counters.get(name) for name in counted},
            }
            for result, kernel in kernels
        ]


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
    """The document of `synth run --json`. `dispatches` holds the first launches; `files`: those that it wrote;
    `remedy`: what may help where it failed; `warned_line`: FILE:LINE of the first access out of bounds that a warning
    tells of, if it is known; `notices`: calls, memory and code objects that it asked for in vain; `races`: with
    --races, accesses to one word that nothing puts in order, the first of each kernel."""

    remedy: str | None = None
    warned_line: str | None = None
    path: str
    arch: str
    flags: str
    status: RunStatus
    reason: Reason
    message: str
    exit_code: int | None
    stdout: str
    stderr: str
    kernels: tuple[ExecutedKernel, ...]
    dispatches: tuple[ExecutedDispatch, ...]
    dispatch_count: int
    refused_launches: int
    clock_ns: float
    spending: tuple[Spending, ...]
    outputs: tuple[Output, ...]
    transfers: tuple[Transfer, ...]
    host_operators: Mapping[str, int]
    device_s: float
    notices: tuple[Notice, ...]
    warnings: tuple[str, ...]
    wall_s: float
    cpu_s: float
    isolated: bool
    output_cut: bool
    files: tuple[str, ...]
    races: tuple[str, ...]


@dataclass(frozen=True)
class ProgramCounts:
    """Programs of a corpus, by origin and family; a family's compositions count together."""

    total: int
    by_origin: Mapping[str, int]
    by_language: Mapping[str, int]
    by_family: Mapping[str, int]
    lineages: int


@dataclass(frozen=True)
class MeasurementCounts:
    """Finished items (a run on a target) of a corpus, and their kernels."""

    total: int
    kernels: int
    by_arch: Mapping[str, int]
    by_language: Mapping[str, int]
    by_flags: Mapping[str, int]
    by_device: Mapping[str, int]
    by_backend: Mapping[str, int]


@dataclass(frozen=True)
class FailureCounts:
    """Failed items of a corpus."""

    total: int
    by_reason: Mapping[str, int]


@dataclass(frozen=True)
class DuplicateCounts:
    """Kernels whose twelve metrics equal those of an earlier one on the same target, within and across lineages."""

    same_lineage: int
    other_lineage: int


@dataclass(frozen=True)
class BinCoverage:
    """Bins of an axis that hold labels, and how many equally full ones would be as varied."""

    bins: int
    effective: float


@dataclass(frozen=True)
class MetricQuantiles:
    """The distribution of a metric over kernels: how often it is unknown and zero, quantiles in percent; null without
    known values."""

    unknown: int
    zero: int
    p0: float | None
    p5: float | None
    p25: float | None
    p50: float | None
    p75: float | None
    p95: float | None
    p100: float | None


@dataclass(frozen=True, kw_only=True)
class CorpusStatistics:
    """The document of `synth stats --json`.

    `labels`: kernel launches labelled, one per kernel of a run; `skeletons`: distinct control skeletons; `opcodes`:
    distinct ones in the builds, 0 if the profiles did not record them; `bottlenecks`: kernels by architecture and unit;
    `covered`: by axis of the label space and architecture.
    """

    corpus: str
    schema_version: int
    programs: ProgramCounts
    measurements: MeasurementCounts
    labels: int
    skeletons: int
    opcodes: int
    bottlenecks: Mapping[str, Mapping[str, int]]
    covered: Mapping[str, Mapping[str, BinCoverage]]
    failures: FailureCounts
    duplicates: DuplicateCounts
    metrics: Mapping[str, MetricQuantiles]
    damaged: tuple[str, ...]
    notes: tuple[str, ...]
