"""Waves that re-read their own lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import (
    HITS,
    SweepPoint,
    check_within,
    compute_hit_rate,
    count_cycles,
    find_falls,
    group_series,
    launch_cold,
)

TITLE = "Live lines per CU"
DEMANDS = """The waves of a CU read their own lines in turn, again and again. The vL1D replaces the least recently
used line: the latency of a pointer chase over 33.9 kB is that of the L2, over 32.0 kB that of the vL1D
([evidence](../model/coalescing-and-vl1d.md)). So all loads hit up to its capacity, and none of a lone wave beyond it.
Of many waves, one that hits comes round twice as often as those that miss, so a few may keep their lines at twice the
capacity (one of the eight that share a set, and a rest), but not at four times. Neither hits nor the speed of a load
rise with more lines."""
KERNEL = "own_lines"
X = "lines / capacity"
CYCLES = "cycles per load of all waves"
Y = (HITS, CYCLES)
QUICK = True

SHARES = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4)
WAVES = (1, 4, 16)
ROUNDS = (4, 12)
TOLERATED_POINTS = 2.0  # points
MOST = {1.25: 100, 1.5: 100, 2: 20, 4: 5}  # hit rate of several waves
SLACK = 0.02


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    size, line = int(device.table["vl1d.bytes"]), int(device.table["vl1d.line_bytes"])
    data = device.core.allocate(int(size * SHARES[-1]))
    for waves in WAVES:
        for share in SHARES:
            lines = int(size / line * share) // waves
            counts = [lines * rounds for rounds in ROUNDS]
            runs = [launch_cold(device, KERNEL, 1, 64 * waves, "Qiii", data, lines, line, count) for count in counts]
            loads = counts[1] - counts[0]
            values = {HITS: compute_hit_rate(runs, loads * waves), CYCLES: count_cycles(device, *runs) / loads}
            yield SweepPoint(f"{waves} wave{'s' if waves > 1 else ''}", share, values)


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    wrong: list[str] = []
    for curve in group_series(points).values():
        for point in curve:
            most = TOLERATED_POINTS if point.series.startswith("1 ") else MOST.get(point.x, 0)
            low, high = (100 - TOLERATED_POINTS, 100) if point.x <= 1 else (0, most)
            wrong += check_within(point, HITS, low, high)
        wrong += find_falls(curve, CYCLES, SLACK)
        wrong += find_falls(curve[::-1], HITS, SLACK)
    return wrong
