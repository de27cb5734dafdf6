"""Times of calls of a recorded program: launches between two events, each queued behind the previous one."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import DeviceOptions, Dispatch
from studies.validation import bench
from studies.validation.frame import (
    DURATION,
    ComparisonRow,
    ComparisonTable,
    check_mean_error,
    check_rank_correlation,
    collect_features,
    read_recording,
)
from studies.validation.timed import Spec, TimedValue

FLOAT = 4
# As `synth profile`, but for the number of samples of a large grid: the L2 is empty when a launch begins.
OPTIONS: DeviceOptions = {
    "values": False, "sampling_units": 6, "sample_above": 15_000_000, "memory_bytes": 64 << 30,
}  # fmt: skip


@dataclass(frozen=True)
class TimedCall:
    """One timed call: (dispatch, number of launches that it represents) pairs, blocking transfers, and fills.

    An extrapolated launch is a weighted sum of shorter ones, one with a negative weight. `awaited`: bytes of each
    blocking copy from the host or fill. `fills`: fills of a few bytes on the device, before the first launch.
    """

    dispatches: Sequence[tuple[Dispatch, float]]
    awaited: Sequence[float] = ()
    fills: int = 0

    def build_timed_value(self, table: Spec) -> TimedValue[Dispatch]:
        """Time between two events around the call, in ns; each launch is queued behind the previous one, and waits
        until what that one left modified is written back."""
        runs, times = zip(*self.dispatches, strict=True)
        left = [_compute_kilobytes_left(run, table) for run in runs]
        terms = {
            "issue.event_ns": 0.0 if self.fills else 1.0,  # for the first command on an idle device
            "issue.launch_ns": -sum(times),
            "issue.chained_launch_ns": sum(times),
            "fabric.handover_ns_per_kb": sum(map(operator.mul, times, left)) - left[-1],
            "host.copy_ns": float(len(self.awaited)),
            "host.device_copy_ns": float(self.fills),
        }
        return TimedValue(runs, weights=times, terms=terms, link_bytes=sum(self.awaited))


def _compute_kilobytes_left(run: Dispatch, table: Spec) -> float:
    """What the next launch waits for: KB that the launch left modified in the L2 of each XCD, up to a bound."""
    work = run.get("work", {})
    left = work.get("flushed_bytes", 0.0) + work.get("left_bytes", 0.0)
    return min(left / 1024 / table["topology.xcds"], table["fabric.handover_kb"])


@dataclass(frozen=True)
class RecordedBenchmark:
    """`rows`: the sizes of a call, then its microseconds."""

    name: str
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class BenchmarkTimes:
    """A recording of several benchmarks."""

    device: str
    source: str
    benchmark: tuple[RecordedBenchmark, ...]


@dataclass(frozen=True)
class BenchmarkBounds:
    """Largest mean errors in per cent, of all rows and of each benchmark; least rank correlation."""

    mean_percent: float
    benchmark_percent: Mapping[str, float]
    least_correlation: float


SimulatedCalls = Mapping[str, Callable[..., TimedCall]]  # by benchmark: a call, given a device and the sizes


def compare_benchmarks(
    study: str, kernels: str, calls: SimulatedCalls, bounds: BenchmarkBounds
) -> Iterator[ComparisonTable]:
    """The one table of a study: recorded/<study>.toml beside our calls of kernels/<study>.hip, each on a device of its
    own. `kernels`: what they are."""
    recording = read_recording(study, BenchmarkTimes)
    cases = [(benchmark.name, row) for benchmark in recording.benchmark for row in benchmark.rows]

    def compare_case(case: tuple[str, Sequence[float]]) -> tuple[ComparisonRow, frozenset[str]]:
        name, row = case
        sizes = tuple(map(int, row[:-1]))
        with bench.open_device(recording.device, study, "-O2", **OPTIONS) as device:
            call = calls[name](device, *sizes)
        label = f"{name} {' '.join(map(str, sizes))}"
        return compare_call(label, call, row[-1], device), collect_features(*(run for run, _ in call.dispatches))

    with ThreadPoolExecutor(os.cpu_count()) as workers:  # the core runs without Python's lock
        results = list(workers.map(compare_case, cases))
    rows = tuple(row for row, _ in results)
    used = frozenset[str]().union(*(used for _, used in results))
    grouped: dict[str, list[ComparisonRow]] = {}
    for (name, _), row in zip(cases, rows, strict=True):
        grouped.setdefault(name, []).append(row)
    limits = bounds.benchmark_percent
    checks = (
        check_mean_error(rows, bounds.mean_percent),
        check_rank_correlation(rows, bounds.least_correlation),
        *(
            check_mean_error(benchmark_rows, limits[name], f"mean error of {name}")
            for name, benchmark_rows in grouped.items()
        ),
    )
    yield ComparisonTable("benchmarks", recording.device, recording.source, rows, kernels, used, checks)


def compare_call(label: str, call: TimedCall, theirs: float, device: SimDevice) -> ComparisonRow:
    """The comparison of a call with its recorded microseconds. A call with one long kernel is evidence for durations;
    others also contain launch and copy overheads."""
    timed = call.build_timed_value(device.table.spec())
    ours = timed.compute_time_ns([run["duration_ns"] for run in timed.runs], device.table.spec())
    alone = len(call.dispatches) == 1 and not call.awaited and not call.fills
    if alone and 1000 * theirs >= expected_error.SHORT_NS:
        return ComparisonRow(DURATION, 1000 * theirs, ours, label=label, timed=timed)
    return ComparisonRow("time of a call, us", theirs, ours / 1000, label=label, timed=replace(timed, amount=1000.0))


def fits_infinity_cache(device: SimDevice, footprint: float) -> bool:
    """Whether the Infinity Cache keeps so many bytes from one call to the next."""
    return footprint <= device.table["fabric.infinity_cache_bytes"]


def launch_warm(device: SimDevice, footprint: float, launch: Callable[[], Dispatch]) -> TimedCall:
    """One launch, after a warm-up launch if the Infinity Cache keeps data from one call to the next."""
    if fits_infinity_cache(device, footprint):
        launch()
    return TimedCall([(launch(), 1)])


def launch_in_part(
    device: SimDevice,
    footprint: float,
    steps: int,
    few: int,
    launch: Callable[[int], Dispatch],
    warm: bool = True,
) -> list[tuple[Dispatch, float]]:
    """A launch of `steps` loop iterations, extrapolated linearly from launches of `few` and 2 * `few` iterations.

    `footprint`: bytes of the whole launch. What the Infinity Cache cannot keep from one launch to the next is not there
    for the shorter ones either, although it could keep what they use. `warm`: an equal launch precedes each.
    """
    cold = not fits_infinity_cache(device, footprint)

    def launch_again(steps: int) -> Dispatch:
        if cold:
            device.core.reset()
        elif warm:
            launch(steps)
        return launch(steps)

    if steps <= 3 * few:
        return [(launch_again(steps), 1)]
    missing = steps / few - 2
    return [(launch_again(few), -missing), (launch_again(2 * few), 1 + missing)]


def allocate_arrays(device: SimDevice, *bytes_each: int) -> list[int]:
    """The addresses of new arrays."""
    return [device.core.allocate(size) for size in bytes_each]


def count_groups(items: int, size: int = 256) -> int:
    """Work-groups of `size` that cover all items."""
    return (items + size - 1) // size
