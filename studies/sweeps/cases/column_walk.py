"""Column walks: work-item r reads row r, one dword after the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import (
    HITS,
    TIME,
    SweepPoint,
    check_within,
    compute_hit_rate,
    find_falls,
    group_series,
    launch_cold,
    read_time_us,
)

TITLE = "Columns by row pitch and number of rows"
DEMANDS = """One work-group reads one line of each row, dword by dword; each wave has 64 rows. Rows whose pitch is a
multiple of all sets lie in one set: on gfx942 one of four sets of 64 lines, chosen by address bits 7 and 8
([Wave](https://wave-lang.readthedocs.io/en/latest/wave/buffer_and_swizzle.html)), so that one wave keeps its lines
and two do not; a pitch padded by 128 bytes uses all sets. On gfx90a the sets are those of the device table. With
least recently used lines replaced first, rows that fit their sets hit except for the first dword. With more rows, at
power-of-two pitches, a wave hits only while no other one is in between: at most the share of one wave in all. The
time of an equal walk does not fall when the power of two grows.

In our model the youngest of four waves on gfx942 is alone: the oldest come first, and three keep the vL1D busy. Whether
hardware does so is unknown."""
KERNEL = "column_walk"
X = "row pitch, bytes"
Y = (HITS, TIME)
QUICK = True

PITCHES = tuple(1 << bits for bits in range(10, 21, 2))
PADDING = 128
ROWS = (64, 128, 256, 512, 1024)
WAVE = 64
TOLERATED_POINTS, SLACK = 2.0, 0.01  # points of the hit rate; share of the time


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    data = device.core.allocate((PITCHES[-1] + PADDING) * ROWS[-1])
    columns = int(device.table["vl1d.line_bytes"]) // 4
    for pitch in (size + padding for size in PITCHES for padding in (0, PADDING)):
        for rows in ROWS:
            run = launch_cold(device, KERNEL, 1, rows, "QIi", data, pitch, columns)
            values = {HITS: compute_hit_rate([run], rows * columns), TIME: read_time_us(run)}
            padded = ", padded" if pitch % PITCHES[0] else ""
            yield SweepPoint(f"{rows} rows{padded}", pitch, values)


def count_kept_rows(pitch: float, table: DeviceTable) -> float:
    """Rows whose lines fit the sets that they share."""
    line = table["vl1d.line_bytes"]
    sets = int(table["vl1d.bytes"] / line / table["vl1d.ways"])
    return table["vl1d.ways"] * sets / math.gcd(int(pitch // line), sets)


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    most = 100 - 100 / (table["vl1d.line_bytes"] / 4)
    wrong: list[str] = []
    for point in points:
        rows = int(point.series.split()[0])
        is_kept = rows <= count_kept_rows(point.x, table)
        thrashes = not is_kept and point.x % PITCHES[0] == 0
        high = min(most, 100 * WAVE / rows) if thrashes and rows > WAVE else 0 if thrashes else most
        wrong += check_within(point, HITS, most - TOLERATED_POINTS if is_kept else 0, high + 1e-6)
    for name, curve in group_series(points).items():
        if "padded" not in name:
            wrong += find_falls(curve, TIME, SLACK)
    return wrong
