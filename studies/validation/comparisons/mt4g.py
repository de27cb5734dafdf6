"""Latency of a load by level, from the LDS to the HBM, as MT4G measures it on two devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import ComparisonTable, check_mean_error, collect_features, read_recorded_rows
from studies.validation.points import RecordedPoint

TITLE = "Latency by level"
SHOWS = """One work-item follows a chain of addresses within one level of the memory: vector loads in the vL1D, the L2
and the HBM, scalar loads in the scalar cache, and reads of the LDS. Ours is the time difference of two chains of
different length. The recorded L2 latencies contradict those of [gpu-latency](latency.md), 249 and 213 cycles, to which
our constants were fitted; the other levels agree with them. No constant was fitted to these figures. Those of the LDS
and of the scalar cache, 64 and 63 to 77 cycles, are from the guide and from streams."""
QUICK = True

MEAN_PERCENT = 34.0
LINE_BYTES = 128
LINES = {"scalar L1": 64, "vl1d": 64, "l2": 4096, "hbm": 65_536}  # of each chain; the HBM's are read once
LDS_WORDS = 512
LAP = 4096  # steps
SEED = 7


@dataclass(frozen=True)
class LevelLatencies:
    """One device of the recording. `rows`: level, cycles per load."""

    name: str
    source: str
    rows: tuple[tuple[str, float], ...]


def build_tables() -> Iterator[ComparisonTable]:
    for latencies in read_recorded_rows("mt4g", "device", LevelLatencies):
        with bench.open_device(latencies.name, "mt4g") as device:
            points = list(_measure_points(device, latencies))
        rows = tuple(point.build_row() for point in points)
        used = collect_features(*(run for point in points for run in point.runs))
        checks = (check_mean_error(rows, MEAN_PERCENT),)
        title = f"levels of {latencies.name}"
        yield ComparisonTable(title, latencies.name, latencies.source, rows, "chase within a level", used, checks)


def _measure_points(device: SimDevice, latencies: LevelLatencies) -> Iterator[RecordedPoint]:
    per_cycle = 1000 / device.table["clock.core_mhz"]
    for level, cycles in latencies.rows:
        runs, steps = _chase_lds(device) if level == "lds" else _chase_level(device, level)
        yield RecordedPoint("latency, cycles", level, cycles, steps * per_cycle, runs, inverted=True)


def _chase_lds(device: SimDevice) -> tuple[tuple[Dispatch, ...], int]:
    out = device.core.allocate(8)
    runs = tuple(device.launch("lds_chase", (1,), (1,), "QQi", LDS_WORDS, out, n * LAP) for n in (1, 2))
    return runs, LAP


def _chase_level(device: SimDevice, level: str) -> tuple[tuple[Dispatch, ...], int]:
    """Two chains, the second longer by the returned steps: around a cycle that the level holds, after a lap, or, for
    the HBM, through lines that nothing has read yet."""
    lines, out = LINES[level], device.core.allocate(8)
    order = np.random.default_rng(SEED).permutation(lines).astype(np.uint64)
    buffer = device.core.allocate(lines * LINE_BYTES)
    chain = np.zeros((lines, LINE_BYTES // 8), np.uint64)
    chain[order, 0] = buffer + np.roll(order, -1) * LINE_BYTES
    device.core.write(buffer, chain.view(np.uint8).reshape(-1))
    kernel = "scalar_chase" if level == "scalar L1" else "vector_chase"
    starts, counts = ((0, LAP), (LAP, 3 * LAP)) if level == "hbm" else ((0, 0, 0), (LAP, LAP, 3 * LAP))
    runs = [
        device.launch(kernel, (1,), (1,), "QQi", buffer + int(order[start]) * LINE_BYTES, out, steps)
        for start, steps in zip(starts, counts, strict=True)
    ]
    return tuple(runs[-2:]), counts[-1] - counts[-2]
