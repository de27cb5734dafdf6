"""Auxiliary facts that an answer may state before its metrics: launch shape, work per item, limiting unit.

A metric is a formula over few quantities. An answer that names the quantities first gives a model more to learn from
than the twelve metrics alone, and each value can use those before it. FACTS is the table; the values come from the
label's counters, so only labels of a backend that counts them exactly (the simulator) have all facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hipsynth.core.store import StoredRow
from hipsynth.profiling.metrics.bottleneck import UNITS

LINE = 64  # bytes that one look-up of the vL1D covers
ITEMS = "SQ_ITEMS"  # a release leaves it out, because it follows from the launch
COUNTERS = (
    "EXACT_READ_BYTES",
    "EXACT_WRITE_BYTES",
    "EXACT_ATOMIC_BYTES",
    "EXACT_FLOPS",
    "TCP_TOTAL_CACHE_ACCESSES",
)
# Bytes that look-ups cover per byte that lanes access: the class ends below the number.
STRIDES = (("shared", 0.75), ("unit", 1.5), ("strided", 6.0), ("scattered", math.inf))
NO_ACCESS = "none"
Value = float | str


@dataclass(frozen=True)
class AuxiliaryFact:
    """One fact: its key in the answer, the stage that says it (0 first; facts of a stage do not use each other), its
    value from a label row, and the words that it may be, if it is not a number."""

    key: str
    stage: int
    value: Callable[[StoredRow], Value | None]
    choices: tuple[str, ...] = ()


def _exact_bytes(row: StoredRow) -> float:
    return float(row["EXACT_READ_BYTES"] + row["EXACT_WRITE_BYTES"] + row["EXACT_ATOMIC_BYTES"])


def _count_work_items(row: StoredRow) -> float:
    """Work-items of a launch."""
    return float(row.get(ITEMS) or math.prod(row["grid"]) * math.prod(row["block"]))


def _stride_class(row: StoredRow) -> str:
    moved, covered = _exact_bytes(row), row["TCP_TOTAL_CACHE_ACCESSES"] * LINE
    if not moved or not covered:
        return NO_ACCESS
    return next(name for name, end in STRIDES if covered / moved < end)


FACTS = (
    AuxiliaryFact("work_groups", 0, lambda row: float(math.prod(row["grid"]))),
    AuxiliaryFact("group_size", 0, lambda row: float(math.prod(row["block"]))),
    AuxiliaryFact("bytes_per_item", 1, lambda row: _exact_bytes(row) / _count_work_items(row)),
    AuxiliaryFact("flops_per_item", 1, lambda row: row["EXACT_FLOPS"] / _count_work_items(row)),
    AuxiliaryFact("vl1d_accesses_per_item", 1, lambda row: row["TCP_TOTAL_CACHE_ACCESSES"] / _count_work_items(row)),
    AuxiliaryFact("stride", 1, _stride_class, (*(name for name, _ in STRIDES), NO_ACCESS)),
    AuxiliaryFact("occupancy", 2, lambda row: row["occupancy"]),
    AuxiliaryFact("bottleneck", 2, lambda row: row["bottleneck"] if row["bottleneck"] in UNITS else None, tuple(UNITS)),
    AuxiliaryFact("duration_ns", 2, lambda row: row["duration_ns"]),
)
KEYS = tuple(fact.key for fact in FACTS)
CHOICES = {fact.key: fact.choices for fact in FACTS if fact.choices}
STAGE = {fact.key: fact.stage for fact in FACTS}
LAST_STAGE = max(STAGE.values()) + 1  # the metrics'


def with_counters(measurements: pa.Table) -> pa.Table:
    """Measurements with the columns that FACTS read and that do not exist yet: counters, and occupancy (0 to 1)."""
    counted = "counters" in measurements.column_names
    for name in (ITEMS, *COUNTERS):
        column = pc.map_lookup(measurements["counters"], name, "first") if counted else None
        measurements = measurements.append_column(name, _column_or_nulls(measurements, column))
    has_occupancy = "occupancy" in measurements.column_names
    column = pc.struct_field(measurements["occupancy"], "fraction") if has_occupancy else None
    measurements = measurements.drop_columns(["occupancy"]) if has_occupancy else measurements
    return measurements.append_column("occupancy", _column_or_nulls(measurements, column))


def _column_or_nulls(measurements: pa.Table, columns: pa.ChunkedArray | None) -> pa.ChunkedArray:
    return pa.nulls(measurements.num_rows, pa.float64()) if columns is None else columns


def facts_of(row: StoredRow) -> dict[str, Value]:
    """The facts of a label row (see with_counters); empty unless all are known."""
    if any(row.get(name) is None for name in (*COUNTERS, "occupancy", "bottleneck", "duration_ns")):
        return {}
    if not _count_work_items(row):
        return {}
    values = {fact.key: fact.value(row) for fact in FACTS}
    values_known = {key: value for key, value in values.items() if value is not None}
    return values_known if len(values_known) == len(FACTS) else {}
