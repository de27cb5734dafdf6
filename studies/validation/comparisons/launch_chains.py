"""Empty kernels, FMA loops of one work-group, and chains of dependent stencils on an MI300X."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench
from studies.validation.calls import (
    FLOAT,
    OPTIONS,
    TimedCall,
    allocate_arrays,
    compare_call,
    count_groups,
    launch_in_part,
)
from studies.validation.frame import (
    ComparisonRow,
    ComparisonTable,
    TableCheck,
    check_mean_error,
    check_rank_correlation,
    collect_features,
    read_recording,
)
from studies.validation.points import RecordedPoint

TITLE = "Dispatch, lone waves and launch chains"
SHOWS = """Three programs on an MI300X. Empty kernels are timed by the host, from the launch to the end of the wait for
it; only what further groups add to a launch of one is compared, which is the dispatcher's rate. The FMA loop runs four
independent chains in each work-item of one group: up to 256 work-items are one wave on each SIMD, 1,024 are four. The
stencil's launches each read what the one before wrote; the recorded chain is the program's first, after a copy of the
data and a fill. Its figures, and those of the loop, are times between two events. What a launch costs behind another
one, and behind one that left up to 4 MB modified, was fitted to the chains of up to 1024 columns.

All figures are in the mode of `synth profile`: the L2 is empty when a launch begins. The first two launches of a chain
are simulated one after the other, then two more that stand for all later ones; loops are simulated at two shorter
lengths and extrapolated, which is exact.

The rate of the dispatcher and what a branch takes were fitted to the first two. A turn of the loop takes a wave alone
on its SIMD 36 cycles, with four waves 48: 16 waves of a CU with two scalar instructions and a branch each, one per
cycle.

Known deviations: the loop's packed FMA are charged the clock of a device full of them, 3 cycles a turn too many.
Behind a launch that wrote 4 MB the next one takes 10 us, ours 8; behind one that wrote 0.25 to 1 MB ours take up to a
fifth too long."""
QUICK = False

KERNELS = "launch_chains"
LEAST_EXTRAPOLATED_FMAS = 4096  # FMA of a loop from which longer ones are extrapolated
TILE = 16
EMPTY_PERCENT, LOOP_PERCENT, CHAIN_PERCENT = 2.0, 8.0, 15.0  # mean errors, a little above what was measured
LEAST_CORRELATION = 0.95


@dataclass(frozen=True)
class LaunchChains:
    """The recording. `empty`: work-items per group, groups, us; `fma`: work-items, FMA of each, us; `jacobi`: launches,
    width, us."""

    device: str
    source: str
    empty: tuple[tuple[int, int, float], ...]
    fma: tuple[tuple[int, int, float], ...]
    jacobi: tuple[tuple[int, int, float], ...]


def build_tables() -> Iterator[ComparisonTable]:
    recording = read_recording(KERNELS, LaunchChains)

    def make_table(
        title: str, kernels: str, rows: Sequence[ComparisonRow], runs: Sequence[Dispatch], *checks: TableCheck
    ) -> ComparisonTable:
        return ComparisonTable(
            title, recording.device, recording.source, tuple(rows), kernels, collect_features(*runs), checks
        )

    points = list(_measure_empty_kernels(recording))
    rows = [point.build_row() for point in points]
    runs = [run for point in points for run in point.runs]
    yield make_table("empty kernels", "empty kernel", rows, runs, check_mean_error(rows, EMPTY_PERCENT))
    loops = [_compare_loop(recording.device, *row) for row in recording.fma]
    rows, runs = [row for row, _ in loops], [run for _, used in loops for run in used]
    yield make_table("FMA loops of one group", "loop of FMA", rows, runs, check_mean_error(rows, LOOP_PERCENT))
    chains = [
        chain
        for width in dict.fromkeys(row[1] for row in recording.jacobi)
        for chain in _compare_chains(recording, width)
    ]
    rows, runs = [row for row, _ in chains], [run for _, used in chains for run in used]
    correlation = check_rank_correlation(rows, LEAST_CORRELATION)
    yield make_table(
        "chains of stencils", "chain of stencils", rows, runs, check_mean_error(rows, CHAIN_PERCENT), correlation
    )


def _measure_empty_kernels(recording: LaunchChains) -> Iterator[RecordedPoint]:
    """The time of all groups but the first, us."""
    with bench.open_device(recording.device, KERNELS, "-O2", **OPTIONS) as device:
        alone: dict[int, tuple[Dispatch, float]] = {}
        for items, groups, microseconds in recording.empty:
            run = device.launch("nothing", (groups,), (items,), "")
            if groups == 1:
                alone[items] = run, microseconds
            elif groups >= 4096:  # what few groups add is less than the noise
                first, lone = alone[items]
                label = f"{items} work-items, {groups} groups"
                yield RecordedPoint(
                    "time of further groups, us", label, microseconds - lone, 1000.0, (first, run), inverted=True
                )


def _compare_loop(name: str, items: int, count: int, microseconds: float) -> tuple[ComparisonRow, list[Dispatch]]:
    with bench.open_device(name, KERNELS, "-O2", **OPTIONS) as device:
        (out,) = allocate_arrays(device, FLOAT * items)
        launched = launch_in_part(
            device,
            0,
            count,
            LEAST_EXTRAPOLATED_FMAS,
            lambda n: device.launch("fma_chains", (1,), (items,), "Qi", out, n),
            warm=False,
        )
        row = compare_call(f"{items} work-items, {count} FMA", TimedCall(launched), microseconds, device)
    return row, [run for run, _ in launched]


def _compare_chains(recording: LaunchChains, width: int) -> Iterator[tuple[ComparisonRow, list[Dispatch]]]:
    """The chains of one width: their launches are the same."""
    with bench.open_device(recording.device, KERNELS, "-O2", **OPTIONS) as device:
        grids = allocate_arrays(device, *[FLOAT * width**2] * 2)
        tiles = count_groups(width - 2, TILE)
        runs = [
            device.launch("jacobi_2d", (tiles, tiles), (TILE, TILE), "QQi", *(grids if even else grids[::-1]), width)
            for even in (True, False, True, False)
        ]
        for launches, _, microseconds in (row for row in recording.jacobi if row[1] == width):
            later = (launches - 2) / 2
            call = TimedCall(list(zip(runs, (1.0, 1.0, later, later), strict=True)))
            yield compare_call(f"{launches} launches, width {width}", call, microseconds, device), runs
