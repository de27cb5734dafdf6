"""Profile results as JSON documents, and the exit code. The text form is in profiling/reports/terminal.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hipsynth.core.documents import json_name
from hipsynth.core.errors import BadInput, MissingDependency, PartialFailure
from hipsynth.core.kernel_record import Dim, KernelRecord, Occupancy, Registers, Sampling, TimingBounds, Traffic, Work
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.lines.records import Amounts, KernelLines
from hipsynth.profiling.metrics import roofline, uncertainty
from hipsynth.profiling.metrics.bottleneck import Bottleneck, describe_bottleneck
from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator import devices
from hipsynth.simulator.api import RunResult
from hipsynth.simulator.observation import Output
from hipsynth.simulator.spending import Spending
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
class SourceLine(Amounts, _Place):
    """What one line of a source file costs, per dispatch. Line 0 of file "": instructions of no line."""


@dataclass(frozen=True)
class _Extent(_Place):
    last: int
    depth: int
    passes: float


@dataclass(frozen=True)
class SourceLoop(Amounts, _Extent):
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
    lines: tuple[SourceLine, ...] | None = None
    loops: tuple[SourceLoop, ...] | None = None
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


def profile_document(program: str, path: str, results: Sequence[TargetResult]) -> ProfileDocument:
    """The profile of a program, given by its id and path."""
    return ProfileDocument(ProgramIdentity(program, path), tuple(map(result_document, results)))


def result_document(result: TargetResult) -> ProfileResult:
    """One entry of `results` of a profile; metrics are the paper's twelve, in physical units."""
    lines = {found.symbol: found for found in result.lines}
    plotted = [roofline.PlottedKernel(kernel.name, kernel.metrics, kernel.source.kind) for kernel in result.kernels]
    return ProfileResult(
        budget=result.spending or None,
        transfers=result.transfers or None,
        clock_ns=result.clock_ns if result.transfers else None,
        arch=result.arch,
        flags=result.flags,
        status=result.status,
        reason=result.reason,
        exit_code=result.exit_code,
        stdout=result.stdout,
        kernels=tuple(kernel_document(one, result.device, lines.get(one.symbol)) for one in result.kernels),
        device=result.device,
        message=result.message,
        plot=roofline.plot_kernels(result.device, plotted),
    )


def kernel_document(kernel: KernelRecord, device: str, lines: KernelLines | None = None) -> ProfiledKernel:
    """One kernel of a profile, with `lines` those of --lines."""
    simulated = kernel.source.kind == "executed"
    errors = uncertainty.bounds(kernel.error_estimate)
    unseen = expected_error.without_evidence(kernel.counters, device, kernel.duration_ns) if simulated else None
    return ProfiledKernel(
        name=kernel.name,
        dispatches=kernel.dispatches,
        grid=kernel.grid,
        block=kernel.block,
        counters=dict(sorted(kernel.counters.items())),
        metrics={metric: kernel.metrics.get(metric) for metric in metrics.paper_ids()},
        duration_ns=kernel.duration_ns,
        backend=kernel.source.backend,
        backend_version=kernel.source.version,
        extra_metrics={metric: kernel.metrics.get(metric) for metric in metrics.extra_ids()},
        expected_error=expected_errors(kernel, device) if simulated else None,
        no_evidence=None if unseen is None else tuple(unseen),
        bottleneck=describe_bottleneck(kernel, device),
        sampled=kernel.sampled,
        groups_simulated=kernel.sampling.groups_simulated if kernel.sampling is not None else None,
        reused=kernel.sampling.reused if kernel.sampling is not None else None,
        error_estimate=dict(sorted(errors.items())),
        metric_error_estimate=uncertainty.metric_errors(kernel, devices.load_device(device).arch, errors),
        registers=kernel.registers if lines else None,
        lines=tuple(SourceLine(one.file, one.line, **vars(one.amounts)) for one in lines.lines) if lines else None,
        loops=_loops(lines) if lines else None,
        lines_without=lines.outside if lines else None,
    )


def _loops(kernel: KernelLines) -> tuple[SourceLoop, ...]:
    return tuple(
        SourceLoop(one.file, one.line, one.last, one.depth, one.passes, **vars(one.amounts)) for one in kernel.loops
    )


def run_document(done: RunResult, path: str, arch: str, flags: str, files: Sequence[str]) -> RunDocument:
    """What `synth run --json` prints of a run of the program at `path`, which wrote `files`."""
    symbols = [kernel.symbol for kernel in done.kernels]
    run = {name: value for name, value in vars(done).items() if name not in ("instructions", "kernels", "dispatches")}
    return RunDocument(
        path=path,
        arch=arch,
        flags=flags,
        kernels=tuple(map(_executed, done.kernels)),
        dispatches=tuple(
            ExecutedDispatch(kernel=symbols.index(one.symbol), **vars(_executed(one))) for one in done.dispatches
        ),
        files=tuple(files),
        **run,
    )


def _executed(kernel: KernelRecord) -> ExecutedKernel:
    sampling = kernel.sampling or Sampling()
    known = {name: value for name, value in vars(kernel).items() if name not in ("metrics", "source", "sampling")}
    return ExecutedKernel(
        **known,
        bottleneck=kernel.limits.bottleneck if kernel.limits is not None else "",
        sampled=kernel.sampled,
        groups_simulated=sampling.groups_simulated,
        reused=sampling.reused,
        error_estimate=uncertainty.bounds(kernel.error_estimate),
    )


def expected_errors(kernel: KernelRecord, device: str) -> dict[str, ExpectedError | None]:
    """Metric id -> error against hardware recordings; None for those that were never compared."""
    unseen = expected_error.without_evidence(kernel.counters, device, kernel.duration_ns)
    return {metric: _expected_error(metric, kernel, device, unseen) for metric in metrics.all_ids()}


def _expected_error(metric: str, kernel: KernelRecord, device: str, unseen: Sequence[str]) -> ExpectedError | None:
    found = expected_error.expected(metric, device, kernel.duration_ns)
    if found is None:
        return None
    within = expected_error.expected_range(metric, device, kernel.counters, kernel.duration_ns)
    return ExpectedError(
        median=found.median,
        worst=found.worst,
        unit=found.unit,
        n=found.n,
        compared=found.quantity,
        device=found.device or found.arch,
        kernels=found.kernels,
        covered=expected_error.covered(metric, unseen),
        class_=expected_error.class_of(metric, kernel.counters, kernel.duration_ns),
        range=within.range if within else None,
        range_wide=within.wide if within else False,
    )


def exit_code(results: Sequence[TargetResult]) -> int:
    """0 if all targets succeeded, 5 if some failed or are partial; if all failed, 4 for a missing tool, else 3."""
    bad = [result for result in results if result.status != "ok"]
    if not bad:
        return 0
    if len(bad) < len(results) or any(result.status == "partial" for result in bad):
        return PartialFailure.exit_code
    return (
        MissingDependency.exit_code
        if all(result.reason == MissingDependency.reason for result in bad)
        else BadInput.exit_code
    )
