"""Rooflines: ceilings agree with measured ones, and a kernel is put under the right roof."""

from __future__ import annotations

import pytest
from profiling_samples import ZERO_FLOPS, kernel

from hipsynth.core.errors import UsageError
from hipsynth.profiling.metrics import compute_metrics, roofline
from hipsynth.simulator.devices import list_devices, load_device


def test_ceilings_are_those_of_the_hardware() -> None:
    old, new = roofline.device_ceilings("mi250"), roofline.device_ceilings("mi300x")
    # Measured: rocprofiler-compute roofline.csv and RRZE gpu-benches; the table's ceilings are at or above them.
    assert 9200 <= old.bandwidth["L1"] <= 1.25 * 10500
    assert 5030 <= old.bandwidth["L2"] <= 1.5 * 5030
    assert 38800 <= new.bandwidth["L1"] <= 1.25 * 38800
    assert 27000 <= new.bandwidth["L2"] <= 1.3 * 34400
    assert 20900 <= old.compute["FP32"] <= 1.1 * 20900
    assert new.compute["FP32"] >= 85700 * 0.9


@pytest.mark.parametrize("device", list_devices())
def test_every_device_has_a_roofline(device: str) -> None:
    limits = roofline.device_ceilings(device)
    assert limits.bandwidth["L1"] >= limits.bandwidth["L2"] > limits.bandwidth["HBM"] > 0
    ridge = roofline.ridge_intensity("HBM", limits)
    below, at, above = (roofline.attainable_gflops(ridge * factor, "HBM", limits) for factor in (0.5, 1, 2))
    assert below == pytest.approx(at / 2) and above == at == pytest.approx(limits.peak)


def test_a_vector_copy_is_under_the_hbm_roof() -> None:
    metrics = kernel("gfx90a").metrics
    found = roofline.locate_kernel(metrics, "mi250")
    assert found.roof == "HBM"
    traffic = (metrics["L2_Fabric_Read_BW"] or 0) + (metrics["L2_Fabric_Write_BW"] or 0)
    memory = load_device("mi250")
    alone = (metrics["L2_Fabric_Read_BW"] or 0) / memory["hbm.read_gbps"]
    alone += (metrics["L2_Fabric_Write_BW"] or 0) / memory["hbm.write_gbps"]
    assert found.share == pytest.approx(alone) and alone > traffic / memory["hbm.read_gbps"], "stores are slower"
    assert found.points == (), "a kernel without FLOPs has no intensity to plot"
    assert 0.5 < (found.share or 0) < 0.7
    assert f"HBM bandwidth roof, at {100 * (found.share or 0):.0f} %" in roofline.describe_position(found)


def test_a_compute_kernel_is_under_the_compute_roof() -> None:
    metrics = dict(kernel("gfx90a").metrics)
    metrics |= {"HBM_GFLOPS": 20000.0, "HBM_Arithmetic_Intensity": 300.0, "L1_Cache_Arithmetic_Intensity": 0.5}
    found = roofline.locate_kernel(metrics, "mi250")
    limits = roofline.device_ceilings("mi250")
    assert found.roof == "compute" and found.share == pytest.approx(20000 / limits.peak)
    points = {point.level: point for point in found.points}
    assert points["HBM"].attainable == limits.peak
    assert points["L1"].attainable == pytest.approx(0.5 * limits.bandwidth["L1"])


@pytest.mark.parametrize(("arch", "device"), [("gfx90a", "mi250"), ("gfx942", "mi300x"), ("gfx950", "mi355x")])
def test_a_look_up_in_every_cycle_is_all_of_the_vl1d(arch: str, device: str) -> None:
    table = load_device(device)
    ns = 1000.0
    lookups = table["topology.cus"] * ns * table["clock.core_mhz"] / 1000
    counters = {**ZERO_FLOPS, "SQ_INSTS_VALU_FMA_F32": lookups / 64, "TCP_TOTAL_CACHE_ACCESSES": lookups}
    values = compute_metrics(counters, ns, arch)
    assert values["L1_Cache_Bandwidth"] == lookups * roofline.LOOK_UP_BYTES[arch] / ns
    found = roofline.locate_kernel(values, device)
    assert found.shares["L1"] == pytest.approx(1)
    (point,) = found.points
    assert point.intensity == values["L1_Cache_Arithmetic_Intensity"]
    assert point.attainable == pytest.approx(point.gflops), "it computes what this level allows"


def test_matrix_kernels_are_judged_by_the_matrix_units() -> None:
    counters = {"SQ_INSTS_VALU_MFMA_MOPS_F16": 9.0, "SQ_INSTS_VALU_MFMA_MOPS_F64": 1.0}
    peaks = roofline.matrix_peaks("mi300x")
    metrics = {"HBM_GFLOPS": 650_000.0, "HBM_Arithmetic_Intensity": 500.0}
    for known in ({}, counters):
        found = roofline.locate_kernel(metrics, "mi300x", known)
        assert found.roof == "compute" and found.share is not None and found.share <= 1
    assert found.share == pytest.approx(650_000 / peaks["FP16 matrix"])
    slow = roofline.locate_kernel({**metrics, "HBM_GFLOPS": 60_000.0}, "mi300x", counters)
    assert slow.share == pytest.approx(60_000 / peaks["FP16 matrix"])
    allowed = min(peaks["FP16 matrix"], 500 * roofline.device_ceilings("mi300x").bandwidth["HBM"])
    assert allowed > roofline.device_ceilings("mi300x").peak
    assert [point.attainable for point in slow.points] == [pytest.approx(allowed)]
    plotted = roofline.PlottedKernel("k", {**metrics, "HBM_GFLOPS": 60_000.0}, counters=counters)
    assert roofline.plot_kernels("mi300x", [plotted]).points[0].attainable == pytest.approx(allowed)


def test_operations_that_the_metrics_leave_out_count_beside_their_roof() -> None:
    ns, fp8 = 1000.0, 512 * 4e6 / 1000.0
    counters = {**ZERO_FLOPS, f"{roofline.MOPS}F8": 4e6, "SQ_INSTS_VALU_FMA_F32": 1e3}
    metrics = {"HBM_GFLOPS": 128 * 1e3 / ns, "HBM_Arithmetic_Intensity": 0.5, "L2_Cache_Arithmetic_Intensity": None}
    position = roofline.locate_kernel(metrics, "mi300x", counters)
    assert position.shares["compute"] == pytest.approx((fp8 + 128.0) / roofline.matrix_peaks("mi300x")["FP8 matrix"])
    (point,) = position.points
    assert point.gflops == pytest.approx(fp8 + 128.0) and point.intensity == pytest.approx(0.5 * (fp8 + 128.0) / 128.0)
    alone = {**counters, "SQ_INSTS_VALU_FMA_F32": 0.0}
    unknown = roofline.locate_kernel({"HBM_GFLOPS": 0.0, "HBM_Arithmetic_Intensity": 0.0}, "mi300x", alone)
    assert unknown.shares["compute"] is None and unknown.points == ()


def test_the_formats_that_the_metrics_leave_out_are_those_of_no_counter_in_them() -> None:
    for suffix in roofline.MOPS_FORMATS:
        counters = {**ZERO_FLOPS, f"{roofline.MOPS}{suffix}": 1.0}
        counted = compute_metrics(counters, 1.0, "gfx950", (roofline.OPERATIONS,))[roofline.OPERATIONS]
        assert counted == (0.0 if suffix in roofline.UNCOUNTED_FORMATS else roofline.MOPS_OPERATIONS)


def test_unknown_values_are_reported() -> None:
    found = roofline.locate_kernel({}, "mi250")
    assert (found.roof, found.share, found.points) == (None, None, ())
    assert "nothing was counted" in roofline.describe_position(found)
    partly = roofline.locate_kernel({"L2_Fabric_Read_BW": 1000.0, "L2_Cache_Bandwidth": 700.0}, "mi250")
    assert partly.shares["HBM"] is None and partly.roof == "L2"
    with pytest.raises(UsageError):
        roofline.device_ceilings("h100")


@pytest.mark.parametrize(
    ("device", "fabric", "l2", "level"),
    [
        ("mi250", 1.0, 1.0, ""),
        ("mi250", 1.2, 0.5, "HBM"),
        ("mi300x", 1.3, 1.0, ""),  # from the Infinity Cache
        ("mi300x", 1.5, 0.5, "HBM"),
        ("mi300x", 0.1, 1.2, "L2"),
    ],
)
def test_more_than_a_memory_gives_is_impossible(device: str, fabric: float, l2: float, level: str) -> None:
    limits = roofline.device_ceilings(device).bandwidth
    metrics = {
        "L2_Fabric_Read_BW": fabric * limits["HBM"],
        "L2_Fabric_Write_BW": 0.0,
        "L2_Cache_Bandwidth": l2 * limits["L2"],
        "L1_Cache_Bandwidth": 3 * limits["L1"],  # lanes that share lines look one up together
    }
    assert roofline.find_impossible_level(roofline.locate_kernel(metrics, device), device) == level
