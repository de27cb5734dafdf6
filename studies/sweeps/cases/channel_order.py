"""The same blocks in an order that sends all waves to few L2 channels at a time, and one block for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.native_core import Dispatch
from studies.sweeps.sweep import TIME, SweepPoint, check_within, group_series, launch_cold, read_time_us

TITLE = "L2 channels, all at once or one after the other"
DEMANDS = """One wave on each CU reads the same 4096 blocks of 256 bytes, each once, sixteen at a time, in an order
with a growing stride from one block to the next. Counts are equal. Blocks a stride of all channels apart (8 KiB on
gfx90a, 4 KiB on gfx942) would come from one channel if nothing else chose it; in our model, scattered pages (gfx90a)
and upper address bits (gfx942) do. So no order is faster than the one with the smallest stride. A block of 256 bytes
certainly has one channel, which serves one request per cycle (guide): when sixteen waves of each CU read one block
again and again, with an empty vL1D, their requests to the L2 bound the time from below; those
for 1024 blocks do not."""
KERNEL = "blocks_in_turn, fresh_blocks"
X = "stride, bytes"
BUSIEST, BOUND = "requests of the busiest channel", "with one channel alone, us"
Y = (TIME, BUSIEST, BOUND)
QUICK = True

BITS, BLOCK, WAVE = 12, 256, 64
SKIPS = range(10)
FRESH_LOADS, FRESH_GROUPS, FRESH_ITEMS = 64, 4, 256
IN_TURN, FRESH = "blocks in turn", "with an empty vL1D"
SLACK, SLOWER = 0.01, 1.2


def measure_points(device: SimDevice) -> Iterator[SweepPoint]:
    cus = int(device.table["topology.cus"])
    data = device.core.allocate(BLOCK << BITS)
    for skip in SKIPS:
        run = launch_cold(device, "blocks_in_turn", cus, WAVE, "Qii", data, BITS, skip)
        yield _make_point(device, IN_TURN, BLOCK << skip, run)
    for step in (0, 1):
        run = launch_cold(device, "fresh_blocks", cus * FRESH_GROUPS, FRESH_ITEMS, "Qii", data, FRESH_LOADS, step)
        yield _make_point(device, FRESH, BLOCK * step, run)


def _make_point(device: SimDevice, name: str, stride: int, run: Dispatch) -> SweepPoint:
    requests = run["counters"]["TCC_REQ"] / device.table["topology.xcds"]
    bound = requests * device.table["l2.cycles_per_request"] / device.table["clock.core_mhz"]
    busiest = run["work"]["l2_requests_busiest_channel"]
    return SweepPoint(name, stride, {TIME: read_time_us(run), BUSIEST: busiest, BOUND: bound})


def find_failures(points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
    curves = group_series(points)
    wrong: list[str] = []
    spread = curves[IN_TURN][0].values[TIME]
    for point in curves[IN_TURN]:
        wrong += check_within(point, TIME, spread * (1 - SLACK), float("inf"))
    curve, many = curves[FRESH]
    wrong += check_within(curve, TIME, max(curve.values[BOUND], SLOWER * many.values[TIME]), float("inf"))
    return wrong
