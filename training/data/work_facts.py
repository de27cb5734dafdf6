"""What a label's counters say about a kernel's work: bytes, FLOPs and look-ups per work-item, and the access pattern.

Only labels of a backend that counts exactly (the simulator) have all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hipsynth.core.store import StoredRow

LINE = 64  # bytes that one look-up of the vL1D covers
ITEMS = "SQ_ITEMS"  # a release leaves it out, because it follows from the launch
BYTES = ("EXACT_READ_BYTES", "EXACT_WRITE_BYTES", "EXACT_ATOMIC_BYTES")
LOOKUPS = "TCP_TOTAL_CACHE_ACCESSES"
COUNTERS = (*BYTES, "EXACT_FLOPS", LOOKUPS)
# Bytes that look-ups cover per byte that lanes access: the class ends below the number.
STRIDES = (("shared", 0.75), ("unit", 1.5), ("strided", 6.0), ("scattered", math.inf))
NO_ACCESS = "none"


@dataclass(frozen=True)
class WorkFacts:
    """The work of one work-item, and the stride class: a name in STRIDES or NO_ACCESS."""

    bytes_per_item: float
    flops_per_item: float
    lookups_per_item: float
    stride: str


def with_counters(measurements: pa.Table) -> pa.Table:
    """Measurements with a column for each counter that `work_facts` reads (nulls where it was not counted)."""
    counted = "counters" in measurements.column_names
    for name in (ITEMS, *COUNTERS):
        column = pc.map_lookup(measurements["counters"], name, "first") if counted else None
        nulls = pa.nulls(measurements.num_rows, pa.float64())
        measurements = measurements.append_column(name, nulls if column is None else column)
    return measurements


def work_facts(row: StoredRow) -> WorkFacts | None:
    """The facts of a label row (see with_counters); None unless every counter is known."""
    if any(row.get(name) is None for name in COUNTERS):
        return None
    items = float(row.get(ITEMS) or math.prod(row["grid"]) * math.prod(row["block"]))
    if not items:
        return None
    accessed, lookups = sum(row[name] for name in BYTES), row[LOOKUPS]
    return WorkFacts(accessed / items, row["EXACT_FLOPS"] / items, lookups / items, _stride_class(accessed, lookups))


def _stride_class(accessed: float, lookups: float) -> str:
    if not accessed or not lookups:
        return NO_ACCESS
    return next(name for name, end in STRIDES if lookups * LINE / accessed < end)
