"""Do the counters of a grid of which only a part runs agree with those of the whole, and does the result say so?"""

from __future__ import annotations

import math
from typing import Any

import pytest
from grids import launch

from profiling import archs, metrics

BOTH = pytest.mark.parametrize("name", ["mi250", "mi300x"])
ABOVE = 6_000_000  # work up to which these grids would run in full
# What is still dirty at the end of a dispatch depends on the order of the last few work-groups.
END_STATE = {"TCC_ALL_TC_OP_WB_WRITEBACK", "TCC_NORMAL_WRITEBACK", "TCC_NORMAL_EVICT"}
# A known gap (docs/explanation/sampling.md): few hits among many requests, which depend on who is in flight together.
APART = {"strided": "TCC_HIT"}


def hit_rates(result: dict[str, Any], device: str) -> dict[str, float]:
    found = metrics.compute(result["counters"], result["duration_ns"], archs.load(device).arch)
    return {key: value for key, value in found.items() if "Hit_Rate" in key and value is not None}


def errors(device: str, kernel: str, size: int, above: int) -> tuple[dict[str, float], float, float]:
    """Relative error by counter, largest error of a hit rate in points, relative error of the duration."""
    exact = launch(device, kernel, size)
    sampled = launch(device, kernel, size, sample_stretches=12, sample_above=above)
    assert not exact["sampled"] and exact["error_estimate"] == {}
    assert sampled["sampled"], "the grid is too small to be sampled"
    assert sampled["groups_simulated"] <= math.prod(exact["grid"]) == exact["groups_simulated"]
    found = {
        name: abs(sampled["counters"][name] - value) / max(value, 1.0)
        for name, value in exact["counters"].items()
        if name not in END_STATE
    }
    rates = hit_rates(sampled, device)
    points = max((abs(rates[key] - value) for key, value in hit_rates(exact, device).items()), default=0.0)
    return found, points, abs(sampled["duration_ns"] / exact["duration_ns"] - 1)


@pytest.mark.parametrize("kernel", ["triad", "strided", "reduce", "scan"])
def test_counters_agree_within_two_percent(kernel: str) -> None:
    found, points, duration = errors("mi250", kernel, 8192, ABOVE)
    found.pop(APART.get(kernel, ""), None)
    assert max(found.values()) <= 0.02, max(found, key=lambda name: found[name])
    assert points <= 1
    assert duration <= 0.02


@pytest.mark.full
@BOTH
@pytest.mark.parametrize("kernel", ["triad", "copy_doubles", "transpose", "stencil"])
def test_counters_of_large_grids_agree_within_two_percent(name: str, kernel: str) -> None:
    found, points, duration = errors(name, kernel, 49152, 40_000_000)
    del found["SQ_BUSY_CU_CYCLES"]  # the duration by another name
    assert max(found.values()) <= 0.02, max(found, key=lambda counter: found[counter])
    assert points <= 1
    assert duration <= 0.03


def test_small_grids_run_in_full() -> None:
    exact, sampled = launch("mi250", "triad", 256), launch("mi250", "triad", 256, sample_stretches=12)
    assert sampled == exact


def test_sampling_is_repeatable() -> None:
    first, second = (launch("mi300x", "divergent", 4096, sample_stretches=4, sample_above=3_000_000) for _ in range(2))
    assert first["sampled"] and first == second


def test_uneven_work_is_found_by_probes() -> None:
    found, _, _ = errors("mi250", "triangle", 8192, ABOVE)
    assert found["SQ_INSTS"] <= 0.02
    assert found["SQ_INSTS_VMEM_RD"] <= 0.02
