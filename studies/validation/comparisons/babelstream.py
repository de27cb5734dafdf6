"""BabelStream on an MI300A as one device of six XCDs, three of two, and six of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator import devices
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.frame import (
    DURATION,
    ComparisonRow,
    ComparisonTable,
    check_worst_error,
    collect_features,
    read_recording,
)
from studies.validation.timed import TimedValue

TITLE = "BabelStream on partitions of an MI300A"
SHOWS = """Four streams and a scalar product of 2 GiB arrays, block 1024. An APU can be partitioned into one device
of six XCDs (SPX), three of two (TPX) or six of one (CPX). We model a partition by scaling XCDs and CUs of the device
table; devices that run at the same time share the HBM evenly, and each XCD has its own path to the memory. GFLOP/s
are the operations in the code divided by the recorded time. The grid is sampled.

A single XCD reaches 711 GB/s with every kernel, a sixth of the 4256 GB/s that gpu-benches reads from the Infinity
Cache with six XCDs: this limit belongs to the XCD. Where the HBM is the limit, recordings of MI300As contradict each
other: six devices of one XCD read and write 4.2 TB/s together, one device of six XCDs 3.65 TB/s, and the same
streams in gpu-benches and the vector kernels of the kernel times 3.0 TB/s. Our table follows the latter two, so
points where several devices share the HBM have a wider bound."""
QUICK = False

SAMPLING_UNITS = 8  # of a sampled grid
BLOCK = 1024
DOT_ELEMENTS = 4  # per work-item
STREAMS = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
OPERATIONS = {"mul": 1, "add": 1, "triad": 2, "dot": 2}  # per element
WORST_PERCENT, SHARED_PERCENT = 20.0, 30.0  # one device alone; several that share the HBM
PER_XCD = ("topology.cus", "topology.xcds", "fabric.infinity_cache_gbps")
SHARED = ("hbm.read_gbps", "hbm.write_gbps", "hbm.peak_gbps")


@dataclass(frozen=True)
class DevicePartition:
    """A partition of the device: its XCDs, how many such devices ran at once, MB/s of each kernel."""

    name: str
    xcds: int
    active: int
    mbps: Mapping[str, float]


@dataclass(frozen=True)
class PartitionBandwidths:
    """The recording."""

    device: str
    source: str
    elements: int
    partition: tuple[DevicePartition, ...]


def build_tables() -> Iterator[ComparisonTable]:
    figures = read_recording("babelstream", PartitionBandwidths)
    for partition in figures.partition:
        factors = compute_factors(figures.device, partition.xcds, partition.active)
        constants = scale_constants(figures.device, partition.xcds, partition.active)
        rows: list[ComparisonRow] = []
        runs: list[Dispatch] = []
        for kernel in STREAMS:
            with bench.open_device(
                figures.device, "babelstream", constants=constants, values=False, sampling_units=SAMPLING_UNITS
            ) as device:
                run = _launch_stream(device, kernel, figures.elements)
            rows += _compare_run(kernel, figures.elements, partition.mbps[kernel] / 1000, run, factors)
            runs.append(run)
        bandwidths = [row for row in rows if row.quantity.startswith("stream")]
        yield ComparisonTable(
            f"{partition.name}: {partition.xcds} of 6 XCDs",
            figures.device,
            figures.source,
            tuple(rows),
            "BabelStream",
            collect_features(*runs),
            (check_worst_error(bandwidths, WORST_PERCENT if partition.active == 1 else SHARED_PERCENT),),
        )


def scale_constants(device: str, xcds: int, active: int) -> dict[str, float]:
    """Overrides of the device table for one of `active` devices with `xcds` XCDs each that share the memory."""
    table = devices.load_device(device)
    return {key: table[key] * factor for key, factor in compute_factors(device, xcds, active).items()}


def compute_factors(device: str, xcds: int, active: int) -> dict[str, float]:
    """The same as factors of the table's constants."""
    share = xcds / devices.load_device(device)["topology.xcds"]
    return dict.fromkeys(PER_XCD, share) | dict.fromkeys(SHARED, 1 / active)


def _launch_stream(device: SimDevice, kernel: str, elements: int) -> Dispatch:
    arrays = [device.core.allocate(8 * elements) for _ in range(3)]
    per_item = DOT_ELEMENTS if kernel == "dot" else 1
    return device.launch(kernel, (elements // BLOCK // per_item,), (BLOCK,), "QQQq", *arrays, elements)


def _compare_run(
    kernel: str, elements: int, gbps: float, run: Dispatch, factors: Mapping[str, float]
) -> Iterator[ComparisonRow]:
    moved, duration = 8.0 * STREAMS[kernel] * elements, run["duration_ns"]
    yield ComparisonRow("stream bandwidth, GB/s", gbps, moved / duration, label=kernel)
    yield ComparisonRow(DURATION, moved / gbps, duration, label=kernel, timed=TimedValue((run,), scaled=factors))
    if kernel in OPERATIONS:
        operations = OPERATIONS[kernel] * elements
        for level in ("L1_Cache", "L2_Cache", "HBM"):
            yield ComparisonRow(f"{level}_GFLOPS", operations * gbps / moved, operations / duration, label=kernel)
