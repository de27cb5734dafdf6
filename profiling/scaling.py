"""How uncertain the metrics of a grid are of which only a part ran."""

from __future__ import annotations

import math

from profiling import metrics
from profiling.backend import KernelResult


def metric_errors(kernel: KernelResult, arch: str) -> dict[str, float]:
    """Metric id -> two standard deviations in the metric's unit (points of a hit rate), of scaling up alone.

    Every counter and the duration is moved by its own `error_estimate`, up and down by the same factor; what a metric
    moves by then adds up as if they erred independently. Empty where all of the grid ran.
    """
    squares: dict[str, float] = {}
    for name, error in kernel.error_estimate.items():
        if not error or (name != "Duration" and not kernel.counters.get(name)):
            continue
        moved = [_with(kernel, arch, name, factor) for factor in (1 + error, 1 / (1 + error))]
        for metric, value in kernel.metrics.items():
            others = [other[metric] for other in moved]
            changes = [abs(other - value) for other in others if value is not None and other is not None]
            squares[metric] = squares.get(metric, 0.0) + max(changes, default=0.0) ** 2
    return {metric: math.sqrt(square) for metric, square in squares.items() if square}


def _with(kernel: KernelResult, arch: str, name: str, factor: float) -> dict[str, float | None]:
    """The metrics, had one of the numbers that they follow from been `factor` times as large."""
    if name == "Duration":
        return metrics.compute(kernel.counters, kernel.duration_ns * factor, arch)
    return metrics.compute({**kernel.counters, name: kernel.counters[name] * factor}, kernel.duration_ns, arch)
