"""Uncertainty that grid sampling adds to each metric, and from when on a predicted duration says nothing."""

from __future__ import annotations

import math

from hipsynth.profiling import metrics
from hipsynth.synth.core.kernel_record import KernelRecord

WIDEST = 1.0  # log width of a duration's interval (a factor of e each way) beyond which a prediction abstains
# Pairs with anticorrelated errors: an event counted as one of them is missing from the other, so their sum is more
# certain than either.
TAKES_FROM = {"TCC_MISS": "TCC_HIT"}


def metric_errors(kernel: KernelRecord, arch: str) -> dict[str, float]:
    """Metric id -> two standard deviations of the sampling error, in the metric's unit (points for hit rates).

    Varies each counter and the duration up and down by its `error_estimate`, together with its anticorrelated counter,
    and combines the changes of a metric as independent errors. Empty if the whole grid ran.
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


def _with(kernel: KernelRecord, arch: str, name: str, factor: float) -> dict[str, float | None]:
    """The metrics computed with one counter, or the duration, multiplied by `factor`."""
    if name == "Duration":
        return metrics.compute(kernel.counters, kernel.duration_ns * factor, arch)
    moved = {name: kernel.counters[name] * factor}
    other = TAKES_FROM.get(name, "")
    if other in kernel.counters:
        moved[other] = max(0.0, kernel.counters[other] + kernel.counters[name] - moved[name])
    return metrics.compute({**kernel.counters, **moved}, kernel.duration_ns, arch)
