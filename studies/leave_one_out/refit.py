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
from studies.leave_one_out.constants import Fit, find_owner, timing_fits, with_values
from studies.leave_one_out.evidence import TIME, Figure
from studies.leave_one_out.kinds import load_kinds
from studies.validation.fit import FitRecord, Vector, descend_coordinates

PER_KIND = 6  # figures of a kind on a device that a fit uses
PRIOR_WEIGHT = 0.02  # of a constant's distance from its prior, as a share of a kind's weight
Divided = Mapping[str, Sequence[Figure]]


@dataclass(frozen=True)
class LeftOutKind:
    """A kind with its figures as they come out without it, and the constants that were fitted for that: by name, the
    value in the table and the one without the kind."""

    kind: str
    figures: tuple[Figure, ...]
    values: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class LeftOutKinds:
    """The figures of every kind, left out alone; alone, if only the constants marked `fit` are refitted; and together
    with all kinds of its recording."""

    alone: tuple[LeftOutKind, ...]
    marked: tuple[LeftOutKind, ...]
    recordings: tuple[LeftOutKind, ...]


def without(group: Sequence[str], divided: Divided, marked: bool = False) -> list[LeftOutKind]:
    """Leaves kinds out at the same time (`marked`: see timing_fits). Figures without a time, and kinds that no constant
    depends on, stay as they are."""
    needed = {fit.name: fit for kind in group for fit in timing_fits(kind, marked)}
    fitted = list(needed.values())
    others = {name: figures for name, figures in divided.items() if name not in group}
    values = refitted(fitted, others) if fitted else {}
    pairs = {fit.name: (fit.value(), values[fit.name]) for fit in fitted}
    figures_left = []
    for kind in group:
        again = [_timed_again(figure, fitted, values) if figure.what == TIME else figure for figure in divided[kind]]
        figures_left.append(LeftOutKind(kind, tuple(again), pairs))
    return figures_left


def all_left_out(divided: Divided, workers: int) -> LeftOutKinds:
    """Leaves out each kind, and each recording. The result does not depend on the number of workers."""
    recordings: dict[str, list[str]] = {}
    for kind in divided:
        recordings.setdefault(load_kinds()[kind].recording, []).append(kind)
    differ = [kind for kind in divided if timing_fits(kind) != timing_fits(kind, marked=True)]
    with ProcessPoolExecutor(workers) as pool:
        alone = [pool.submit(without, [kind], divided) for kind in divided]
        marked = {kind: pool.submit(without, [kind], divided, True) for kind in differ}
        together = [pool.submit(without, group, divided) for group in recordings.values()]
        results = [task.result()[0] for task in alone]
        mixed = [marked[task.kind].result()[0] if task.kind in marked else task for task in results]
        return LeftOutKinds(tuple(results), tuple(mixed), tuple(kind for task in together for kind in task.result()))


def refitted(fitted: Sequence[Fit], others: Divided) -> dict[str, float]:
    """The values of the constants that fit the times of `others` best, by name."""
    names = devices_with(fitted)
    points: list[tuple[str, FitRecord]] = []
    weights: list[float] = []
    for others_values in others.values():
        chosen = chosen_points([figure for figure in others_values if figure.what == TIME and figure.device in names])
        points += [(figure.device, FitRecord(figure.time, figure.theirs)) for figure in chosen]
        weights += [1 / max(1, len(chosen))] * len(chosen)
    priors = np.array([fit.log(fit.prior) for fit in fitted])

    def errors(logs: Vector) -> Vector:
        values = {fit.name: fit.of_log(log) for fit, log in zip(fitted, logs, strict=True)}
        specs = {device: with_values(device, fitted, values) for device in names}
        return np.array([*(point.error(specs[device]) for device, point in points), *(logs - priors)])

    start = np.array([fit.log(fit.value()) for fit in fitted])
    solution = descend_coordinates(errors, start, np.array([*weights, *[PRIOR_WEIGHT] * len(fitted)]))
    return {fit.name: fit.of_log(log) for fit, log in zip(fitted, solution, strict=True)}


def devices_with(fitted: Sequence[Fit]) -> list[str]:
    """The devices that have any of the constants from the tables that set them."""
    places = [place for fit in fitted for place in fit.places]
    return [name for name in devices.list_devices() if any(find_owner(name, key) == table for table, key in places)]


def chosen_points(figures: Sequence[Figure]) -> list[Figure]:
    """At most PER_KIND figures per device, evenly spread."""
    chosen: list[Figure] = []
    for device in dict.fromkeys(figure.device for figure in figures):
        device_figures = [figure for figure in figures if figure.device == device]
        chosen += [
            device_figures[round(n)]
            for n in np.linspace(0, len(device_figures) - 1, min(PER_KIND, len(device_figures)))
        ]
    return chosen


def _timed_again(figure: Figure, fitted: Sequence[Fit], values: Mapping[str, float]) -> Figure:
    if not fitted:
        return figure
    spec = with_values(figure.device, fitted, values)
    return replace(figure, ours=figure.theirs * math.exp(FitRecord(figure.time, figure.theirs).error(spec)))
