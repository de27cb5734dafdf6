"""Refits the timing constants without some kinds, and times the kinds' figures with what comes out.

The work of every dispatch stays as it was counted; only the timing model is evaluated again. Every kind weighs the
same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from hipsynth.simulator import devices
from studies.leave_one_out.constants import FittedConstant, find_owner, list_timing_fits, replace_values
from studies.leave_one_out.evidence import TIME, RecordedFigure
from studies.leave_one_out.kinds import load_kinds
from studies.validation.fit import FitRecord, Vector, descend_coordinates

PER_KIND = 6  # figures of a kind on a device that a fit uses
PRIOR_WEIGHT = 0.02  # of a constant's distance from its prior, as a share of a kind's weight
Divided = Mapping[str, Sequence[RecordedFigure]]


@dataclass(frozen=True)
class LeftOutKind:
    """A kind with its figures as they come out without it, and the constants that were fitted for that: by name, the
    value in the table and the one without the kind."""

    kind: str
    figures: tuple[RecordedFigure, ...]
    values: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class LeftOutKinds:
    """The figures of every kind, left out alone; alone, if only the constants marked `fit` are refitted; and together
    with all kinds of its recording."""

    alone: tuple[LeftOutKind, ...]
    marked: tuple[LeftOutKind, ...]
    recordings: tuple[LeftOutKind, ...]


def leave_out_kinds(group: Sequence[str], divided: Divided, marked: bool = False) -> list[LeftOutKind]:
    """Leaves kinds out at the same time (`marked`: see list_timing_fits). Figures without a time, and kinds that no
    constant depends on, stay as they are."""
    needed = {fit.name: fit for kind in group for fit in list_timing_fits(kind, marked)}
    fitted = list(needed.values())
    others = {name: figures for name, figures in divided.items() if name not in group}
    values = refit_constants(fitted, others) if fitted else {}
    pairs = {fit.name: (fit.read_value(), values[fit.name]) for fit in fitted}
    figures_left = []
    for kind in group:
        again = [_time_again(figure, fitted, values) if figure.what == TIME else figure for figure in divided[kind]]
        figures_left.append(LeftOutKind(kind, tuple(again), pairs))
    return figures_left


def leave_out_each_kind(divided: Divided, workers: int) -> LeftOutKinds:
    """Leaves out each kind, and each recording. The result does not depend on the number of workers."""
    recordings: dict[str, list[str]] = {}
    for kind in divided:
        recordings.setdefault(load_kinds()[kind].recording, []).append(kind)
    differ = [kind for kind in divided if list_timing_fits(kind) != list_timing_fits(kind, marked=True)]
    with ProcessPoolExecutor(workers) as pool:
        alone = [pool.submit(leave_out_kinds, [kind], divided) for kind in divided]
        marked = {kind: pool.submit(leave_out_kinds, [kind], divided, True) for kind in differ}
        together = [pool.submit(leave_out_kinds, group, divided) for group in recordings.values()]
        results = [task.result()[0] for task in alone]
        mixed = [marked[task.kind].result()[0] if task.kind in marked else task for task in results]
        return LeftOutKinds(tuple(results), tuple(mixed), tuple(kind for task in together for kind in task.result()))


def refit_constants(fitted: Sequence[FittedConstant], others: Divided) -> dict[str, float]:
    """The values of the constants that fit the times of `others` best, by name."""
    names = find_devices(fitted)
    points: list[tuple[str, FitRecord]] = []
    weights: list[float] = []
    for others_values in others.values():
        chosen = choose_figures([figure for figure in others_values if figure.what == TIME and figure.device in names])
        points += [(figure.device, FitRecord(figure.timed_value, figure.theirs)) for figure in chosen]
        weights += [1 / max(1, len(chosen))] * len(chosen)
    priors = np.array([fit.compute_log(fit.prior) for fit in fitted])

    def compute_errors(logs: Vector) -> Vector:
        values = {fit.name: fit.invert_log(log) for fit, log in zip(fitted, logs, strict=True)}
        specs = {device: replace_values(device, fitted, values) for device in names}
        return np.array([*(point.compute_error(specs[device]) for device, point in points), *(logs - priors)])

    start = np.array([fit.compute_log(fit.read_value()) for fit in fitted])
    solution = descend_coordinates(compute_errors, start, np.array([*weights, *[PRIOR_WEIGHT] * len(fitted)]))
    return {fit.name: fit.invert_log(log) for fit, log in zip(fitted, solution, strict=True)}


def find_devices(fitted: Sequence[FittedConstant]) -> list[str]:
    """The devices that have any of the constants from the tables that set them."""
    places = [place for fit in fitted for place in fit.places]
    return [name for name in devices.list_devices() if any(find_owner(name, key) == table for table, key in places)]


def choose_figures(figures: Sequence[RecordedFigure]) -> list[RecordedFigure]:
    """At most PER_KIND figures per device, evenly spread."""
    chosen: list[RecordedFigure] = []
    for device in dict.fromkeys(figure.device for figure in figures):
        device_figures = [figure for figure in figures if figure.device == device]
        chosen += [
            device_figures[round(n)]
            for n in np.linspace(0, len(device_figures) - 1, min(PER_KIND, len(device_figures)))
        ]
    return chosen


def _time_again(
    figure: RecordedFigure, fitted: Sequence[FittedConstant], values: Mapping[str, float]
) -> RecordedFigure:
    if not fitted:
        return figure
    spec = replace_values(figure.device, fitted, values)
    return replace(
        figure, ours=figure.theirs * math.exp(FitRecord(figure.timed_value, figure.theirs).compute_error(spec))
    )
