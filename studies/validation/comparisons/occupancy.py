"""Streams by occupancy: bandwidth of six kernels from one wave per CU to full CUs, on three devices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator.device import SimDevice
from studies.validation import bench
from studies.validation.frame import ComparisonTable, check_median_error, collect_features, read_recorded_rows
from studies.validation.points import RecordedPoint

TITLE = "Bandwidth by occupancy"
SHOWS = """Six streams of doubles, one element per work-item, with one or two work-groups per CU (limited by dynamic
LDS) of 16 to 1024 work-items. The recorded arrays have 2 GiB each, so that no cache keeps data until the next
launch. We compute the rate from two smaller sizes, both larger than the modified data that the L2 can hold, after a
first launch that fills the L2, on a device without Infinity Cache. On an MI300X the recorded triad has a dip at 2 x
512 and scale at 2 x 192. These points are shown only, and so is init at 2 x 512 on the MI210, which writes 18 % more
than the bandwidth that fits all its streams."""
QUICK = False

ALLOWED, WORST = 10.0, 17.0  # median of a table, single points
# Shown, not asserted: dips in the recording, and a point that writes more than the fit to all streams allows.
DENTS = {("mi300x", "triad", 2, 512), ("mi300x", "scale", 2, 192), ("mi210", "init", 2, 512)}
LEAST_TURNS = 4
LAUNCHES = 3  # each on separate memory
LDS_BYTES = 65536
SYMBOL = "stream_{}"
ARRAYS = {"init": "a", "read": "b", "scale": "ab", "triad": "abcd", "3pt": "ab", "5pt": "ab"}
CONSTANTS = {"fabric.infinity_cache_bytes": 0.0}


@dataclass(frozen=True)
class StreamBandwidths:
    """One device of the recording. `streams`: kernel -> arrays that it reads or writes; `rows`: work-items per group,
    groups per CU, GB/s of each kernel."""

    name: str
    source: str
    streams: Mapping[str, int]
    rows: tuple[tuple[int, ...], ...]


def build_tables() -> Iterator[ComparisonTable]:
    for bandwidths in read_recorded_rows("occupancy", "device", StreamBandwidths):
        with bench.open_device(bandwidths.name, "benches", constants=CONSTANTS, values=False) as device:
            points = list(measure_points(device, bandwidths))
        rows = tuple(point.build_row() for point in points)
        yield ComparisonTable(
            f"streams on {bandwidths.name}",
            bandwidths.name,
            bandwidths.source,
            rows,
            "streams of doubles",
            collect_features(*(run for point in points for run in point.runs)),
            (check_median_error(rows, ALLOWED),),
        )


def measure_points(device: SimDevice, bandwidths: StreamBandwidths) -> Iterator[RecordedPoint]:
    """Every recorded point of one device."""
    largest = max(_choose_sizes(device, row[0] * row[1])[1] for row in bandwidths.rows)
    span = 8 * largest + 64
    memory = {name: device.core.allocate(LAUNCHES * span) for name in "abcd"}
    for column, (kernel, streams) in enumerate(bandwidths.streams.items()):
        for block, per_cu, *speeds in bandwidths.rows:
            sizes = _choose_sizes(device, block * per_cu)
            runs = []
            for launch, n in enumerate((sizes[0], *sizes)):
                arrays = [memory[name] + launch * span if name in ARRAYS[kernel] else 0 for name in "abcd"]
                geometry = (SYMBOL.format(kernel), (n // block,), (block,), "QQQQQi")
                runs.append(device.launch(*geometry, *arrays, n, 0, lds=LDS_BYTES // per_cu))
            allowed = None if (device.table.name, kernel, per_cu, block) in DENTS else WORST
            label = f"{kernel}, {per_cu} x {block}"
            moved = 8.0 * streams * (sizes[1] - sizes[0])
            yield RecordedPoint("stream bandwidth, GB/s", label, speeds[column], moved, tuple(runs[1:]), allowed)


def _choose_sizes(device: SimDevice, items_per_cu: int) -> tuple[int, int]:
    """Two array lengths for which the kernel writes more than the L2s can hold modified, so that they write back.

    Twice as much where pages are scattered: their sets fill unevenly, and both lengths must leave equally much behind.
    """
    resident = int(device.table["topology.cus"]) * items_per_cu
    modified = device.table["topology.xcds"] * device.table["l2.bytes"]
    modified *= device.table["l2.dirty_ways"] / device.table["l2.ways"]
    modified *= 2 if device.table["l2.scattered_page_bytes"] else 1
    least = max(LEAST_TURNS, math.ceil(modified / 8 / resident))
    return least * resident, (least + max(LEAST_TURNS, math.ceil(least / 2))) * resident
