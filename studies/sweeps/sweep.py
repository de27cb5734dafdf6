"""Data types of a sweep: it launches one kernel at many points and asserts properties of the curve.

A sweep is a module in cases/ with TITLE, DEMANDS (what the curve must do, and why, with the source), KERNEL (symbols in
kernels/sweeps.hip), X (what the points differ in), Y (the quantities of a point), QUICK (true: part of the fast test
suite), `measure_points(device) -> Iterator[SweepPoint]` and the pure function `find_failures(points, table) ->
list[str]`, each of whose texts begins with its point. KNOWN lists faults of the model that are not yet corrected.
"""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.native_core import Dispatch
from studies.validation import bench

DEVICES = ("mi250", "mi300x")
TIME = "time, us"
HITS = "vL1D hit rate, %"


@dataclass(frozen=True)
class SweepPoint:
    """One launch, or the difference of two: the value of each quantity at `x` of the curve `series`."""

    series: str
    x: float
    values: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.series} at {self.x:g}"


@dataclass(frozen=True)
class KnownFault:
    """A fault of the model: failures of `device` whose text begins with one of `points` are expected, and why."""

    device: str
    points: tuple[str, ...]
    why: str

    def explains_failure(self, device: str, failure: str) -> bool:
        return device == self.device and failure.startswith(self.points)


Failures = Callable[[Sequence[SweepPoint], DeviceTable], list[str]]


@dataclass(frozen=True)
class Sweep:
    """One module of cases/."""

    name: str
    title: str
    demands: str
    kernel: str
    x: str
    y: tuple[str, ...]
    quick: bool
    measure_points: Callable[[SimDevice], Iterator[SweepPoint]]
    find_failures: Failures
    known_faults: tuple[KnownFault, ...] = ()


@dataclass(frozen=True)
class SweepResult:
    """The points of a sweep on one device, and the properties that fail, known or not."""

    device: str
    points: tuple[SweepPoint, ...]
    failures: tuple[str, ...]
    known_failures: tuple[tuple[KnownFault, str], ...] = ()


class SweepModule(Protocol):
    """What a module in cases/ defines; KNOWN only where failures are known."""

    TITLE: str
    DEMANDS: str
    KERNEL: str
    X: str
    Y: tuple[str, ...]
    QUICK: bool

    def measure_points(self, device: SimDevice) -> Iterator[SweepPoint]:
        """Runs the sweep's launches; yields its points."""

    def find_failures(self, points: Sequence[SweepPoint], table: DeviceTable) -> list[str]:
        """Descriptions of the properties that the points do not have."""


def list_sweeps() -> list[Sweep]:
    """All sweeps of cases/, sorted by name."""
    package = importlib.import_module("studies.sweeps.cases")
    return [_load_sweep(module.name) for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name)]


def _load_sweep(name: str) -> Sweep:
    module = cast(SweepModule, importlib.import_module(f"studies.sweeps.cases.{name}"))
    return Sweep(
        name,
        module.TITLE,
        module.DEMANDS,
        module.KERNEL,
        module.X,
        module.Y,
        module.QUICK,
        module.measure_points,
        module.find_failures,
        getattr(module, "KNOWN", ()),
    )


def run_sweep(sweep: Sweep, name: str) -> SweepResult:
    """The sweep on the device `name`, without computing values that decide nothing."""
    with bench.open_device(name, "sweeps", values=False, memory_bytes=8 << 30) as device:
        points = tuple(sweep.measure_points(device))
        return judge_sweep(sweep, name, points, sweep.find_failures(points, device.table))


def judge_sweep(sweep: Sweep, device: str, points: tuple[SweepPoint, ...], wrong: Sequence[str]) -> SweepResult:
    """Separates known failures from others; a known one that no longer fails is a failure, too."""
    explained = [
        (fault, text) for text in wrong for fault in sweep.known_faults if fault.explains_failure(device, text)
    ]
    others = [text for text in wrong if all(text != expected for _, expected in explained)]
    for fault in sweep.known_faults:
        if fault.device == device and all(known_fault is not fault for known_fault, _ in explained):
            others.append(f"no longer fails, remove it from KNOWN: {', '.join(fault.points)}")
    return SweepResult(device, points, tuple(others), tuple(explained))


def group_series(points: Iterable[SweepPoint]) -> dict[str, list[SweepPoint]]:
    """The points of each curve, by x."""
    series_points: dict[str, list[SweepPoint]] = {}
    for point in sorted(points, key=lambda p: p.x):
        series_points.setdefault(point.series, []).append(point)
    return series_points


def find_falls(points: Sequence[SweepPoint], quantity: str, slack: float) -> Iterator[str]:
    """Describes each step to the next point at which the quantity falls by more than the fraction `slack`."""
    for before, after in itertools.pairwise(points):
        first, second = before.values[quantity], after.values[quantity]
        if second < first * (1 - slack):
            yield f"{after}: {quantity} falls from {first:.4g} (at {before.x:g}) to {second:.4g}"


def check_within(point: SweepPoint, quantity: str, low: float, high: float) -> Iterator[str]:
    """Describes a value that is outside low .. high."""
    value = point.values[quantity]
    if not low <= value <= high:
        yield f"{point}: {quantity} is {value:.4g}, not within {low:.4g} to {high:.4g}"


def launch_cold(device: SimDevice, kernel: str, groups: int, items: int, layout: str, *arguments: int) -> Dispatch:
    """A launch along one axis with empty caches."""
    device.core.reset()
    return device.launch(kernel, (groups,), (items,), layout, *arguments)


def read_time_us(run: Dispatch) -> float:
    return float(run["duration_ns"]) / 1000


def compute_hit_rate(runs: Sequence[Dispatch], lines: float) -> float:
    """vL1D hits in % of `lines` lines that loads ask for, of one dispatch or of the second less the first."""
    requests = [float(run["counters"]["TCP_TCC_READ_REQ"]) for run in runs]
    return 100 * (1 - (requests[-1] - (requests[0] if len(runs) > 1 else 0)) / lines)


def count_cycles(device: SimDevice, first: Dispatch, last: Dispatch) -> float:
    """Core cycles between the durations of two dispatches."""
    return float(last["duration_ns"] - first["duration_ns"]) * device.table["clock.core_mhz"] / 1000
