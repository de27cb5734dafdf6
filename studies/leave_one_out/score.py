"""How far the left-out kinds are off: per device, per class, and per kind. Every kind weighs the same."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from studies.leave_one_out.evidence import BYTES, HIT, TIME, Figure
from studies.leave_one_out.kinds import load_kinds
from studies.validation.frame import ComparisonRow, rank_correlation

Divided = Mapping[str, Sequence[Figure]]


def class_of(kind: str, figure: Figure) -> str:
    """The class that the counters of a recorded kernel tell, or else its kind's."""
    return figure.class_ or load_kinds()[kind].class_


def size(figure: Figure) -> float:
    """The absolute error in per cent, or in points."""
    return abs(figure.error) if figure.points else 100 * abs(math.expm1(figure.error))


def part(divided: Divided, what: str, places: Collection[str] = (), class_: str = "") -> dict[str, list[Figure]]:
    """The figures of one sort on some devices and of one class (empty: all), by kind; only kinds that have any."""
    parts = {}
    for kind, figures in divided.items():
        chosen = [figure for figure in figures if figure.what == what and (not places or figure.device in places)]
        if class_:
            chosen = [figure for figure in chosen if class_of(kind, figure) == class_]
        if chosen:
            parts[kind] = chosen
    return parts


def error_quantile(divided: Divided, share: float) -> float:
    """The error that `share` of the figures do not exceed, if every kind weighs the same."""
    weighted = sorted((size(figure), 1 / len(figures)) for figures in divided.values() for figure in figures)
    reached, wanted = 0.0, share * len(divided)
    for error, weight in weighted:
        reached += weight
        if reached >= wanted - 1e-9:
            return error
    return weighted[-1][0]


def within(divided: Divided, limit: float) -> float:
    """The share of the figures whose error is at most `limit`, if every kind weighs the same."""
    return statistics.fmean(
        statistics.fmean(size(figure) <= limit for figure in figures) for figures in divided.values()
    )


@dataclass(frozen=True)
class Times:
    """Errors of times in per cent. `mape`, `median`: over the kinds' mean errors; `bias`: mean of the logarithms."""

    kinds: int
    figures: int
    mape: float
    median: float
    bias: float
    spearman: float


def times(divided: Divided) -> Times | None:
    """None if there is no figure."""
    if not divided:
        return None
    means = [statistics.fmean(map(size, figures)) for figures in divided.values()]
    bias = statistics.fmean(statistics.fmean(figure.error for figure in figures) for figures in divided.values())
    everything = [figure for figures in divided.values() for figure in figures]
    return Times(
        len(divided),
        len(everything),
        statistics.fmean(means),
        statistics.median(means),
        100 * bias,
        _spearman(everything),
    )


def _spearman(figures: Iterable[Figure]) -> float:
    rows = [ComparisonRow("time", figure.theirs, figure.ours) for figure in figures]
    return rank_correlation(rows, 0.0).value if len({row.recorded for row in rows}) > 1 else math.nan


@dataclass(frozen=True)
class Score:
    """One device, or one class: times as published and without their kind; hit rates in points; bytes in per cent."""

    published: Times | None
    left_out: Times | None
    hit_median: float | None
    hit_95: float | None
    bytes_mean: float | None


def score_figures(published: Divided, left_out: Divided, places: Collection[str] = (), class_: str = "") -> Score:
    hits = part(left_out, HIT, places, class_)
    moved = part(left_out, BYTES, places, class_)
    return Score(
        times(part(published, TIME, places, class_)),
        times(part(left_out, TIME, places, class_)),
        error_quantile(hits, 0.5) if hits else None,
        error_quantile(hits, 0.95) if hits else None,
        statistics.fmean(statistics.fmean(map(size, figures)) for figures in moved.values()) if moved else None,
    )
