"""XCDs of an MI300X: what renaming work-groups does to the L2 hit rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from profiling.trust import bench
from profiling.trust.frame import Row, Table, features, recorded

TITLE = "Work-groups and XCDs"
SHOWS = """Work-groups go round the eight XCDs, each with an L2 of its own: neighbours that share lines never meet. The
recorded programs were run as they were and with work-groups renamed so that neighbours share an XCD. Ours give each
XCD one contiguous eighth of the grid.

The transpose and the row softmax, which has nothing to gain, agree. The stencil and the matrix product do not, and are
shown without being asserted: the recorded ones are Triton kernels whose code, launch and renaming are not ours (the
product is persistent, with tiles of 256 and groups of eight), and ours already meets its neighbours in time when tiles
run down the columns, since the number of tiles in a column is a multiple of eight."""
QUICK = False

DEVICE = "mi300x"
SOURCE = "AMDResearch/intelliperf, branch hardware-aware-swizzling, examples/triton/autogen_10"
HIT_POINTS = 8.0
TILE = {"transpose": 32, "stencil": 32, "gemm": 128}
STRETCHES = 8  # of a sampled grid
HALF = 2
SOFTMAX_COLUMNS = 4096


def tables() -> Iterator[Table]:
    rows: list[Row] = []
    used: frozenset[str] = frozenset()
    for kernel in recorded("xcd")["kernel"]:
        for form in ("plain", "chunked"):
            dispatch = _launch(kernel["name"], form, kernel["size"])
            counters = dispatch["counters"]
            hit = 100 * counters["TCC_HIT"] / (counters["TCC_HIT"] + counters["TCC_MISS"])
            allowed = None if kernel.get("missed") else HIT_POINTS
            label = f"{kernel['name']}, {form}"
            rows.append(Row("L2_Cache_Hit_Rate", kernel[form], hit, allowed, points=True, label=label))
            used |= features(dispatch)
    yield Table("Renamed work-groups", DEVICE, SOURCE, tuple(rows), "tiles of halves, rows of halves", used)


def _launch(name: str, form: str, size: int) -> dict[str, Any]:
    with bench.device(DEVICE, "xcd", values=False, sample_stretches=STRETCHES) as device:
        if name == "softmax":
            rows = [device.core.allocate(size * SOFTMAX_COLUMNS * HALF) for _ in range(2)]
            return device.launch(f"softmax_{form}", (size,), (256,), "QQi", *rows, size)
        matrices = [device.core.allocate(size * size * HALF) for _ in range(2)]
        if name == "gemm":
            matrices.append(device.core.allocate(size * size * 2 * HALF))
        groups = (size // TILE[name]) ** 2
        return device.launch(f"{name}_{form}", (groups,), (256,), "Q" * len(matrices) + "i", *matrices, size)
