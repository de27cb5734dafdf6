"""Do waves wait exactly as long as the memory latency of the data they need?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hipsynth.simulator.device import SimDevice
from studies.validation import bench, calls
from studies.validation.comparisons import kernel_times
from studies.validation.frame import read_recording

STEPS, LINE_BYTES = 64, 128


def waited(run: dict[str, Any], *levels: str) -> float:
    return sum(float(run["work"][f"{level}_waits"]) for level in levels)


def test_overlapping_vector_and_scalar_loads_cost_one_round_trip() -> None:
    taps = 64
    with bench.open_device("mi300a", "kernel_times", "-O2") as device:
        arrays = [device.core.allocate(4096) for _ in range(4)]
        run = device.launch("fir", (1,), (256,), "QQQQI", *arrays, taps)
        cycles = waited(run, "l1") * device.table["vl1d.latency_cycles"]
        cycles += waited(run, "scalar_hit") * device.table["issue.smem_latency_cycles"]
    each = cycles / (4 * taps)
    assert device.table["vl1d.latency_cycles"] * 0.8 < each < device.table["vl1d.latency_cycles"] * 1.2


def test_a_hit_on_a_pending_line_waits_for_it() -> None:
    with bench.open_device("mi300a", "benches") as device:
        xcds = int(device.table["topology.xcds"])
        buffer = device.core.allocate((STEPS + 1) * LINE_BYTES)
        chain = np.zeros((STEPS + 1, LINE_BYTES // 8), np.uint64)
        chain[:-1, 0] = buffer + np.arange(1, STEPS + 1, dtype=np.uint64) * LINE_BYTES
        device.core.write(buffer, chain.view(np.uint8).reshape(-1))
        run = device.launch("chase", (4 * xcds,), (1,), "QQi", buffer, buffer, STEPS)
    assert run["counters"]["TCC_HIT"] >= 3 * xcds * (STEPS - 1)  # all but the first of an XCD
    assert waited(run, "infinity", "hbm") >= 0.6 * 4 * xcds * STEPS  # a quarter if only the first waited


def microseconds(call: calls.TimedCall, device: SimDevice) -> float:
    timed = call.build_timed_value(device.table.spec())
    return timed.compute_time_ns([run["duration_ns"] for run in timed.runs], device.table.spec()) / 1000


@pytest.mark.parametrize(("benchmark", "size"), [("nbody", 4096), ("atax", 1600)])
def test_a_sampled_loop_takes_the_time_of_the_full_one(
    benchmark: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(device: SimDevice, footprint: float, steps: int, few: int, launch: Any, warm: bool = True) -> Any:
        if warm:
            launch(steps)
        return [(launch(steps), 1)]

    def time() -> float:
        with bench.open_device("mi300a", "kernel_times", "-O2", **calls.OPTIONS) as device:
            return microseconds(kernel_times.BENCHMARKS[benchmark](device, size), device)

    part = time()
    monkeypatch.setattr(kernel_times, "launch_in_part", whole)
    assert part == pytest.approx(time(), rel=0.04)


# One size of each benchmark whose time a launch is not all of, and which is not one of the noisy ones.
SIZES = {
    "vectoradd": (4194304,),
    "matrixtranspose": (2048,),
    "floydwarshall": (64,),
    "fir": (16384, 64),
    "kmeans": (16384, 32),
    "atax": (256,),  # smaller ones find their data in the L2, which ours empties between dispatches
    "relu": (1048576,),
    "stencil2d": (768,),
    "matrixmultiplication": (128,),
    "nbody": (1024,),
}


@pytest.mark.parametrize("name", SIZES)
def test_small_benchmarks_take_nearly_their_recorded_time(name: str) -> None:
    recording = read_recording("kernel_times", calls.BenchmarkTimes)
    (found,) = [benchmark for benchmark in recording.benchmark if benchmark.name == name]
    (theirs,) = [us for *size, us in found.rows if tuple(size) == SIZES[name]]
    with bench.open_device("mi300a", "kernel_times", "-O2", **calls.OPTIONS) as device:
        simulated = microseconds(kernel_times.BENCHMARKS[name](device, *SIZES[name]), device)
    # Calls of kmeans find in the L2 what the one before read, and ours do not: see the study of kernel times.
    assert simulated == pytest.approx(theirs, rel=0.33 if name == "kmeans" else 0.2)
