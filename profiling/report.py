"""Profile results for people and programs: the JSON contract, the terminal table, the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling import metrics, roofline
from profiling.backend import KernelResult, TargetResult
from synth.errors import BadInput, Missing, Partial


def result_document(result: TargetResult) -> dict[str, Any]:
    """One entry of `results` in the profile JSON; metrics are the paper's twelve, in physical units."""
    return {
        "arch": result.arch,
        "flags": result.flags,
        "status": result.status,
        "reason": result.reason,
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "kernels": [kernel_document(kernel) for kernel in result.kernels],
    }


def kernel_document(kernel: KernelResult) -> dict[str, Any]:
    """One kernel of the profile JSON: counters and duration are means per dispatch, `grid` counts work-groups."""
    return {
        "name": kernel.name,
        "dispatches": kernel.dispatches,
        "grid": list(kernel.grid),
        "block": list(kernel.block),
        "counters": dict(sorted(kernel.counters.items())),
        "metrics": {metric: kernel.metrics.get(metric) for metric in metrics.paper_ids()},
        "duration_ns": kernel.duration_ns,
        "backend": kernel.backend,
        "backend_version": kernel.backend_version,
    }


def exit_code(results: Sequence[TargetResult]) -> int:
    """0 when all is well, 5 when some targets failed; when all did, 4 for a missing tool and 3 for a bad program."""
    bad = [result for result in results if result.status != "ok"]
    if not bad:
        return 0
    if len(bad) < len(results):
        return Partial.exit_code
    return Missing.exit_code if all(result.reason == Missing.reason for result in bad) else BadInput.exit_code


def result_table(result: TargetResult) -> str:
    """The kernels of one target as text: shape, time, metrics with the roof they are near, and chosen counters."""
    lines = [f"{result.arch} ({result.device})  {result.flags}"]
    if result.status != "ok":
        return "\n".join([*lines, f"  failed: {result.reason}"])
    for kernel in result.kernels:
        lines += _kernel_lines(kernel, result.device)
    return "\n".join(lines)


def _kernel_lines(kernel: KernelResult, device: str) -> list[str]:
    shape = f"grid {_dims(kernel.grid)}  block {_dims(kernel.block)}"
    times = f"{kernel.dispatches} dispatch{'' if kernel.dispatches == 1 else 'es'}"
    lines = [f"  {kernel.name}", f"    {shape}  {times}  {kernel.duration_ns / 1000:.2f} us each"]
    facts = metrics.table()
    cells = []
    for metric in metrics.paper_ids():
        row = facts.metrics[metric]
        cells.append((metric, f"{format_value(kernel.metrics.get(metric))} {row.unit}"))
    lines += _columns(cells)
    shown = [name for name, counter in facts.counters.items() if counter.show and kernel.counters.get(name)]
    lines += _columns([(name, f"{kernel.counters[name]:,.0f}") for name in shown])
    where = roofline.describe(roofline.position(kernel.metrics, device))
    bottleneck = kernel.details.get("bottleneck")
    lines.append(f"    roofline: {where}" + (f"; bottleneck: {bottleneck}" if bottleneck else ""))
    return lines


def _dims(dims: Sequence[int]) -> str:
    return "x".join(str(n) for n in dims)


def format_value(value: float | None) -> str:
    """A metric with four significant digits, "-" when it is not known."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _columns(cells: Sequence[tuple[str, str]]) -> list[str]:
    """Name and value pairs in two columns."""
    left = max((len(name) for name, _ in cells), default=0)
    right = max((len(value) for _, value in cells), default=0)
    parts = [f"{name:<{left}} {value:>{right}}" for name, value in cells]
    return ["    " + "    ".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
