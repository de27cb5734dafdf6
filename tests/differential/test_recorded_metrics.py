"""Our metric formulas against values derived independently from recorded hardware counters."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hipsynth.profiling import metrics

SHARED = Path(os.environ.get("HIPSYNTH_SHARED", Path(__file__).resolve().parents[3] / "shared"))
FLOAT_METRICS = ("L1_Cache_GFLOPS", "L2_Cache_GFLOPS", "HBM_GFLOPS")


def plain(counters: dict[str, float]) -> dict[str, float]:
    """Hardware names without the `_sum` of instanced counters."""
    return {name.removesuffix("_sum"): value for name, value in counters.items() if "[" not in name}


@pytest.mark.full
@pytest.mark.parametrize("name", ["vcopy.json", "mixbench_gfx90a.json"])
def test_formulas_agree_with_recorded_derivations(name: str) -> None:
    path = SHARED / "recorded" / name
    if not path.exists():
        pytest.skip(f"no recorded data at {path}")
    compared = 0
    for record in json.loads(path.read_text()):
        derived: dict[str, Any] = record["derived"]
        if "total_flops" not in derived or not record["counters"]:
            continue
        times = record["duration_ns"]
        duration = times.get("clean_median", times.get("median"))
        values = metrics.compute_metrics(plain(record["counters"]), duration, record["arch"])
        for metric in metrics.paper_ids():
            wanted = derived.get("GFLOPS" if metric in FLOAT_METRICS else metric)
            if wanted is not None and values[metric] is not None:
                assert values[metric] == pytest.approx(wanted["value"], rel=2e-3, abs=2e-3), (record["id"], metric)
                compared += 1
    assert compared > 50
