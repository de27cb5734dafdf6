"""Describes which launches a budget left out, and where the time of a run went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.simulator.budget_outcome import Spending, describe_uncomputed, work_s

MOST_KERNELS = 8  # listed, those with the most work first


def budget_notes(results: Sequence[TargetResult], budget_s: float) -> Iterator[str]:
    """Lines about each result that ran within a budget of so many seconds."""
    for result in results:
        if not result.spending:
            continue
        used = work_s(result.spending)
        yield f"budget: {result.arch} {result.flags}: launches took {used:.1f} of {budget_s:g} s at fixed prices"
        rows = sorted(result.spending, key=lambda row: -row.counting_ns - row.running_ns)
        for row in rows[:MOST_KERNELS]:
            yield f"  {row.name}: {_describe_launches(row)}; {_describe_work(row)}"
        if len(rows) > MOST_KERNELS:
            yield f"  and {len(rows) - MOST_KERNELS} kernels with less work"
        times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in result.times.items())
        yield f"  measured: {times}"
        if left_out := describe_uncomputed(result.spending):
            yield f"note: {left_out}: what the program prints, and its exit code, mean nothing"


def _describe_launches(row: Spending) -> str:
    parts = [f"{row.counted:,} of {row.launches:,} launches counted"]
    if row.coarse:
        parts[0] += f" ({row.coarse:,} sampled coarsely)"
    if row.reused:
        parts.append(f"{row.reused:,} have counters of an earlier one")
    if row.uncounted:
        parts.append(f"{row.uncounted:,} have none")
    if row.incomplete:
        parts.append(f"{row.incomplete:,} not executed")
    return ", ".join(parts)


def _describe_work(row: Spending) -> str:
    return f"counting {row.counting_ns / 1e9:.1f} s, running {row.running_ns / 1e9:.1f} s"
