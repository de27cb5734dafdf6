"""Loads that a lone wave waits for, by their width and spread."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import SweepPoint, count_cycles, find_falls, group_series, launch_cold

TITLE = "Wide and divergent loads of a lone wave"
DEMANDS = """A wave waits for each of its loads, all of which hit the vL1D. A contiguous load of a dword per lane
takes the vL1D 4 cycles, of two or four dwords 16, and one with a line per lane 64: four lanes per cycle, less where
they conflict ([recorded](strides.md)). The last lanes are answered that much later, so loads differ in time by
exactly the vL1D's cycles.
(Allowed: 4 % more or less, because durations overlap the vL1D with the round trips it is part of.)"""
KERNEL = "loads_dword, loads_dwordx2, loads_dwordx4"
X = "vL1D cycles of the load"
CYCLES = "cycles per load"
Y = (CYCLES,)
QUICK = True

# Name, width, bytes between lanes, demanded cycles at the vL1D.
LOADS = (
    ("dword", "dword", 4, 4),
    ("two dwords", "dwordx2", 8, 16),
    ("four dwords", "dwordx4", 16, 16),
    ("a line per lane", "dword", 64, 64),
)
ROUNDS, UNROLLED, WAVE = (8, 24), 16, 64
TOLERATED_SHARE = 0.04  # share of the difference
SLACK = 0.05  # cycles, of a duration in whole units


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    data = device.core.allocate(WAVE * 64)
    for name, width, apart, _ in LOADS:
        runs = [launch_cold(device, f"loads_{width}", 1, WAVE, "Qii", data, apart, rounds) for rounds in ROUNDS]
        loads = UNROLLED * (ROUNDS[1] - ROUNDS[0])
        cycles_taken = (runs[1]["work"]["l1_cycles_busiest_cu"] - runs[0]["work"]["l1_cycles_busiest_cu"]) / loads
        yield SweepPoint(name, cycles_taken, {CYCLES: count_cycles(device, *runs) / loads})


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    demanded = {name: cycles for name, _, _, cycles in LOADS}
    wrong = [f"{p}: not the demanded {demanded[p.series]} cycles" for p in points if p.x != demanded[p.series]]
    assert len(group_series(points)) == len(LOADS)
    wrong += find_falls(points, CYCLES, SLACK / 100)
    for before, after in itertools.pairwise(points):
        longer, more = after.values[CYCLES] - before.values[CYCLES], after.x - before.x
        if abs(longer - more) > max(TOLERATED_SHARE * more, SLACK):
            wrong.append(f"{after}: {longer:.2f} cycles longer than {before}, not {more:g}")
    return wrong
