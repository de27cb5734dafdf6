"""Uncertainty that grid sampling adds to each metric, and from when on a predicted duration says nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling import metrics

WIDEST = 1.0  # log width of a duration's interval (a factor of e each way) beyond which a prediction abstains
# Pairs with anticorrelated errors: an event counted as one of them is missing from the other, so their sum is more
# certain than either.
TAKES_FROM = {"TCC_MISS": "TCC_HIT"}
# The sampler's own estimate, two standard deviations by how much a few windows differ, holds 84 to 91 % of the errors
# of sampled durations and 36 to 74 % of those of counters instead of 95: it does not see what no window shows. COVERS
# times it, and at least LEAST, holds 93 to 100 % of the durations, 79 to 99 % of the counters (labels of version 3 by
# benchmarks/label_error.py, docs/log/sampling.md; COVERS was chosen with labels of version 1, of seed 77).
COVERS, LEAST = 6.0, 0.01
DURATION, BUSY = "Duration", "SQ_BUSY_CU_CYCLES"
# Counters of lines that are dirty when a dispatch ends: they vary with the order of its last work-groups.
END_STATE = frozenset({"TCC_ALL_TC_OP_WB_WRITEBACK", "TCC_NORMAL_WRITEBACK", "TCC_NORMAL_EVICT"})
OF_GRID = ("SQ_WAVES", "SQ_ITEMS")  # names of counters that follow from the grid alone begin so


def metric_error_bounds(estimate: Mapping[str, float]) -> dict[str, float]:
    """Counter or "Duration" -> relative error that sampling adds, which 9 of 10 stay below; 0: exact.

    `estimate`: the sampler's own, KernelRecord.error_estimate; all zeros if nothing was scaled up.
    """
    if not any(estimate.values()):
        return dict(estimate)
    bounds = {name: 0.0 if name.startswith(OF_GRID) else math.hypot(COVERS * e, LEAST) for name, e in estimate.items()}
    return bounds | ({BUSY: bounds[DURATION]} if DURATION in bounds else {})


def metric_errors(kernel: KernelRecord, arch: str, errors: Mapping[str, float]) -> dict[str, float]:
    """Metric id -> sampling error in the metric's unit (points for hit rates), given relative errors of counters and
    the duration: those of metric_error_bounds() for what is printed, the sampler's own for what a corpus leaves out.

    Varies each counter and the duration up and down by its error, together with its anticorrelated counter, and
    combines the changes of a metric as independent errors. Empty if the whole grid ran.
    """
    squares: dict[str, float] = {}
    for name, error in errors.items():
        if not error or (name != DURATION and not kernel.counters.get(name)):
            continue
        moved = [_vary_counter(kernel, arch, name, factor) for factor in (1 + error, 1 / (1 + error))]
        for metric, value in kernel.metrics.items():
            others = [other[metric] for other in moved]
            changes = [abs(other - value) for other in others if value is not None and other is not None]
            squares[metric] = squares.get(metric, 0.0) + max(changes, default=0.0) ** 2
    return {metric: math.sqrt(square) for metric, square in squares.items() if square}


def _vary_counter(kernel: KernelRecord, arch: str, name: str, factor: float) -> dict[str, float | None]:
    """The metrics computed with one counter, or the duration, multiplied by `factor`."""
    if name == DURATION:
        return metrics.compute_metrics(kernel.counters, kernel.duration_ns * factor, arch)
    moved = {name: kernel.counters[name] * factor}
    other = TAKES_FROM.get(name, "")
    if other in kernel.counters:
        moved[other] = max(0.0, kernel.counters[other] + kernel.counters[name] - moved[name])
    return metrics.compute_metrics({**kernel.counters, **moved}, kernel.duration_ns, arch)
