"""XCDs of an MI300X: what renaming work-groups does to the L2 hit rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hipsynth.profiling.validation import bench
from hipsynth.profiling.validation.frame import Row, Table, features, recorded

TITLE = "Work-groups and XCDs"
SHOWS = """Work-groups go round the eight XCDs, each with an L2 of its own: neighbours that share lines never meet. The
recorded programs were run as they were and with work-groups renamed so that neighbours share an XCD. Ours have their
tiles, their order of work-groups and their renaming: for the transpose and the softmax one contiguous eighth of the
work for each XCD, for the stencil 32 rows of tiles.

What the rows test: rows of 16 and 64 KiB put the lines of a column into few sets of the L2, so that a column of tiles
that are worked on at once does not fit, however large the cache is. The stencil with a contiguous eighth for each XCD
shows it: each then has one column of tiles, and next to nothing hits.

The matrix product by tiles agrees with its recordings, and so does the persistent one as it comes. Renamed or dealt
out the other way, that one hits 10 and 15 points too often; these rows are shown only. Its recorded build spills
registers and reloads 39 of them in each step. These reloads are nearly half of its L2 requests: ours mostly hit, the
more the better the work-groups share what they read, and the recording asks for half of them to miss in every form.
They are every other word, and so go to every other channel if the address bit of 256 bytes chooses a channel alone:
an L2 of which five bits of a line's number stay out of the hash hits 67 and 58 %, and a stencil as it comes 9 in place
of 30 %. All XCDs run: the first one alone, which then finds less in the Infinity Cache and has the memory for itself,
came out 1 to 3 points further away for two of the renamed products, and 1 to 3 points nearer for the others."""
QUICK = False

DEVICE = "mi300x"
SOURCE = "AMDResearch/intelliperf, branch hardware-aware-swizzling, examples/triton/autogen_10"
HIT_POINTS = 8.0
TILE = 32
PRODUCT_TILE = (128, 256)
PROGRAMS = 304  # of the persistent product: work-groups, one per CU
PARTS_BYTES = 256 * 256 * 4  # that each of them may leave
SAMPLING_UNITS = 8  # of a sampled grid
HALF = 2
SOFTMAX_COLUMNS = 4096


def tables() -> Iterator[Table]:
    rows: list[Row] = []
    used: frozenset[str] = frozenset()
    for kernel in recorded("xcd")["kernel"]:
        for form, figure in kernel["l2_hit_percent"].items():
            dispatch = _launch(kernel["name"], form, kernel["size"])
            counters = dispatch["counters"]
            hit = 100 * counters["TCC_HIT"] / (counters["TCC_HIT"] + counters["TCC_MISS"])
            allowed = None if form in kernel.get("missed", ()) else HIT_POINTS
            label = ", ".join([kernel["name"], form, *([kernel["session"]] if "session" in kernel else [])])
            rows.append(Row("L2_Cache_Hit_Rate", figure, hit, allowed, points=True, label=label))
            used |= features(dispatch)
    yield Table("Renamed work-groups", DEVICE, SOURCE, tuple(rows), "tiles of halves, rows of halves", used)


def _launch(name: str, form: str, size: int) -> dict[str, Any]:
    # Neighbours in a sampled grid that are far apart in time would find cold caches.
    options: dict[str, Any] = {"sampling_units": SAMPLING_UNITS} if name in ("transpose", "softmax") else {}
    with bench.device(DEVICE, "xcd", values=False, **options) as device:
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
