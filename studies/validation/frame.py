"""Data types of a validation study: a ComparisonRow compares one recorded figure with ours, a
ComparisonTable has rows, a Study tables.

A study is a module in comparisons/ with TITLE, SHOWS (introduction of its page), QUICK (true: part of the fast test
suite) and `build_tables() -> Iterator[ComparisonTable]`, which runs our kernels and yields each table once it is
complete.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import statistics
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from hipsynth.core.tables import parse_table, read_table
from hipsynth.profiling import metrics
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator.native_core import Dispatch
from studies.validation.timed import TimedValue

FOLDER = Path(__file__).parent
KERNELS = FOLDER / "kernels"
DURATION = metrics.DURATION
T = TypeVar("T")


@dataclass(frozen=True)
class ComparisonRow:
    """One recorded figure and the simulated one.

    `quantity`: what is compared; a metric id, a counter, "duration_ns", or a description with unit ("L2 latency,
    cycles"). The summary groups errors by it. `label`: the point of a series ("N = 64"). `allowed`: tolerance in the
    unit of `error`; 0 requires equality, None means that the row is shown but not asserted. `timed`: where our value
    of a time or rate comes from.
    """

    quantity: str
    recorded: float
    ours: float
    allowed: float | None = None
    points: bool = False  # the values are percentages and the error is their difference
    label: str = ""
    timed: TimedValue[Dispatch] | None = field(default=None, compare=False, repr=False)

    @property
    def error(self) -> float:
        """Signed error in per cent of the recorded value, or in points; infinite if only the recorded value is 0."""
        difference = self.ours - self.recorded
        if self.points or difference == 0:
            return difference
        return 100 * difference / self.recorded if self.recorded else math.inf

    @property
    def unit(self) -> str:
        return "points" if self.points else "%"

    @property
    def is_met(self) -> bool:
        return self.allowed is None or abs(self.error) <= self.allowed

    def __str__(self) -> str:
        name = f"{self.label} {self.quantity}".strip()
        return f"{name}: recorded {self.recorded:g}, ours {self.ours:g} ({self.error:+.2f} {self.unit})"


@dataclass(frozen=True)
class TableCheck:
    """An assertion about a whole table, such as its median error: `value` must not exceed `limit`."""

    name: str
    value: float
    limit: float
    unit: str = "%"
    at_least: bool = False  # `limit` is a lower bound

    @property
    def is_met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        bound = "at least" if self.at_least else "at most"
        return f"{self.name}: {self.value:.3g}{unit} ({bound} {self.limit:g}{unit})"


@dataclass(frozen=True)
class ComparisonTable:
    """Rows of one recording. `device`: name of a device table of simulator/devices; `kernels`: short description."""

    title: str
    device: str
    source: str  # public repository and file of the recorded figures
    rows: tuple[ComparisonRow, ...]
    kernels: str
    features: frozenset[str] = frozenset()  # used by the kernels, see expected_error.FEATURES
    checks: tuple[TableCheck, ...] = ()
    note: str = ""
    counted: frozenset[str] = frozenset()  # features of kernels compared by counters only

    def find_failures(self) -> list[str]:
        """A description of each row and check that exceeds its tolerance."""
        wrong = [str(row) for row in self.rows if not row.is_met] + [
            str(check) for check in self.checks if not check.is_met
        ]
        return [f"{self.title}: {text}" for text in wrong]


@dataclass(frozen=True)
class Study:
    """One module of comparisons/."""

    name: str
    title: str
    shows: str
    quick: bool
    build_tables: Callable[[], Iterator[ComparisonTable]]


class StudyModule(Protocol):
    """What a module in comparisons/ defines."""

    TITLE: str
    SHOWS: str
    QUICK: bool

    def build_tables(self) -> Iterator[ComparisonTable]:
        """Runs our kernels; yields each table as soon as it is complete."""


def list_studies() -> list[Study]:
    """All studies of comparisons/, sorted by name."""
    package = importlib.import_module("studies.validation.comparisons")
    return [_load_study(module.name) for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda m: m.name)]


def _load_study(name: str) -> Study:
    module = cast(StudyModule, importlib.import_module(f"studies.validation.comparisons.{name}"))
    return Study(name, module.TITLE, module.SHOWS, module.QUICK, module.build_tables)


def read_recording(name: str, kind: type[T]) -> T:
    """The recorded figures of a study, recorded/<name>.toml. Raises BadInput if they are not of the shape `kind`."""
    return read_table(FOLDER / "recorded" / f"{name}.toml", kind)


def read_recorded_rows(name: str, key: str, kind: type[T]) -> tuple[T, ...]:
    """The same for a file that holds nothing but an array of tables called `key`."""
    file = f"{name}.toml"
    document = tomllib.loads((FOLDER / "recorded" / file).read_text())
    return tuple(parse_table(kind, row, f"{file}, {key}") for row in document[key])


def compare_counters(
    figures: Mapping[str, float], ours: Mapping[str, float], allowed: float | None
) -> Iterator[ComparisonRow]:
    """One row per recorded counter, all with the same tolerance in per cent."""
    for name, value in figures.items():
        yield ComparisonRow(name, value, ours[name], allowed)


def compare_metrics(
    figures: Mapping[str, float], recorded_ns: float, ours: Mapping[str, float], our_ns: float, arch: str
) -> Iterator[ComparisonRow]:
    """One row, shown but not asserted, per metric that can be computed from both the recorded and our counters.

    Metrics that are zero on both sides are left out, except hit rates.
    """
    theirs = metrics.compute_metrics(figures, recorded_ns, arch)
    mine = metrics.compute_metrics({name: ours[name] for name in figures if name in ours}, our_ns, arch)
    for metric, row in metrics.metric_table().metrics.items():
        expected, got = theirs[metric], mine[metric]
        points = row.kind == "hit_rate"
        if metric == "Duration" or row.own:
            continue
        if expected is not None and got is not None and (expected or got or points):
            yield ComparisonRow(metric, expected, got, points=points)


def collect_features(*dispatches: Dispatch) -> frozenset[str]:
    """The features (titles of expected_error.FEATURES) that these dispatches use."""
    feature_sets = (expected_error.used_features(dispatch["counters"]) for dispatch in dispatches)
    return frozenset().union(*feature_sets)


def _list_error_sizes(rows: Iterable[ComparisonRow]) -> list[float]:
    return [abs(row.error) for row in rows]


def check_median_error(rows: Iterable[ComparisonRow], limit: float, name: str = "median error") -> TableCheck:
    return TableCheck(name, statistics.median(_list_error_sizes(rows)), limit)


def check_mean_error(rows: Iterable[ComparisonRow], limit: float, name: str = "mean error") -> TableCheck:
    return TableCheck(name, statistics.fmean(_list_error_sizes(rows)), limit)


def check_worst_error(rows: Iterable[ComparisonRow], limit: float, name: str = "worst error") -> TableCheck:
    return TableCheck(name, max(_list_error_sizes(rows)), limit)


def check_rank_correlation(
    rows: Iterable[ComparisonRow], limit: float, name: str = "Spearman rank correlation"
) -> TableCheck:
    """Check of Spearman's coefficient between recorded and simulated values; ties share their mean rank."""
    pairs = [(row.recorded, row.ours) for row in rows]
    ranks = [_rank_values([pair[side] for pair in pairs]) for side in (0, 1)]
    return TableCheck(name, statistics.correlation(*ranks), limit, unit="", at_least=True)


def _rank_values(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]
