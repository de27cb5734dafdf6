"""Parts of a profile: some kernels, some metrics and counters, and all of that as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hipsynth.core.errors import UsageError, suggest_name
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.name_patterns import check_kernel_pattern, matches_any, matches_name
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult

HEAD = ("arch", "device", "flags", "kernel", "grid", "block", "dispatches", "quantity", "value", "unit")


def select_kernels(results: Sequence[TargetResult], pattern: str = "", top: int = 0) -> list[TargetResult]:
    """The results with the kernels whose names match `pattern` (* and ? as in file names; a part of the name is
    enough), and of each target the `top` that take most time (0: all). Raises UsageError if no kernel matches."""
    names = list(dict.fromkeys(kernel.name for result in results for kernel in result.kernels))
    if pattern and names:
        check_kernel_pattern(pattern, names)
    return [_select_of(result, pattern, top) for result in results]


def _select_of(result: TargetResult, pattern: str, top: int) -> TargetResult:
    times: dict[str, float] = {}
    for kernel in result.kernels:
        if not pattern or matches_name(kernel.name, pattern):
            times[kernel.name] = times.get(kernel.name, 0.0) + kernel.duration_ns * kernel.dispatches
    chosen = sorted(times, key=lambda name: -times[name])[: top or None]
    kernels = tuple(kernel for kernel in result.kernels if kernel.name in chosen)
    symbols = {kernel.symbol for kernel in kernels}
    return replace(
        result,
        kernels=kernels,
        shapes=tuple(kernel for kernel in result.shapes if kernel.name in chosen),
        lines=tuple(rows for rows in result.lines if rows.symbol in symbols),
    )


def check_metric_patterns(patterns: Sequence[str]) -> None:
    """Raises UsageError for a pattern that no metric and no counter matches."""
    table = metrics.metric_table()
    names = [*metrics.all_ids(), *table.counters, *table.others]
    for pattern in patterns:
        if any(matches_name(name, pattern) for name in names):
            continue
        cause = suggest_name(pattern, names)
        remedy = "names are in docs/reference/metrics.md, e.g. --metric 'L2*' or --metric TCC"
        raise UsageError(f"--metric {pattern}: no metric and no counter matches", cause=cause, remedy=remedy)


def write_csv(results: Sequence[TargetResult], patterns: Sequence[str] = ()) -> str:
    """Every metric and counter that matches one of `patterns` (all if there are none), a row each, per dispatch."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for result in results:
        for kernel in result.launches:
            where = (result.arch, result.device, result.flags, kernel.name)
            shape = ("x".join(map(str, kernel.grid)), "x".join(map(str, kernel.block)), kernel.dispatches)
            writer.writerows(
                (*where, *shape, *row) for row in _list_quantities(kernel) if matches_any(row[0], patterns)
            )
    return text.getvalue()


def _list_quantities(kernel: KernelRecord) -> Iterator[tuple[str, float | None, str]]:
    table = metrics.metric_table().metrics
    yield metrics.DURATION, kernel.duration_ns, "ns"
    yield from ((name, kernel.metrics.get(name), table[name].unit) for name in metrics.all_ids() if name != "Duration")
    yield from ((name, value, "") for name, value in sorted(kernel.counters.items()))
