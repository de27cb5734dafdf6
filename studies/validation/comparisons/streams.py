"""Read-only and write-only streams: the memory counters of mixbench at zero operations, and of a 256 MiB fill."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.comparisons.vcopy import RecordedDispatch, compare_dispatch
from studies.validation.frame import ComparisonTable, read_recorded_rows

TITLE = "Read and write streams"
SHOWS = """A stream that only reads (mixbench's kernel with no operations between its loads; float, double and int)
and one that only writes (the runtime's fill of 256 MiB), second dispatch each. vL1D counts must be equal; L2 misses
and fabric requests may differ by 0.5 %, the L2 hit rate by 1.5 points."""
QUICK = False

BYTES = 256 << 20
KINDS = {"fill": "fill with doubles"}


def build_tables() -> Iterator[ComparisonTable]:
    for target in read_recorded_rows("streams", "target", RecordedDispatch):
        with bench.open_device(target.device, "streams") as device:
            results = _launch_twice(device, target.kernel)
            kernels = KINDS.get(target.kernel, "read-only stream")
            yield compare_dispatch(target, results[target.dispatch], device.table.arch, kernels)


def _launch_twice(device: SimDevice, kernel: str) -> list[Dispatch]:
    """Two dispatches of the kernel with the recorded program's launch shape."""
    data = device.core.allocate(BYTES)
    if kernel == "fill":
        return [device.launch(kernel, (131072,), (256,), "Qd", data, 1.0) for _ in range(2)]
    layout, seed = {"mix_float": ("fxxxxQ", 1.0), "mix_double": ("dQ", 1.0), "mix_int": ("ixxxxQ", 1)}[kernel]
    return [device.launch(kernel, (16384,), (256,), layout, seed, data) for _ in range(2)]
