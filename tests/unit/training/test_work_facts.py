"""Work per work-item and the access pattern follow from a label's counters."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hipsynth.training.data.work_facts import WorkFacts, with_counters, work_facts

ROW: dict[str, Any] = {
    "grid": [4, 2, 1],
    "block": [64, 1, 1],
    "SQ_ITEMS": 512.0,
    "EXACT_READ_BYTES": 2048.0,
    "EXACT_WRITE_BYTES": 2048.0,
    "EXACT_ATOMIC_BYTES": 0.0,
    "EXACT_FLOPS": 1024.0,
    "TCP_TOTAL_CACHE_ACCESSES": 64.0,
}


def test_facts_follow_from_counters() -> None:
    facts = WorkFacts(bytes_per_item=8.0, flops_per_item=2.0, lookups_per_item=0.125, stride="unit")
    assert work_facts(ROW) == facts
    assert work_facts({**ROW, "SQ_ITEMS": None}) == facts  # grid x block
    assert work_facts({**ROW, "EXACT_FLOPS": None}) is None
    assert work_facts({**ROW, "SQ_ITEMS": None, "grid": [0, 1, 1]}) is None


@pytest.mark.parametrize(
    ("lookups", "stride"), [(16.0, "shared"), (64.0, "unit"), (256.0, "strided"), (512.0, "scattered"), (0.0, "none")]
)
def test_stride_classes(lookups: float, stride: str) -> None:
    facts = work_facts({**ROW, "TCP_TOTAL_CACHE_ACCESSES": lookups})
    assert facts is not None and facts.stride == stride


def test_counters_become_columns() -> None:
    counters = pa.array([[("SQ_ITEMS", 4.0)], []], pa.map_(pa.string(), pa.float64()))
    table = with_counters(pa.table({"counters": counters}))
    assert table["SQ_ITEMS"].to_pylist() == [4.0, None]
    assert with_counters(pa.table({"grid": [1]}))["EXACT_FLOPS"].to_pylist() == [None]
