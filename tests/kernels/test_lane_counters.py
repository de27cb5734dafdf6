"""Do the counters of active lanes and of exact work follow EXEC, packing and matrix sizes?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sim_device import KernelTestDevice

from hipsynth.profiling import metrics

BOTH = pytest.mark.parametrize("name", ["mi250", "mi300x"])
WAVES, STEPS = 6, 37


def run(name: str, kernel: str, lanes: int) -> dict[str, Any]:
    device = KernelTestDevice(name)
    at = device.upload(np.ones(1024, np.float32))
    return device.launch(kernel, (WAVES // 2,), (128,), "Qii", at, lanes, STEPS)


@BOTH
@pytest.mark.parametrize("lanes", [1, 17, 64])
@pytest.mark.parametrize(("kernel", "flops_per_step"), [("some_lanes_fma", 2), ("packed_fma", 4)])
def test_exact_flops_count_active_lanes_and_packed_halves(
    name: str, kernel: str, flops_per_step: int, lanes: int
) -> None:
    counters = run(name, kernel, lanes)["counters"]
    assert counters["EXACT_FLOPS"] == WAVES * lanes * STEPS * flops_per_step
    fma = counters["SQ_INSTS_VALU_FMA_F32"] + counters["SQ_INSTS_VALU_FMA_F16"]
    assert fma == WAVES * STEPS  # the hardware's counter knows neither lanes nor halves


@BOTH
def test_matrix_instructions_count_all_their_products(name: str) -> None:
    counters = run(name, "matrix_products", 64)["counters"]
    assert counters["EXACT_FLOPS"] == WAVES * STEPS * 2 * 32 * 32 * 8
    assert counters["SQ_THREAD_CYCLES_VALU"] == 64 * counters["SQ_ACTIVE_INST_VALU"]


@BOTH
def test_active_threads_lie_between_the_branch_and_a_full_wave(name: str) -> None:
    full, few = (run(name, "some_lanes_fma", lanes)["counters"] for lanes in (64, 4))
    assert full["SQ_THREAD_CYCLES_VALU"] == 64 * full["SQ_ACTIVE_INST_VALU"] == 64 * full["SQ_INSTS_VALU"]
    outside = full["SQ_INSTS_VALU"] - WAVES * STEPS  # instructions before, around and after the loop
    mean = few["SQ_THREAD_CYCLES_VALU"] / few["SQ_ACTIVE_INST_VALU"]
    assert 4 < mean <= (4 * WAVES * STEPS + 64 * outside) / full["SQ_INSTS_VALU"]


@BOTH
def test_every_metric_has_a_value_in_the_simulator(name: str) -> None:
    device = KernelTestDevice(name)
    a, b, c = (device.core.allocate(1 << 20) for _ in range(3))
    result = device.launch("copy_f64", (512,), (256,), "QQQii", a, b, c, 1 << 17, 1)
    values = metrics.compute_metrics(result["counters"], result["duration_ns"], device.table.arch)
    assert values["VALU_Active_Threads"] == 64
    assert 0 < values["IPC"] <= 5  # what the SQ can issue in a cycle
    assert values["Exact_GFLOPS"] == 0
    missing = {id for id, value in values.items() if value is None}
    assert missing <= {"LDS_Bank_Conflict_Rate"}  # a copy does not use the LDS


@BOTH
def test_exact_bytes_are_those_of_active_lanes(name: str) -> None:
    device = KernelTestDevice(name)
    a, b, c = (device.core.allocate(1 << 16) for _ in range(3))
    count = 1000  # 15 full waves and 40 lanes of another
    result = device.launch("copy_f64", (8,), (128,), "QQQii", a, b, c, count, 1)
    counters = result["counters"]
    assert counters["EXACT_READ_BYTES"] == counters["EXACT_WRITE_BYTES"] == 8 * count
    assert counters["EXACT_ATOMIC_BYTES"] == counters["EXACT_LDS_BYTES"] == 0
    values = metrics.compute_metrics(counters, result["duration_ns"], device.table.arch)
    assert values["Exact_Request_Bandwidth"] == pytest.approx(16 * count / result["duration_ns"])
    assert 97 < (values["Exact_Lane_Utilisation"] or 0) < 100
    assert (values["Exact_L2_Useful_Bytes"] or 0) == pytest.approx(1, abs=0.03)


@BOTH
def test_exact_bytes_tell_the_lds_and_atomics_apart(name: str) -> None:
    device = KernelTestDevice(name)
    data = device.upload(np.arange(128, dtype=np.int32))
    counters = device.launch("reverse", (1,), (128,), "Q", data, lds=512)["counters"]
    assert counters["EXACT_LDS_BYTES"] == 2 * 4 * 128  # the shuffle goes through the LDS's crossbar, not its memory
    assert counters["EXACT_READ_BYTES"] == counters["EXACT_WRITE_BYTES"] == 4 * 128
    cell = device.upload(np.zeros(1, np.int32))
    counters = device.launch("add_to_one", (2,), (64,), "Q", cell)["counters"]
    assert counters["EXACT_ATOMIC_BYTES"] == 4 * counters["SQ_WAVES"], counters["EXACT_ATOMIC_BYTES"]


@BOTH
def test_sum_counters_equal_the_sum_of_their_parts(name: str) -> None:
    counters = run(name, "some_lanes_fma", 64)["counters"]
    issued = ("SCA", "FLAT", "VMEM", "LDS", "MISC", "VALU")
    assert counters["SQ_ACTIVE_INST_ANY"] == sum(counters[f"SQ_ACTIVE_INST_{unit}"] for unit in issued)
    widths = {n: counters[f"SQC_DCACHE_REQ_READ_{n}"] for n in (1, 2, 4, 8, 16)}
    assert sum(widths.values()) == counters["SQ_INSTS_SMEM"] == counters["SQC_DCACHE_REQ"]
    assert counters["TCP_UTCL1_REQUEST"] == counters["TCP_TOTAL_CACHE_ACCESSES"] > 0


@BOTH
def test_lds_time_does_not_depend_on_active_lanes(name: str) -> None:
    device = KernelTestDevice(name)
    data = device.upload(np.arange(128, dtype=np.int32))
    cycles = [
        device.launch("reverse", (1,), (lanes,), "Q", data, lds=512)["counters"]["SQ_LDS_IDX_ACTIVE"]
        for lanes in (1, 32, 64)
    ]
    assert cycles[0] == cycles[1] == cycles[2] > 0
