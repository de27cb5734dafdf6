"""Dispatches without the memory model: results and instruction counts of counted ones, on any number of threads."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sim_device import KernelTestDevice, core

from hipsynth.simulator import device

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "kernels.hip"
REPEATED = Path(__file__).with_name("repeated.hip")
DEVICES = ("mi250", "mi300x")
ITEMS = 1 << 16
STEPS = {"alu": 7, "integers": 5, "some_lanes": 6, "halves": 5, "transcendental": 2, "matrix": 2, "lds": 4}
# Counters of the caches, of the LDS's banks, and of time.
MODELLED = ("TCC_", "TCP_", "SQC_DCACHE_", "SQ_LDS_", "SQ_BUSY", "FETCH", "WRITE_SIZE", "TD_", "GRBM")


def instructions(dispatch: dict[str, Any]) -> dict[str, float]:
    """The counters that do not depend on the memory model."""
    counters: dict[str, float] = dispatch["counters"]
    return {name: value for name, value in counters.items() if not name.startswith(MODELLED)}


def steps_kernel(kernel: str, name: str, scratch: Path, **options: Any) -> tuple[dict[str, float], bytes]:
    """Instruction counts and memory after three launches; the last one may use several threads."""
    gc.collect()
    d = device.SimDevice(name, BENCHMARKS, scratch, **options)
    at = d.upload(np.arange(2 * ITEMS, dtype=np.float32))
    for step in range(3):
        d.core.write(at, np.full(64, step, np.uint8))
        found = d.launch(kernel, (ITEMS // 256 + 3,), (200,), "Qi", at, STEPS[kernel])
    return instructions(found), d.download(at, np.zeros(2 * ITEMS, np.int32)).tobytes()


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("kernel", STEPS)
def test_functional_runs_equal_counted_ones(kernel: str, name: str, tmp_path: Path) -> None:
    counted = steps_kernel(kernel, name, tmp_path, reuse=False)
    for reuse in (False, True):
        assert steps_kernel(kernel, name, tmp_path, count=False, reuse=reuse) == counted


def in_place(tmp_path: Path, **options: Any) -> bytes:
    """Repeated kernels that change what they read, and one whose work-groups write into each other's pages."""
    gc.collect()
    d = device.SimDevice("mi250", REPEATED, tmp_path, **options)
    a = d.upload(np.arange(ITEMS * 4, dtype=np.float32))
    index = d.upload(np.random.default_rng(3).integers(0, ITEMS * 4, ITEMS * 4, np.int32))
    bins = d.upload(np.zeros(1024, np.int32))
    for _ in range(5):
        d.launch("bump", (ITEMS * 4 // 256,), (256,), "Q", a)
        d.launch("scatter", (ITEMS * 4 // 256,), (256,), "QQ", index, a)
        d.launch("histogram", (ITEMS * 4 // 256,), (256,), "QQ", index, bins)
    buffers = ((a, ITEMS * 4), (bins, 1024))
    return b"".join(d.download(at, np.zeros(n, np.int32)).tobytes() for at, n in buffers)


def test_results_do_not_depend_on_threads(tmp_path: Path) -> None:
    """`scatter` lets several work-groups write the same element: the last one in the order of the grid wins."""
    expected = in_place(tmp_path, count=False, reuse=False)
    cores = os.sched_getaffinity(0)
    for few in (cores, {min(cores)}):
        os.sched_setaffinity(0, few)
        try:
            assert in_place(tmp_path, count=False) == expected
        finally:
            os.sched_setaffinity(0, cores)


@pytest.mark.parametrize("name", DEVICES)
def test_waves_that_wait_for_another_work_group_make_progress(name: str) -> None:
    d = KernelTestDevice(name, count=False)
    flag, out = d.upload(np.zeros(1, np.int32)), d.upload(np.zeros(64, np.int32))
    for poll_with_atomics in (0, 1):
        d.core.write(flag, np.zeros(4, np.uint8))
        d.launch("wait_for_last_group", (64,), (64,), "QQi", flag, out, poll_with_atomics)
        assert (d.download(out, np.zeros(64, np.int32))[:63] == 7).all()


def test_the_error_of_the_first_work_group_is_reported() -> None:
    d = KernelTestDevice("mi250", count=False)
    data = d.core.allocate(4096)
    with pytest.raises(core.SimError) as caught:
        d.launch("ids", (4000,), (256,), "Q", data)
    reason, message = caught.value.args
    assert reason == "illegal_access" and "work-group (4, 0, 0)" in message


def test_endless_kernels_end_at_the_limit() -> None:
    d = KernelTestDevice("mi250", count=False, max_wave_instructions=5_000_000)
    out = d.core.allocate(4096)
    with pytest.raises(core.SimError) as caught:
        d.launch("fma_chain", (4,), (256,), "Qi", out, 1 << 30)
    assert caught.value.args[0] == "instruction_limit"


@pytest.mark.parametrize("name", DEVICES)
def test_ended_waves_count_as_arrived_at_a_barrier(name: str) -> None:
    d = KernelTestDevice(name, count=False)
    data = d.upload(np.zeros(256, np.int32))
    d.launch("one_thread_waits", (1,), (256,), "Q", data)
    assert d.download(data, np.zeros(256, np.int32))[64:].all()
