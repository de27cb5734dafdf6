"""How far the left-out kinds are off: per device, per class, and per kind. Every kind weighs the same."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from studies.leave_one_out.evidence import BYTES, HIT, TIME, RecordedFigure
from studies.leave_one_out.kinds import load_kinds
from studies.validation.frame import ComparisonRow, check_rank_correlation

Divided = Mapping[str, Sequence[RecordedFigure]]


def find_class(kind: str, figure: RecordedFigure) -> str:
    """The class that the counters of a recorded kernel tell, or else its kind's."""
    return figure.kernel_class or load_kinds()[kind].class_


def compute_error_size(figure: RecordedFigure) -> float:
    """The absolute error in per cent, or in points."""
    return abs(figure.error) if figure.is_hit_rate else 100 * abs(math.expm1(figure.error))


def select_figures(
    divided: Divided, sort: str, places: Collection[str] = (), class_: str = ""
) -> dict[str, list[RecordedFigure]]:
    """The figures of one sort on some devices and of one class (empty: all), by kind; only kinds that have any."""
    parts = {}
    for kind, figures in divided.items():
        chosen = [figure for figure in figures if figure.what == sort and (not places or figure.device in places)]
        if class_:
            chosen = [figure for figure in chosen if find_class(kind, figure) == class_]
        if chosen:
            parts[kind] = chosen
    return parts


def find_error_quantile(divided: Divided, share: float) -> float:
    """The error that `share` of the figures do not exceed, if every kind weighs the same."""
    weighted = sorted(
        (compute_error_size(figure), 1 / len(figures)) for figures in divided.values() for figure in figures
    )
    reached, wanted = 0.0, share * len(divided)
    for error, weight in weighted:
        reached += weight
        if reached >= wanted - 1e-9:
            return error
    return weighted[-1][0]


@dataclass(frozen=True)
class TimeErrors:
    """Errors of times in per cent. `mape`, `median`: over the kinds' mean errors; `bias`: mean of the logarithms."""

    kinds: int
    figures: int
    mape: float
    median: float
    bias: float
    spearman: float


def compute_time_errors(divided: Divided) -> TimeErrors | None:
    """None if there is no figure."""
    if not divided:
        return None
    means = [statistics.fmean(map(compute_error_size, figures)) for figures in divided.values()]
    bias = statistics.fmean(statistics.fmean(figure.error for figure in figures) for figures in divided.values())
    everything = [figure for figures in divided.values() for figure in figures]
    return TimeErrors(
        len(divided),
        len(everything),
        statistics.fmean(means),
        statistics.median(means),
        100 * bias,
        _correlate_ranks(everything),
    )


def _correlate_ranks(figures: Iterable[RecordedFigure]) -> float:
    rows = [ComparisonRow("time", figure.theirs, figure.ours) for figure in figures]
    return check_rank_correlation(rows, 0.0).value if len({row.recorded for row in rows}) > 1 else math.nan


@dataclass(frozen=True)
class LeaveOneOutScore:
    """One device, or one class: times as published and without their kind; hit rates in points; bytes in per cent."""

    published: TimeErrors | None
    left_out: TimeErrors | None
    hit_median: float | None
    hit_95: float | None
    bytes_mean: float | None


def score_figures(
    published: Divided, left_out: Divided, places: Collection[str] = (), class_: str = ""
) -> LeaveOneOutScore:
    hits = select_figures(left_out, HIT, places, class_)
    moved = select_figures(left_out, BYTES, places, class_)
    return LeaveOneOutScore(
        compute_time_errors(select_figures(published, TIME, places, class_)),
        compute_time_errors(select_figures(left_out, TIME, places, class_)),
        find_error_quantile(hits, 0.5) if hits else None,
        find_error_quantile(hits, 0.95) if hits else None,
        statistics.fmean(statistics.fmean(map(compute_error_size, figures)) for figures in moved.values())
        if moved
        else None,
    )
