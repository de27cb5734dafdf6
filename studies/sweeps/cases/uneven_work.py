"""Work-groups of unequal length, and the same work in small and large work-groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import TIME, KnownFault, SweepPoint, check_within, launch_cold, read_time_us

TITLE = "Work-groups of unequal length"
DEMANDS = """Every seventh work-group takes sixteen times as long as the others, or the n-th takes n times as long as
the first. No schedule is faster than the longest work-group alone or than the same work in equal parts, and one that
gives the next work-group to the first free CU is no slower than both together ([Graham
1969](https://doi.org/10.1137/0117039)). Equal work in four times as many work-groups of 64 work-items takes the time
of those of 256, but for the dispatcher's time."""
KERNEL = "few_long, triangle, first_work"
X = "work-groups per CU"
LOW, HIGH = "longest or equal parts, us", "longest and equal parts, us"
Y = (TIME, LOW, HIGH)
QUICK = True

PER_CU = (1, 2, 4, 8, 16)
ITEMS, EVERY, LONG, SHORT = 256, 7, 512, 32
SLACK = 0.05
EQUAL = 0.04  # the longest of equal work-groups takes 3 % longer than their mean, and counts if each has a CU

KNOWN = tuple(
    KnownFault(
        device,
        ("one longer than the other at 2:",),
        "the mean of the working groups counts, three quarters of the longest, where there are more of them than CUs",
    )
    for device in ("mi250", "mi300x")
)


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    cus = int(device.table["topology.cus"])
    data = device.core.allocate(4 * ITEMS * cus * PER_CU[-1])

    def time_equal(groups: int, steps: int, items: int = ITEMS) -> float:
        return read_time_us(launch_cold(device, "first_work", groups, items, "Qii", data, groups, steps))

    for per_cu in PER_CU:
        groups = cus * per_cu
        long = -(-groups // EVERY)
        uneven = launch_cold(device, "few_long", groups, ITEMS, "Qiii", data, EVERY, LONG, SHORT)
        mean = round((long * LONG + (groups - long) * SHORT) / groups)
        yield _make_bounded_point(
            "every seventh is long", per_cu, read_time_us(uneven), time_equal(1, LONG), time_equal(groups, mean), device
        )
        slope = max(1, groups // LONG)
        steps = groups // slope
        triangle = launch_cold(device, "triangle", groups, ITEMS, "Qii", data, slope, 0)
        shares = time_equal(1, steps), time_equal(groups, round(steps / 2))
        yield _make_bounded_point("one longer than the other", per_cu, read_time_us(triangle), *shares, device)
        large, small = time_equal(groups, LONG // 4), time_equal(4 * groups, LONG // 4, ITEMS // 4)
        table = device.table
        starts = 4 * groups * table["issue.group_dispatch_cycles"] / table["topology.xcds"] / table["clock.core_mhz"]
        yield SweepPoint(
            "of 64 work-items", per_cu, {TIME: small, LOW: large * (1 - EQUAL), HIGH: large * (1 + EQUAL) + starts}
        )


def _make_bounded_point(
    name: str, per_cu: int, time: float, longest: float, equal: float, device: SimDevice
) -> SweepPoint:
    launch = device.table["issue.launch_ns"] / 1000  # is part of both
    low, high = max(longest, equal) * (1 - SLACK), (longest + equal - launch) * (1 + SLACK)
    return SweepPoint(name, per_cu, {TIME: time, LOW: low, HIGH: high})


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    return [text for p in points for text in check_within(p, TIME, p.values[LOW], p.values[HIGH])]
