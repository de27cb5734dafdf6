"""vL1D throughput by access pattern: cycles per load of one work-group with strided lanes, all hits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.simulator.device import SimDevice
from studies.validation import bench
from studies.validation.frame import ComparisonTable, check_median_error, collect_features, read_recording
from studies.validation.points import RecordedPoint

TITLE = "Strides"
SHOWS = """A work-group of 1024 on one CU loads floats or doubles with a stride of 0 to 64 elements between lanes, or
in tiles that are 1 to 64 elements wide with a row pitch of 4098. Times are cycles per load of 32 work-items, as the
recorded program reports them. Doubles are compared up to a stride of 31: from 32 on the loads exceed the vL1D and
depend on its replacement policy. Tiles of 1, 4 and 8 floats and of 2 doubles are shown but not asserted: their 32
rows stay in the vL1D of an MI210 but not in ours, which has four ways. Eight ways would bring them within 20 %, but
would put the L2 hit rates of three Laplacian variants outside their tolerance."""
QUICK = True

ALLOWED = 20.0
LIMIT_STRIDE = {"float": 64, "double": 31}
PITCH = 4098
ROUNDS = (4, 12)
ITEMS, LOADS, COUNTED = 1024, 8, 32
# Shown, not asserted: patterns that fit the vL1D on hardware but not ours, which has fewer ways.
TOO_FEW_WAYS = {("float", "tile"): (1, 4, 8), ("double", "tile"): (2,)}


@dataclass(frozen=True)
class StrideTimes:
    """The recording. `rows`: type, pattern, stride or width of the tile, cycles."""

    device: str
    source: str
    rows: tuple[tuple[str, str, int, float], ...]


def build_tables() -> Iterator[ComparisonTable]:
    figures = read_recording("strides", StrideTimes)
    with bench.open_device(figures.device, "benches") as device:
        points = list(measure_points(device, figures))
    for kind in LIMIT_STRIDE:
        kind_points = [point for point in points if point.label.startswith(kind)]
        rows = tuple(point.build_row() for point in kind_points)
        yield ComparisonTable(
            f"{kind} loads",
            figures.device,
            figures.source,
            rows,
            "strided loads",
            collect_features(*(run for point in kind_points for run in point.runs)),
            (check_median_error(rows, ALLOWED),),
        )


def measure_points(device: SimDevice, figures: StrideTimes) -> Iterator[RecordedPoint]:
    """Every recorded pattern."""
    data, out = device.core.allocate(2 << 20), device.core.allocate(16384)
    mhz = device.table["clock.core_mhz"]
    amount = (ROUNDS[1] - ROUNDS[0]) * LOADS * ITEMS / COUNTED * 1000 / mhz
    for kind, pattern, figure, cycles in figures.rows:
        if pattern == "stride" and figure > LIMIT_STRIDE[kind]:
            continue
        symbol = f"{'strided' if pattern == 'stride' else 'tiled'}_{kind}"
        block = (ITEMS, 1) if pattern == "stride" else (figure, ITEMS // figure)
        step = figure if pattern == "stride" else PITCH
        runs = tuple(device.launch(symbol, (1,), block, "QQiii", data, out, rounds, 0, step) for rounds in ROUNDS)
        allowed = None if figure in TOO_FEW_WAYS.get((kind, pattern), ()) else ALLOWED
        yield RecordedPoint("cycles per load", f"{kind}, {pattern} {figure},", cycles, amount, runs, allowed, True)
