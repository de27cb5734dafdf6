"""Contiguous loads that do not begin at a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import TIME, SweepPoint, check_within, group_series, launch_cold, read_time_us

TITLE = "Misaligned streams"
DEMANDS = """Each wave reads its own consecutive blocks of 64 dwords, displaced by 0 to 124 bytes. Sixteen lanes then
touch two segments of 64 bytes instead of one, so a load makes 8 look-ups instead of 4, as recorded
([look-ups](../model/coalescing-and-vl1d.md)). The line that two blocks share is fetched once or twice: requests grow
by less than half. Nothing in the way of a load doubles but the look-ups, so the time is at most twice the aligned
one, and not less than it."""
KERNEL = "displaced"
X = "displacement, bytes"
LOOK_UPS, REQUESTS = "look-ups per load", "requests per load"
Y = (LOOK_UPS, REQUESTS, TIME)
QUICK = True

SHIFTS = tuple(range(0, 128, 4))
SEGMENT, ITEMS, BLOCKS = 64, 256, 16
ALIGNED, MISALIGNED = 4, 8
SLACK = 0.01


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    cus = int(device.table["topology.cus"])
    data = device.core.allocate(256 * BLOCKS * ITEMS // 64 * cus + 256)
    for name, groups in (("one CU", 1), ("all CUs", cus)):
        for shift in SHIFTS:
            run = launch_cold(device, KERNEL, groups, ITEMS, "Qii", data, BLOCKS, shift)
            loads, counters = groups * ITEMS // 64 * BLOCKS, run["counters"]
            values = {
                LOOK_UPS: counters["TCP_TOTAL_CACHE_ACCESSES"] / loads,
                REQUESTS: counters["TCP_TCC_READ_REQ"] / loads,
                TIME: read_time_us(run),
            }
            yield SweepPoint(name, shift, values)


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    wrong: list[str] = []
    for curve in group_series(points).values():
        first = curve[0].values
        for point in curve:
            look_ups = MISALIGNED if point.x % SEGMENT else ALIGNED
            wrong += check_within(point, LOOK_UPS, look_ups, look_ups)
            wrong += check_within(point, REQUESTS, first[REQUESTS], 1.5 * first[REQUESTS])
            wrong += check_within(point, TIME, first[TIME] * (1 - SLACK), 2 * first[TIME])
    return wrong
