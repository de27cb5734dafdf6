"""The launches of a kernel by their shapes: the records of a run are means over all of its launches."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult


def records_by_shape(result: TargetResult) -> list[KernelRecord]:
    """A record for each kernel, grid and block of a run, in the order of kernels: the mean over the launches of that
    shape, as far as the run kept them (the first 64)."""
    records = []
    for kernel in result.kernels:
        shapes: dict[tuple[tuple[int, ...], tuple[int, ...]], list[KernelRecord]] = {}
        for dispatch in result.dispatches:
            if dispatch.symbol == kernel.symbol:
                shapes.setdefault((dispatch.grid, dispatch.block), []).append(dispatch)
        records += (
            [kernel] if kernel.same_shape else [_mean_record(launches, result.arch) for launches in shapes.values()]
        )
    return records


def _mean_record(launches: Sequence[KernelRecord], arch: str) -> KernelRecord:
    """The mean of a kernel's launches of one shape: of counters, duration and metrics."""
    names = launches[0].counters
    counters = {name: statistics.fmean(launch.counters[name] for launch in launches) for name in names}
    duration_ns = statistics.fmean(launch.duration_ns for launch in launches)
    return replace(
        launches[0],
        dispatches=len(launches),
        counters=counters,
        duration_ns=duration_ns,
        metrics=metrics.compute_metrics(counters, duration_ns, arch),
    )
