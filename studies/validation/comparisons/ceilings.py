"""Compute and LDS ceilings: one unit at its limit per kernel, compared with the profiler's roofline benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import ComparisonRow, ComparisonTable, features, recorded
from studies.validation.points import RecordedPoint

TITLE = "Compute and LDS ceilings"
SHOWS = """Peak rates of the vector ALU, the matrix cores and the LDS of a gfx90a device, each unit alone. The
benchmark's LDS figure depends on the tool version (18.1 or 21.0 TB/s for the same hardware), so ours is asserted
against neither. The benchmark runs so long that launch and ramp-up are negligible; we use the time difference of two
runs, one twice as long."""
QUICK = False

SOURCE = "ROCm/rocprofiler-compute test data, tests/workloads/*/MI200/roofline.csv"
CUS, GROUPS_PER_CU, BLOCK = 104, 1, 1024
WAVES = CUS * GROUPS_PER_CU * BLOCK // 64
# Kernel -> (rounds, operations of one wave instruction, instructions per round); an FMA is two operations per lane.
KERNELS = {
    "fma_f32": (16, 128, 256),
    "fma_f64": (16, 128, 256),
    "matrix_f16": (2, 2 * 32 * 32 * 8, 16),
    "matrix_bf16": (2, 2 * 32 * 32 * 8, 16),
    "matrix_f32": (2, 2 * 32 * 32 * 2, 16),
    "matrix_f64": (4, 2 * 16 * 16 * 4, 16),
    "matrix_i8": (2, 2 * 32 * 32 * 8, 16),
}
LDS_ROUNDS, LDS_BYTES = 16, 64 * 4 * 256
ALLOWED_PERCENT = 10.0


@dataclass(frozen=True)
class Peaks:
    """The recording: GFLOP/s and GB/s by kernel."""

    gflops: Mapping[str, float]
    gbps: Mapping[str, float]


def tables() -> Iterator[ComparisonTable]:
    figures = recorded("ceilings", Peaks)
    rows: list[ComparisonRow] = []
    runs = []
    with bench.device("mi210", "ceilings") as device:
        for kernel, (rounds, operations, count) in KERNELS.items():
            first, second = _pair(device, kernel, rounds)
            done = float(WAVES * rounds * count * operations)
            peak = figures.gflops[kernel]
            rows.append(RecordedPoint("peak, GFLOP/s", kernel, peak, done, (first, second), ALLOWED_PERCENT).row())
            runs.append(first)
        first, second = _pair(device, "lds", LDS_ROUNDS)
        moved = float(WAVES * LDS_ROUNDS * LDS_BYTES)
        for name in ("lds", "lds_other"):
            rows.append(RecordedPoint("LDS peak, GB/s", name, figures.gbps[name], moved, (first, second)).row())
        runs.append(first)
    yield ComparisonTable(TITLE, "mi210", SOURCE, tuple(rows), "one instruction of one unit", features(*runs))


def _pair(device: SimDevice, kernel: str, rounds: int) -> list[Dispatch]:
    """Two dispatches of a kernel, the second with twice the work."""
    return [device.launch(kernel, (CUS * GROUPS_PER_CU,), (BLOCK,), "i", n * rounds) for n in (1, 2)]
