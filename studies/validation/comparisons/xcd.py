"""XCDs of an MI300X: effect of renumbering work-groups on the L2 hit rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hipsynth.simulator.native_core import DeviceOptions, Dispatch
from studies.validation import bench
from studies.validation.frame import ComparisonRow, ComparisonTable, collect_features, read_recorded_rows
from studies.validation.timed import TimedValue

TITLE = "Work-groups and XCDs"
SHOWS = """Work-groups are assigned to the eight XCDs round robin, and each XCD has its own L2, so neighbours that
share cache lines run on different XCDs. The recorded programs were run unchanged and with work-groups renumbered so
that neighbours share an XCD. Our kernels use the same tiles, order of work-groups and renumbering: one contiguous
eighth of the work per XCD for the transpose and the softmax, 32 rows of tiles for the stencil.

What the rows test: with matrix rows of 16 and 64 KiB, the lines of a column map to few sets of the L2, so that a
column of tiles in flight does not fit, however large the cache is. The stencil with a contiguous eighth per XCD
shows this: each XCD then works on one column of tiles, and almost nothing hits.

The unchanged stencil hits 59 instead of 30 %, 37 with a vL1D without sets and waves served by age; which of its lines
crowd a set depends on the order in which work-groups of one XCD run. This row is shown only.

The tiled matrix product agrees with its recordings, and so does the unchanged persistent one. With renumbered or
redistributed work-groups the persistent product hits 10 and 15 points too often; these rows are shown only. Its
recorded build spills registers and reloads 39 of them in each step. These reloads are nearly half of its L2
requests: ours mostly hit, the more so the better the work-groups share their input, whereas the recording implies
that half of them miss in every form. The reloads touch every second word, so if the 256-byte address bit alone
selected a channel, they would use every second channel: an L2 whose channel hash leaves out five bits of the line
number hits 67 and 58 %, but then the unchanged stencil hits 9 instead of 30 %. All XCDs are simulated. With only the
first XCD, which then finds less in the Infinity Cache and has the memory to itself, two of the renumbered products
came out 1 to 3 points further away and the others 1 to 3 points nearer."""
QUICK = False

DEVICE = "mi300x"
SOURCE = "AMDResearch/intelliperf, branch hardware-aware-swizzling, examples/triton/autogen_10"
HIT_POINTS = 8.0
TILE = 32
PRODUCT_TILE = (128, 256)
PROGRAMS = 304  # work-groups of the persistent product, one per CU
PARTS_BYTES = 256 * 256 * 4  # partial sums that each of them may store
SAMPLING_UNITS = 8  # of a sampled grid
HALF = 2
SOFTMAX_COLUMNS = 4096


@dataclass(frozen=True)
class RenumberedKernel:
    """A kernel of the recording: its L2 hit rate for each way to number its work-groups. `missed`: those of which ours
    is too far away; `session`: of several recordings of one kernel."""

    name: str
    size: int
    l2_hit_percent: Mapping[str, float]
    missed: tuple[str, ...] = ()
    session: str = ""


def build_tables() -> Iterator[ComparisonTable]:
    rows: list[ComparisonRow] = []
    used: frozenset[str] = frozenset()
    for kernel in read_recorded_rows("xcd", "kernel", RenumberedKernel):
        for form, figure in kernel.l2_hit_percent.items():
            dispatch = _launch_kernel(kernel.name, form, kernel.size)
            counters = dispatch["counters"]
            hit = 100 * counters["TCC_HIT"] / (counters["TCC_HIT"] + counters["TCC_MISS"])
            allowed = None if form in kernel.missed else HIT_POINTS
            label = ", ".join([kernel.name, form, *([kernel.session] if kernel.session else [])])
            timed = TimedValue((dispatch,))  # no time was recorded; its counters tell the class of the kernel
            rows.append(ComparisonRow("L2_Cache_Hit_Rate", figure, hit, allowed, points=True, label=label, timed=timed))
            used |= collect_features(dispatch)
    kernels = "tiles of halves, rows of halves"
    yield ComparisonTable("Renamed work-groups", DEVICE, SOURCE, tuple(rows), kernels, counted=used)


def _launch_kernel(name: str, form: str, size: int) -> Dispatch:
    # Sample only kernels whose neighbours run close in time; otherwise sampled groups would find cold caches.
    options: DeviceOptions = {"values": False}
    if name in ("transpose", "softmax"):
        options["sampling_units"] = SAMPLING_UNITS
    with bench.open_device(DEVICE, "xcd", **options) as device:
        symbol, allocate = f"{name}_{form}", device.core.allocate
        if name == "softmax":
            buffers = [allocate(size * SOFTMAX_COLUMNS * HALF) for _ in range(2)]
            return device.launch(symbol, (size,), (256,), "QQi", *buffers, size)
        buffers = [allocate(size * size * HALF) for _ in range(2)]
        if name in ("gemm", "persistent"):
            buffers += [allocate(size * size * HALF), allocate(PROGRAMS * PARTS_BYTES)]
            tiles = (size // PRODUCT_TILE[0]) * (size // PRODUCT_TILE[1])
            groups = PROGRAMS if name == "persistent" else tiles
            return device.launch(symbol, (groups,), (256,), "QQQQi", *buffers, size)
        return device.launch(symbol, ((size // TILE) ** 2,), (256,), "QQi", *buffers, size)
