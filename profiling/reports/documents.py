"""Profile results as JSON documents, and the exit code. The text form is in profiling/reports/terminal.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from hipsynth.core.errors import BadInput, MissingDependency, PartialFailure
from hipsynth.core.kernel_record import KernelRecord, Sampling
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.lines.records import KernelLines
from hipsynth.profiling.metrics import bottleneck, roofline, uncertainty
from hipsynth.profiling.validation import expected_error
from hipsynth.simulator import devices
from hipsynth.simulator.api import RunResult


def result_document(result: TargetResult) -> dict[str, Any]:
    """One entry of `results` in the profile JSON; metrics are the paper's twelve, in physical units."""
    records = {kernel.symbol: kernel for kernel in result.kernels}
    lines = {found.symbol: lines_document(found, records[found.symbol]) for found in result.lines}
    within = {"budget": [asdict(row) for row in result.spending]} if result.spending else {}
    return {
        **within,
        **(
            {"transfers": [asdict(row) for row in result.transfers], "clock_ns": result.clock_ns}
            if result.transfers
            else {}
        ),
        "arch": result.arch,
        "flags": result.flags,
        "status": result.status,
        "reason": result.reason,
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "kernels": [kernel_document(kernel, result.device) | lines.get(kernel.symbol, {}) for kernel in result.kernels],
        "device": result.device,
        "message": result.message,
        "plot": roofline.document(result.device, [_plotted(kernel) for kernel in result.kernels]),
    }


def _plotted(kernel: KernelRecord) -> roofline.PlottedKernel:
    return roofline.PlottedKernel(kernel.name, kernel.metrics, kernel.source.kind)


def profile_document(program: str, path: str, results: Sequence[TargetResult]) -> dict[str, Any]:
    """The document of `synth profile --json`, and of the server's jobs: a program's id, its path, and its results."""
    return {"program": {"id": program, "path": path}, "results": [result_document(result) for result in results]}


def kernel_document(kernel: KernelRecord, device: str) -> dict[str, Any]:
    """One kernel of the profile JSON: counters and duration (ns) are means per dispatch, `grid` counts work-groups.

    `extra_metrics` holds the other metrics of the metric table. For simulated kernels, `expected_error` is the error of
    each metric against hardware recordings (null: no evidence), `no_evidence` lists features that no recorded kernel
    has, and `bottleneck` describes what limits the kernel; for kernels measured on hardware all three are null.
    `sampled` and `groups_simulated` describe the sampling, `error_estimate` (counter or "Duration" -> relative error)
    and `metric_error_estimate` (metric -> error in its unit) the error that it adds, which 9 of 10 stay below; `reused`
    dispatches repeated earlier ones (docs/explanation/repeated-launches.md).
    """
    simulated = kernel.source.kind == "executed"
    errors = uncertainty.bounds(kernel.error_estimate)
    return {
        "name": kernel.name,
        "dispatches": kernel.dispatches,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "counters": dict(sorted(kernel.counters.items())),
        "metrics": {metric: kernel.metrics.get(metric) for metric in metrics.paper_ids()},
        "duration_ns": kernel.duration_ns,
        "backend": kernel.source.backend,
        "backend_version": kernel.source.version,
        "extra_metrics": {metric: kernel.metrics.get(metric) for metric in metrics.extra_ids()},
        "expected_error": expected_errors(kernel, device) if simulated else None,
        "no_evidence": expected_error.without_evidence(kernel.counters, device, kernel.duration_ns)
        if simulated
        else None,
        "bottleneck": bottleneck.document(kernel, device) if kernel.limits is not None else None,
        "sampled": kernel.sampled,
        "groups_simulated": kernel.sampling.groups_simulated if kernel.sampling is not None else None,
        "reused": kernel.sampling.reused if kernel.sampling is not None else None,
        "error_estimate": dict(sorted(errors.items())),
        "metric_error_estimate": uncertainty.metric_errors(kernel, devices.load(device).arch, errors),
    }


def lines_document(kernel: KernelLines, record: KernelRecord) -> dict[str, Any]:
    """What --lines adds to a kernel of the profile JSON: `lines`, `loops` and `registers`; means per dispatch.

    `lines_without`: events of the kernel that no instruction was seen to cause.
    """
    return {
        "registers": asdict(record.registers) if record.registers else None,
        "lines": [line.document() for line in kernel.lines],
        "loops": [loop.document() for loop in kernel.loops],
        "lines_without": list(kernel.outside),
    }


def run_document(done: RunResult) -> dict[str, Any]:
    """The result of `synth run --json`: amounts are totals over a kernel's dispatches.

    `dispatches` holds the first dispatches individually, each with the number of its kernel.
    """
    symbols = [kernel.symbol for kernel in done.kernels]
    launches = [{"kernel": symbols.index(launch.symbol), **_launched(launch)} for launch in done.dispatches]
    parts = {name: part for name, part in asdict(replace(done, instructions=())).items() if name != "instructions"}
    return {**parts, "kernels": [_launched(kernel) for kernel in done.kernels], "dispatches": launches}


def _launched(kernel: KernelRecord) -> dict[str, Any]:
    """A simulator record without the fields that only a backend fills."""
    parts = {name: part for name, part in asdict(kernel).items() if name not in ("metrics", "source", "sampling")}
    sampling = kernel.sampling or Sampling()
    return {
        **parts,
        "bottleneck": kernel.limits.bottleneck if kernel.limits is not None else "",
        "sampled": kernel.sampled,
        "groups_simulated": sampling.groups_simulated,
        "reused": sampling.reused,
        "error_estimate": uncertainty.bounds(kernel.error_estimate),
    }


def expected_errors(kernel: KernelRecord, device: str) -> dict[str, dict[str, Any] | None]:
    """Metric id -> error against hardware recordings, for kernels of this duration class on this device.

    `covered` is false if the kernel has a feature that affects the metric and that no recorded kernel has. `range`:
    what 80 % of the recorded kernels of this `class` stay within, in `unit`, with constants fitted without them; null
    for metrics that need none. `range_wide`: fewer than three kinds of such kernels were recorded.
    """
    unseen = expected_error.without_evidence(kernel.counters, device, kernel.duration_ns)
    rows: dict[str, dict[str, Any] | None] = {}
    for metric in metrics.all_ids():
        found = expected_error.expected(metric, device, kernel.duration_ns)
        rows[metric] = None
        if found is not None:
            covered = expected_error.covered(metric, unseen)
            rows[metric] = {**found.document(), "covered": covered, **_range(metric, kernel, device)}
    return rows


def _range(metric: str, kernel: KernelRecord, device: str) -> dict[str, Any]:
    found = expected_error.expected_range(metric, device, kernel.counters, kernel.duration_ns)
    return {
        "class": expected_error.class_of(metric, kernel.counters, kernel.duration_ns),
        "range": found.range if found else None,
        "range_wide": found.wide if found else False,
    }


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
