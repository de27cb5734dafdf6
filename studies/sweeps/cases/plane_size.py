"""A stencil of seven points over planes of growing size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from studies.sweeps.sweep import SweepPoint, check_within, find_falls

TITLE = "Plane size of a stencil"
DEMANDS = """A stencil reads each point of its own plane and of the two beside it. All three come from memory once if
the caches hold them until the next plane, and once for each of three planes if not. So memory is read between 1 and 3
times per point, and not less for larger planes. On gfx90a the L2 is the only cache of planes: once if six planes fit
it (the result takes space, too), nearly three times if not even two do. On gfx942 neighbouring work-groups have
different L2s, which adds fabric reads, but the Infinity Cache holds six planes of up to 42 MiB for all of them. Where
no traffic falls, neither does the time."""
KERNEL = "seven_points"
X = "plane, KiB"
READS, FABRIC, TIME_EACH = "memory reads per point", "fabric reads per point", "ps per point"
Y = (READS, FABRIC, TIME_EACH)
QUICK = False

SIDES = (128, 256, 512, 1024, 2048, 4096)
POINT_BYTES, ITEMS = 4, 256
LEAST_PLANES, LEAST_BYTES = 8, 32 << 20
SLACK, TIME_SLACK = 0.02, 0.03
ONCE, THRICE = 1.15, 2.5


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    for side in SIDES:
        plane = side * side
        planes = max(LEAST_PLANES, LEAST_BYTES // (plane * POINT_BYTES))
        size = (planes + 2) * plane * POINT_BYTES
        out, data = device.core.allocate(size), device.core.allocate(size)
        device.core.reset()
        shape, items = (plane // ITEMS, planes), (ITEMS,)
        run = device.launch(KERNEL, shape, items, "QQII", out, data, side, plane)
        work, points = run["work"], planes * plane
        values = {
            READS: remove_outer_planes(work["hbm_read_bytes"] / (POINT_BYTES * points), planes),
            FABRIC: remove_outer_planes(work["fabric_read_bytes"] / (POINT_BYTES * points), planes),
            TIME_EACH: 1000 * (run["duration_ns"] - device.table["issue.launch_ns"]) / points,
        }
        yield SweepPoint("stencil", plane * POINT_BYTES / 1024, values)


def remove_outer_planes(reads: float, planes: int) -> float:
    """Reads per point without the outer planes: the least, (planes + 2) / planes, becomes 1, and 3 stays 3."""
    least = (planes + 2) / planes
    return 1 + 2 * (reads - least) / (3 - least)


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    wrong: list[str] = []
    cache = max(table["fabric.infinity_cache_bytes"], table["topology.xcds"] * table["l2.bytes"])
    for point in points:
        size = 1024 * point.x
        low = THRICE if 2 * size > cache else 1 - SLACK
        high = ONCE if 6 * size <= cache else 3 * (1 + SLACK)
        wrong += check_within(point, READS, low, high)
    wrong += find_falls(points, READS, SLACK)
    for before, after in itertools.pairwise(points):
        if all(after.values[traffic] >= before.values[traffic] for traffic in (READS, FABRIC)):
            wrong += find_falls((before, after), TIME_EACH, TIME_SLACK)
    return wrong
