"""Converts results of profiles and runs to their JSON documents and the exit code. The text form is in
profiling/reports/terminal.py."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from hipsynth.core.errors import INTERNAL_ERROR_EXIT, BadInput, MissingDependency, PartialFailure
from hipsynth.core.kernel_record import KernelRecord, Sampling, TimingBounds, Traffic, Work
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.lines.line_records import KernelLines
from hipsynth.profiling.metrics import roofline, uncertainty
from hipsynth.profiling.metrics.bottleneck import describe_bottleneck
from hipsynth.profiling.reports.autotunings import describe_autotunings
from hipsynth.profiling.reports.documents import (
    ExecutedDispatch,
    ExecutedKernel,
    ExpectedError,
    InstructionCost,
    LineCost,
    LoopCost,
    ProfiledKernel,
    ProfileDocument,
    ProfileResult,
    ProgramIdentity,
    RunDocument,
)
from hipsynth.profiling.reports.what_if import answer_what_if
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator import devices
from hipsynth.simulator.api import RunResult


def profile_document(
    program: str,
    path: str,
    results: Sequence[TargetResult],
    what_if: bool = False,
    assumed: Sequence[str] = (),
) -> ProfileDocument:
    """The profile of a program, given by its id and path; with `what_if`, what removing each cause is worth. `assumed`:
    of the launches of kernels without main()."""
    documents = tuple(result_document(result, what_if) for result in results)
    return ProfileDocument(ProgramIdentity(program, path), documents, tuple(assumed) or None)


def result_document(result: TargetResult, what_if: bool = False) -> ProfileResult:
    """One entry of `results` of a profile; metrics are the paper's twelve, in physical units."""
    lines = {line.symbol: line for line in result.lines}
    plotted = [
        roofline.PlottedKernel(kernel.name, kernel.metrics, kernel.source.kind, counters=kernel.counters)
        for kernel in result.launches
    ]
    return ProfileResult(
        budget=result.spending or None,
        transfers=result.transfers or None,
        clock_ns=result.clock_ns if result.transfers else None,
        host_operators=result.host_operators or None,
        autotunings=describe_autotunings(result),
        arch=result.arch,
        flags=result.flags,
        status=result.status,
        reason=result.reason,
        exit_code=result.exit_code,
        stdout=result.stdout,
        kernels=tuple(
            kernel_document(kernel_result, result.device, lines.get(kernel_result.symbol), what_if)
            for kernel_result in result.launches
        ),
        device=result.device,
        message=result.message,
        remedy=result.reason.remedy or None,
        diagnostics=result.diagnostics,
        plot=roofline.plot_kernels(result.device, plotted),
    )


def kernel_document(
    kernel: KernelRecord, device: str, lines: KernelLines | None = None, what_if: bool = False
) -> ProfiledKernel:
    """One kernel of a profile, with `lines` those of --lines."""
    simulated = kernel.source.kind == "executed"
    errors = uncertainty.metric_error_bounds(kernel.error_estimate)
    unseen = expected_error.without_evidence(kernel.counters, device, kernel.duration_ns) if simulated else None
    return ProfiledKernel(
        name=kernel.name,
        dispatches=kernel.dispatches,
        grid=kernel.grid,
        block=kernel.block,
        same_shape=kernel.same_shape,
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
        lines=tuple(LineCost(line.file, line.line, **vars(line.amounts)) for line in lines.lines) if lines else None,
        loops=_loops(lines) if lines else None,
        instructions=_instruction_costs(lines) if lines else None,
        ttgir=lines.operations or None if lines else None,
        lines_without=lines.outside if lines else None,
        what_if=answer_what_if(kernel, device) if what_if else None,
        language=kernel.language or None,
        meta=dict(kernel.meta) if kernel.language else None,
    )


def _loops(kernel: KernelLines) -> tuple[LoopCost, ...]:
    return tuple(
        LoopCost(loop.file, loop.line, loop.last, loop.depth, loop.passes, **vars(loop.amounts))
        for loop in kernel.loops
    )


def _instruction_costs(kernel: KernelLines) -> tuple[InstructionCost, ...]:
    return tuple(
        InstructionCost(row.file, row.line, row.address, row.text, row.issue_cycles, **vars(row.amounts))
        for row in kernel.instructions
    )


def run_document(result: RunResult, path: str, arch: str, flags: str, files: Sequence[str]) -> RunDocument:
    """What `synth run --json` prints of a run of the program at `path`, which wrote `files`."""
    symbols = [kernel.symbol for kernel in result.kernels]
    left_out = (
        "fault",
        "warned_at",
        "races",
        "unfenced",
        "instructions",
        "code_objects",
        "ttgir",
        "autotunings",
        "kernels",
        "shapes",
        "dispatches",
    )
    run = {name: value for name, value in vars(result).items() if name not in left_out}
    return RunDocument(
        path=path,
        arch=arch,
        flags=flags,
        kernels=tuple(map(_executed, result.kernels)),
        dispatches=tuple(
            ExecutedDispatch(kernel=symbols.index(dispatch.symbol), **vars(_executed(dispatch)))
            for dispatch in result.dispatches
        ),
        files=tuple(files),
        races=(*result.races, *result.unfenced),
        remedy=result.reason.remedy or None,
        warned_line=(result.warned_at.line or None) if result.warned_at else None,
        **run,
    )


def _executed(kernel: KernelRecord) -> ExecutedKernel:
    sampling, limits = kernel.sampling or Sampling(), kernel.limits
    times = functools.partial(_all_dispatches, kernel.dispatches)
    return ExecutedKernel(
        name=kernel.name,
        dispatches=kernel.dispatches,
        grid=kernel.grid,
        block=kernel.block,
        duration_ns=kernel.duration_ns * kernel.dispatches,
        counters=times(kernel.counters),
        symbol=kernel.symbol,
        signature=kernel.signature,
        same_shape=kernel.same_shape,
        registers=kernel.registers,
        occupancy=kernel.occupancy,
        limits=limits
        and TimingBounds(limits.bottleneck, bounds=times(limits.bounds), **times({"wave_cycles": limits.wave_cycles})),
        work=kernel.work and Work(**times(vars(kernel.work))),
        traffic=kernel.traffic and Traffic(**times(vars(kernel.traffic))),
        bottleneck=limits.bottleneck if limits is not None else "",
        sampled=kernel.sampled,
        groups_simulated=sampling.groups_simulated,
        reused=sampling.reused,
        error_estimate=uncertainty.metric_error_bounds(kernel.error_estimate),
    )


def _all_dispatches(dispatches: int, means: Mapping[str, float]) -> dict[str, float]:
    """Sums over the dispatches of which these are means; counts are whole numbers again."""
    sums = {name: mean * dispatches for name, mean in means.items()}
    rounded = {name: round(value) for name, value in sums.items()}
    return {name: rounded[name] if rounded[name] / dispatches == means[name] else value for name, value in sums.items()}


def expected_errors(kernel: KernelRecord, device: str) -> dict[str, ExpectedError | None]:
    """Metric id -> error against hardware recordings; None for those that were never compared."""
    unseen = expected_error.without_evidence(kernel.counters, device, kernel.duration_ns)
    return {metric: _expected_error(metric, kernel, device, unseen) for metric in metrics.all_ids()}


def _expected_error(metric: str, kernel: KernelRecord, device: str, unseen: Sequence[str]) -> ExpectedError | None:
    expected = expected_error.find_error(metric, device, kernel.duration_ns)
    if expected is None:
        return None
    within = expected_error.expected_range(metric, device, kernel.counters, kernel.duration_ns)
    return ExpectedError(
        median=expected.median,
        worst=expected.worst,
        unit=expected.unit,
        n=expected.n,
        compared=expected.quantity,
        device=expected.device or expected.arch,
        kernels=expected.kernels,
        covered=expected_error.has_recorded_error(metric, unseen),
        class_=expected_error.class_of(metric, kernel.counters, kernel.duration_ns),
        range=within.range if within else None,
        range_wide=within.wide if within else False,
    )


def exit_code(results: Sequence[TargetResult]) -> int:
    """0 if all targets succeeded, 5 if some failed or are partial; if all failed, 4 for a missing tool, 1 for a defect
    of hipsynth, else 3."""
    bad = [result for result in results if result.status != RunStatus.OK]
    if not bad:
        return 0
    if len(bad) < len(results) or any(result.status == RunStatus.PARTIAL for result in bad):
        return PartialFailure.exit_code
    reasons = {result.reason for result in bad}
    if reasons == {Reason.INTERNAL_ERROR}:
        return INTERNAL_ERROR_EXIT
    return MissingDependency.exit_code if reasons == {MissingDependency.reason} else BadInput.exit_code
