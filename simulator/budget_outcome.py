"""Counts of executed, sampled and omitted launches of a program that ran within a budget (RunLimits.budget_s)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spending:
    """One kernel's launches, and the work that they took, in ns at the prices of native/dispatch/budget.h.

    Every launch is `counted`, `reused` or `uncounted`.
    """

    name: str  # without return type and parameters
    symbol: str
    signature: str
    launches: int
    counted: int  # with counters of their own
    coarse: int  # of the counted: sampled in fewer parts than asked for
    reused: int  # with the counters of an earlier launch
    uncounted: int  # without counters
    incomplete: int  # of all launches: the results were not computed
    counting_ns: float
    running_ns: float  # running without counting


def count_uncomputed(rows: Sequence[Spending]) -> int:
    """Launches whose results were not computed."""
    return sum(row.incomplete for row in rows)


def work_s(rows: Sequence[Spending]) -> float:
    """The work of all launches, in seconds of an average processor."""
    return sum(row.counting_ns + row.running_ns for row in rows) / 1e9


def describe_uncomputed(rows: Sequence[Spending]) -> str:
    """Says that results were not computed, "" if all were."""
    many = count_uncomputed(rows)
    if not many:
        return ""
    launches = sum(row.launches for row in rows)
    kernels = ", ".join(row.name for row in rows if row.incomplete)
    return f"{many:,} of {launches:,} launches did not fit the budget and were not executed ({kernels})"
