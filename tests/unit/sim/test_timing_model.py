"""Does the timing model respond correctly to each cause? Calls it directly with the work of made-up dispatches."""

from __future__ import annotations

from typing import Any

import pytest

from hipsynth.simulator import devices
from hipsynth.simulator.native_core import native_core

SPEC = devices.load_device("mi250").spec()
CUS, SIMDS, HERTZ = SPEC["topology.cus"], SPEC["topology.simds_per_cu"], 1e6 * SPEC["clock.core_mhz"]


def estimate(work: dict[str, float], **constants: float) -> dict[str, Any]:
    spec = {**SPEC, **{key.replace("__", "."): value for key, value in constants.items()}}
    return native_core().estimate(spec, work)


def stream(waves: float = 65536, groups_per_cu: float = 8, **more: float) -> dict[str, float]:
    """Every wave loads 512 bytes from the HBM and waits once; groups of four waves."""
    return {
        "groups": waves / 4,
        "waves_per_group": 4,
        "groups_per_cu": groups_per_cu,
        "waves": waves,
        "valu_full": 8 * waves,
        "vmem": waves,
        "hbm_waits": waves,
        "l1_cycles_busiest_cu": 16 * waves / CUS,
        "l2_requests_busiest_channel": 4 * waves / SPEC["l2.channels"],
        "fabric_read_bytes": 512 * waves,
        "hbm_read_bytes": 512 * waves,
        **more,
    }


def arithmetic(instructions: float, waves_per_cu: int) -> dict[str, float]:
    waves = waves_per_cu * CUS
    return {
        "groups": waves,
        "waves_per_group": 1,
        "groups_per_cu": waves_per_cu,
        "waves": waves,
        "valu_full": instructions * waves,
    }


def test_a_full_device_streams_at_nearly_the_bandwidth_of_the_hbm() -> None:
    small, large = (estimate(stream(waves))["duration_ns"] for waves in (1e6, 2e6))
    bandwidth = 512e6 / (large - small)
    assert 0.75 * SPEC["hbm.read_gbps"] < bandwidth < SPEC["hbm.read_gbps"]


def test_bandwidth_grows_with_occupancy_while_latency_bound() -> None:
    times = [estimate(stream(groups_per_cu=n))["duration_ns"] for n in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)
    assert estimate(stream(groups_per_cu=1))["bottleneck"] == "latency"
    few = [estimate(stream(1e6, groups_per_cu=n))["bounds"]["latency"] for n in (1, 2)]
    assert few[0] / few[1] == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("waves_per_simd", [1, 2, 8])
def test_arithmetic_takes_its_issue_cycles_whatever_the_occupancy(waves_per_simd: int) -> None:
    instructions = 1e5
    result = estimate(arithmetic(instructions, int(SIMDS) * waves_per_simd))
    ns = instructions * waves_per_simd * SPEC["issue.valu_cycles"] / SPEC["clock.vector_mhz"] * 1e3
    assert result["duration_ns"] - SPEC["issue.launch_ns"] == pytest.approx(ns, rel=0.02)
    assert result["bottleneck"] == "valu"


@pytest.mark.parametrize("kind", ["valu_full", "valu_f64"])
def test_throttling_lengthens_kernels_but_not_their_busy_cycles(kind: str) -> None:
    instructions = 1e5
    work = arithmetic(0, int(SIMDS)) | {kind: instructions * SIMDS * CUS}
    sunken, steady = estimate(work), estimate(work, clock__vector_mhz=1700, clock__f64_mhz=1700)
    assert sunken["duration_ns"] > 1.05 * steady["duration_ns"]
    assert sunken["busy_cycles"] == pytest.approx(steady["busy_cycles"])
    assert steady["busy_cycles"] == pytest.approx(4 * instructions, rel=0.02)


@pytest.mark.parametrize(("kind", "constant"), [("valu_packed", "clock__packed_mhz"), ("lds_cycles", "clock__lds_mhz")])
def test_a_unit_with_a_clock_of_its_own_takes_longer_at_a_lower_one(kind: str, constant: str) -> None:
    work = arithmetic(0, 32) | {kind: 1e9}
    slow, fast = (estimate(work, **{constant: mhz})["duration_ns"] for mhz in (1000, 1500))
    assert slow - SPEC["issue.launch_ns"] == pytest.approx(1.5 * (fast - SPEC["issue.launch_ns"]), rel=0.01)


@pytest.mark.parametrize(
    ("kind", "constant"),
    [("valu_f64", "issue__f64_latency_cycles"), ("valu_int64_mul", "issue__int64_mul_latency_cycles")],
)
def test_dependent_results_hold_up_a_lone_wave_but_not_a_full_simd(kind: str, constant: str) -> None:
    instructions, latency = 1e5, 12.0

    def longer(waves_per_cu: int) -> float:
        work = arithmetic(0, waves_per_cu) | {kind: instructions * waves_per_cu * CUS}
        return float(estimate(work, **{constant: latency})["duration_ns"] / estimate(work)["duration_ns"])

    assert longer(int(SIMDS)) > 2
    assert longer(8 * int(SIMDS)) == pytest.approx(1, abs=0.01)


def test_branches_take_the_scalar_unit_where_the_device_says_so() -> None:
    work = arithmetic(0, 32) | {"salu": 1e8, "jumps": 1e8}
    without, beside = (estimate(work, issue__scalar_branch_cycles=cycles)["bounds"]["salu"] for cycles in (0, 1))
    assert beside == pytest.approx(2 * without)


def test_a_single_wave_cannot_use_more_than_one_simd() -> None:
    one = {**arithmetic(1e5, 1), "groups": 1, "waves": 1, "valu_full": 1e5}
    full = estimate(arithmetic(1e5, int(SIMDS)))["duration_ns"]
    assert estimate(one)["duration_ns"] == pytest.approx(full, rel=0.01)


def test_sequential_waits_add_up() -> None:
    chain = {"groups": 1, "waves_per_group": 1, "groups_per_cu": 1, "waves": 1, "hbm_waits": 1000}
    longer = estimate({**chain, "hbm_waits": 2000})["duration_ns"] - estimate(chain)["duration_ns"]
    assert longer == pytest.approx(1000 * SPEC["hbm.latency_cycles"] / HERTZ * 1e9, rel=0.01)


@pytest.mark.parametrize(
    ("name", "amount", "bottleneck"),
    [
        ("atomics_busiest_line", 1e6, "atomics"),
        ("l2_requests_busiest_channel", 1e6, "l2"),
        ("l1_cycles_busiest_cu", 1e6, "vl1d"),
        ("lds_cycles", 1e8, "lds"),
        ("salu", 1e8, "salu"),
        ("mfma_cycles", 1e9, "mfma"),
        ("flushed_bytes", 1e9, "write_back"),
    ],
)
def test_each_unit_can_be_the_bottleneck(name: str, amount: float, bottleneck: str) -> None:
    base = stream()
    found = estimate({**base, name: amount})
    assert found["bottleneck"] == bottleneck
    assert found["duration_ns"] > estimate(base)["duration_ns"]
    assert found["bounds"][bottleneck] <= found["duration_ns"]


def test_duration_is_monotonic_in_every_quantity() -> None:
    base = stream(hbm_write_bytes=1e6, fabric_write_bytes=1e6, salu=1e5, lds_cycles=1e5, scalar_hit_waits=1e5)
    time = estimate(base)["duration_ns"]
    for name in set(base) - {"groups", "waves", "waves_per_group", "groups_per_cu"}:
        assert estimate({**base, name: base[name] * 1.5})["duration_ns"] >= time, name


def test_a_partial_last_round_of_work_groups_costs_extra() -> None:
    exact, one_more = (estimate(arithmetic(1e5, 4 * n) | {"groups_per_cu": 4})["duration_ns"] for n in (1, 2))
    partial = {**arithmetic(1e5, 4), "groups": 4 * CUS + 1, "waves": 4 * CUS + 1, "valu_full": 1e5 * (4 * CUS + 1)}
    assert exact < estimate(partial)["duration_ns"] <= one_more


def test_unknown_work_is_refused() -> None:
    with pytest.raises(native_core().SimError, match="knows no wavez"):
        estimate({"wavez": 1})
