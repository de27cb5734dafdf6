"""Compute and LDS ceilings: one unit at its limit per kernel, compared with the profiler's roofline benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import ComparisonTable, collect_features, read_recorded_rows
from studies.validation.points import RecordedPoint

TITLE = "Compute and LDS ceilings"
SHOWS = """Peak rates of the vector ALU, the matrix cores and the LDS, each unit alone. The benchmark's LDS figure
depends on the tool version (18.1 or 21.0 TB/s for the same MI210), so ours is asserted against neither. The benchmark
runs so long that launch and ramp-up are negligible; we use the time difference of two runs, one twice as long.

The clock of each unit of the MI300A was fitted to its figure: all but plain FP32 stay below the nominal 2.1 GHz."""
QUICK = False

BLOCK = 1024
# Kernel -> (rounds, operations of one wave instruction, instructions per round); an FMA is two operations per lane.
KERNELS = {
    "fma_f32": (16, 128, 256),
    "fma_f32_packed": (16, 256, 256),
    "fma_f64": (16, 128, 256),
    "matrix_f16": (2, 2 * 32 * 32 * 8, 16),
    "matrix_bf16": (2, 2 * 32 * 32 * 8, 16),
    "matrix_f32": (2, 2 * 32 * 32 * 2, 16),
    "matrix_f64": (4, 2 * 16 * 16 * 4, 16),
    "matrix_i8": (2, 2 * 32 * 32 * 8, 16),
}
LDS_ROUNDS, LDS_BYTES = 16, 64 * 4 * 256
LDS_NAMES = ("lds", "lds_other")


@dataclass(frozen=True)
class RecordedPeaks:
    """One device of the recording: GFLOP/s and GB/s by kernel. `allowed`: tolerance of the rates in per cent."""

    name: str
    source: str
    allowed: float
    gflops: Mapping[str, float]
    gbps: Mapping[str, float]


def build_tables() -> Iterator[ComparisonTable]:
    for figures in read_recorded_rows("ceilings", "device", RecordedPeaks):
        with bench.open_device(figures.name, "ceilings") as device:
            points = list(_measure_points(device, figures))
        rows = tuple(point.build_row() for point in points)
        used = collect_features(*(point.runs[0] for point in points))
        title = f"ceilings of {figures.name}"
        yield ComparisonTable(title, figures.name, figures.source, rows, "one instruction of one unit", used)


def _measure_points(device: SimDevice, figures: RecordedPeaks) -> Iterator[RecordedPoint]:
    waves = int(device.table["topology.cus"]) * BLOCK // 64
    for kernel, peak in figures.gflops.items():
        rounds, operations, count = KERNELS[kernel]
        total_operations = float(waves * rounds * count * operations)
        runs = _launch_pair(device, kernel, rounds)
        yield RecordedPoint("peak, GFLOP/s", kernel, peak, total_operations, runs, figures.allowed)
    runs, moved = _launch_pair(device, "lds", LDS_ROUNDS), float(waves * LDS_ROUNDS * LDS_BYTES)
    for name in LDS_NAMES:
        if name in figures.gbps:
            yield RecordedPoint("LDS peak, GB/s", name, figures.gbps[name], moved, runs)


def _launch_pair(device: SimDevice, kernel: str, rounds: int) -> tuple[Dispatch, ...]:
    """Two dispatches of a kernel, one group per CU, the second with twice the work."""
    groups = int(device.table["topology.cus"])
    return tuple(device.launch(kernel, (groups,), (BLOCK,), "i", n * rounds) for n in (1, 2))
