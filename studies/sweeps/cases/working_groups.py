"""Grids of which only some work-groups work."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import TIME, KnownFault, SweepPoint, check_within, group_series, launch_cold, read_time_us

TITLE = "Work-groups launched and working"
DEMANDS = """N work-groups work, of k N that are launched; the others return at their guard. The first N take the
time of N alone, and at most what it takes to launch the others besides: their share of the dispatcher's rate, and for
each full device of them the start of a wave and its scalar load. Where every k-th works, the dispatcher deals
work-groups to the XCDs in turn ([model](../model/dispatch-and-launch.md)), so that only some XCDs work: their
arithmetic alone takes k times as long if k divides the number of XCDs."""
KERNEL = "first_work, every_works"
X = "work-groups launched for each that works"
BOUND = "arithmetic of the busiest CU, us"
Y = (TIME, BOUND)
QUICK = True

FACTORS = (1, 2, 4, 8)
PER_CU = (0.25, 1, 4)
ITEMS, WAVES, STEPS, STEP_INSTRUCTIONS = 256, 4, 256, 16
SLACK = 0.02

CEILING = (
    "the number of working groups is estimated by their times, slightly above N, and rounded up to whole groups per CU"
)
PLACES = "which XCD and CU a work-group runs on plays no part in the duration: all are taken to share the work"
KNOWN = (
    KnownFault(
        "mi250",
        ("first, 1 per CU at 2", "first, 4 per CU at", "every k-th, 1 per CU at 2", "every k-th, 4 per CU at"),
        CEILING,
    ),
    KnownFault("mi300x", ("first, 4 per CU at",), CEILING),
    KnownFault("mi300x", ("every k-th, 1 per CU at", "every k-th, 4 per CU at"), PLACES),
)


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    cus = int(device.table["topology.cus"])
    data = device.core.allocate(4 * ITEMS * int(cus * PER_CU[-1] * FACTORS[-1]))
    for share in PER_CU:
        groups = int(cus * share)
        for factor in FACTORS:
            launched = groups * factor
            first = launch_cold(device, "first_work", launched, ITEMS, "Qii", data, groups, STEPS)
            spread = launch_cold(device, "every_works", launched, ITEMS, "Qii", data, factor, STEPS)
            table = device.table
            yield SweepPoint(
                f"first, {share:g} per CU",
                factor,
                {TIME: read_time_us(first), BOUND: compute_arithmetic_us(groups, 1, table)},
            )
            bound = compute_arithmetic_us(groups, math.gcd(factor, int(table["topology.xcds"])), table)
            yield SweepPoint(f"every k-th, {share:g} per CU", factor, {TIME: read_time_us(spread), BOUND: bound})


def compute_arithmetic_us(groups: int, idle: int, table: DeviceTable) -> float:
    """Time of the vector instructions of the busiest CU if one in `idle` XCDs works, each wave on its own SIMD."""
    of_cu = math.ceil(groups / (table["topology.cus"] / idle))
    instructions = of_cu * WAVES / table["topology.simds_per_cu"] * STEPS * STEP_INSTRUCTIONS
    return instructions * table["issue.valu_cycles"] / table["clock.vector_mhz"]


def compute_launching_us(groups: float, table: DeviceTable) -> float:
    """What launching work-groups that return at once may cost."""
    waves = groups * WAVES
    rate = max(waves * table["issue.dispatch_cycles"], groups * table["issue.group_dispatch_cycles"])
    start = table["issue.wave_start_cycles"] + WAVES * table["issue.wave_launch_cycles"] + table["hbm.latency_cycles"]
    slots = table["topology.cus"] * table["topology.simds_per_cu"] * table["topology.waves_per_simd"]
    return (rate / table["topology.xcds"] + math.ceil(waves / slots) * start) / table["clock.core_mhz"]


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    wrong: list[str] = []
    for name, curve in group_series(points).items():
        alone = curve[0].values[TIME]
        groups = float(name.split(", ")[1].split()[0]) * table["topology.cus"]
        for point in curve:
            others = compute_launching_us(groups * (point.x - 1), table) if point.x > 1 else 0
            idle = math.gcd(int(point.x), int(table["topology.xcds"]))
            few = name.startswith("first") or idle == 1
            high = alone * (1 + SLACK) + others if few else idle * alone * (1 + SLACK) + others
            wrong += check_within(point, TIME, max(alone * (1 - SLACK), point.values[BOUND]), high)
    return wrong
