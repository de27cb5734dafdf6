"""Load latency: one work-item follows a chain of addresses through a buffer, on three devices."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import ComparisonTable, collect_features, read_recorded_rows
from studies.validation.points import RecordedPoint

TITLE = "Load latency"
SHOWS = """One work-item follows pointers, one per 128 bytes, in a random cycle through a buffer. The plateaus of the
recorded curve are the latencies of vL1D, L2, Infinity Cache and HBM; sizes between the plateaus, where a buffer only
partly fits a cache, are not compared. Address translation is not modelled: recorded HBM latencies grow by up to 18 %
where the buffer exceeds the reach of the TLBs."""
QUICK = True

ALLOWED = 10.0
LINE_BYTES = 128
SPREAD_LINES = 5_000_000  # lines of a buffer that exceeds every cache
FRESH_STEPS = (4096, 12288)
SEED = 7


@dataclass(frozen=True)
class LatencyCurve:
    """One device of the recording. `rows`: level, kB of the buffer, cycles per load."""

    name: str
    source: str
    rows: tuple[tuple[str, float, float], ...]


def build_tables() -> Iterator[ComparisonTable]:
    for curve in read_recorded_rows("latency", "device", LatencyCurve):
        with bench.open_device(curve.name, "benches") as device:
            points = list(measure_points(device, curve))
        rows = tuple(point.build_row() for point in points)
        used = collect_features(*(run for point in points for run in point.runs))
        yield ComparisonTable(f"latency on {curve.name}", curve.name, curve.source, rows, "pointer chase", used)


def measure_points(device: SimDevice, curve: LatencyCurve) -> Iterator[RecordedPoint]:
    """One point per recorded buffer size; level `hbm` uses loads of lines that no cache holds yet."""
    mhz = device.table["clock.core_mhz"]
    fresh = _chase_fresh_lines(device)
    for level, kilobytes, cycles in curve.rows:
        runs, steps = fresh if level == "hbm" else _chase_cycle(device, round(kilobytes * 1024 / LINE_BYTES))
        amount = steps * 1000 / mhz
        yield RecordedPoint("load latency, cycles", f"{level}, {kilobytes:g} kB,", cycles, amount, runs, ALLOWED, True)


def _launch_chase(device: SimDevice, start: int, steps: int) -> Dispatch:
    return device.launch("chase", (1,), (1,), "QQi", start, start, steps)


def _chase_cycle(device: SimDevice, lines: int) -> tuple[tuple[Dispatch, ...], int]:
    """One and three laps around a cycle, after a warm-up lap: their difference is two laps with warm caches."""
    order = np.random.default_rng(SEED).permutation(lines).astype(np.uint64)
    buffer = device.core.allocate(lines * LINE_BYTES)
    chain = np.zeros((lines, LINE_BYTES // 8), np.uint64)
    chain[order, 0] = buffer + np.roll(order, -1) * LINE_BYTES
    device.core.write(buffer, chain.view(np.uint8).reshape(-1))
    start = buffer + int(order[0]) * LINE_BYTES
    once = (lines + 31) // 32 * 32
    _, *runs = (_launch_chase(device, start, count) for count in (once, once, 3 * once))
    device.core.release(buffer)
    return tuple(runs), 2 * once


def _chase_fresh_lines(device: SimDevice) -> tuple[tuple[Dispatch, ...], int]:
    """Two chains through lines of a large buffer, each line touched once."""
    random = np.random.default_rng(SEED)
    order = random.choice(SPREAD_LINES, sum(FRESH_STEPS) + 2, replace=False)
    buffer = device.core.allocate(SPREAD_LINES * LINE_BYTES)
    address = buffer + order.astype(np.uint64) * np.uint64(LINE_BYTES)
    for here, there in itertools.pairwise(address):
        device.core.write(int(here), np.array([there]).view(np.uint8))
    runs = (
        _launch_chase(device, int(address[0]), FRESH_STEPS[0]),
        _launch_chase(device, int(address[FRESH_STEPS[0] + 1]), FRESH_STEPS[1]),
    )
    device.core.release(buffer)
    return runs, FRESH_STEPS[1] - FRESH_STEPS[0]
