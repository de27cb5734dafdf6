"""Fits constants of a device table: `python -m studies.validation.fit mi210 hbm.read_gbps ...`.

Collects the recorded times with the work of our dispatches, then re-evaluates only the timing model while varying the
constants. Prints the constants with the smallest mean error; it changes no file.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hipsynth.simulator import devices
from hipsynth.simulator.native_core import native_core
from studies.validation.timed import Spec, TimedValue

LEAST_NS = 1e-3
ROUNDS = 12
STEP = 0.01  # of a derivative, relative
FARTHEST = 0.7  # change of a logarithm in one round
KNEE = 0.02  # below this error a point counts with its square, beyond linearly
DAMPING = (1e-3, 1e-1, 1.0, 10.0, 100.0)

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FitRecord:
    """A recorded time and the work of our dispatches, the input of the timing model (`timed.runs`)."""

    timed: TimedValue[Mapping[str, float]]
    recorded_ns: float

    def compute_error(self, table: Spec) -> float:
        """log(simulated / recorded), so that half and twice the recorded value are equally wrong."""
        core, spec = native_core(), self.timed.adjust_spec(table)
        times = [core.estimate(spec, work)["duration_ns"] for work in self.timed.runs]
        return math.log(max(self.timed.compute_time_ns(times, spec), LEAST_NS) / self.recorded_ns)


def descend_coordinates(errors: Callable[[Vector], Vector], start: Vector, weights: Vector) -> Vector:
    """The vector with the smallest weighted mean of absolute errors: Gauss-Newton steps with damping, in which each
    squared error is divided by its size."""

    def compute_loss(residuals: Vector) -> float:
        size = np.abs(residuals)
        return float(weights @ np.where(size < KNEE, size * size / (2 * KNEE), size - KNEE / 2))

    here, now = start, errors(start)
    for _ in range(ROUNDS):
        slopes = np.stack([(errors(here + STEP * unit) - now) / STEP for unit in np.eye(len(here))], axis=1)
        scale = weights / np.maximum(np.abs(now), KNEE)
        square, slope = slopes.T @ (scale[:, None] * slopes), slopes.T @ (scale * now)
        before = compute_loss(now)
        for damping in DAMPING:
            ridge = np.diag(damping * np.diag(square) + 1e-9)
            there = here - np.clip(np.linalg.solve(square + ridge, slope), -FARTHEST, FARTHEST)
            errors_there = errors(there)
            if compute_loss(errors_there) < before:
                here, now = there, errors_there
                break
        if before - compute_loss(now) < 1e-4 * before:
            break
    return here


def compute_mean_error(points: Sequence[FitRecord], spec: Mapping[str, float]) -> float:
    """Mean absolute logarithmic error of the points under the constants `spec`."""
    return statistics.fmean(abs(point.compute_error(spec)) for point in points)


def fit_constants(points: Sequence[FitRecord], spec: dict[str, float], keys: Sequence[str]) -> dict[str, float]:
    """`spec` with the values of `keys` that fit the points best."""

    def replace_constants(logs: Vector) -> dict[str, float]:
        return {**spec, **{key: math.exp(value) for key, value in zip(keys, logs, strict=True)}}

    solution = descend_coordinates(
        lambda logs: np.array([point.compute_error(replace_constants(logs)) for point in points]),
        np.log([spec[key] for key in keys]),
        np.full(len(points), 1 / len(points)),
    )
    return replace_constants(solution)


def main() -> None:
    from studies.leave_one_out.evidence import TIME, collect_figures
    from studies.validation.frame import list_studies  # the studies need the simulator; --help does not

    studies_by_name = {study.name: study for study in list_studies()}
    parser = argparse.ArgumentParser(prog="python -m studies.validation.fit", description=__doc__)
    parser.add_argument("device", choices=devices.list_devices())
    parser.add_argument("keys", nargs="+", metavar="KEY", help='constants to vary, such as "hbm.read_gbps"')
    parser.add_argument(
        "--studies", nargs="+", choices=studies_by_name, default=["occupancy", "latency", "cache_bandwidth"]
    )
    options = parser.parse_args()
    figures = [figure for name in options.studies for figure in collect_figures(studies_by_name[name])]
    device_figures = [figure for figure in figures if figure.what == TIME and figure.device == options.device]
    points = [FitRecord(figure.timed_value, figure.theirs) for figure in device_figures]
    spec = devices.load_device(options.device).spec()
    fitted = fit_constants(points, spec, options.keys)
    before, after = (100 * compute_mean_error(points, constants) for constants in (spec, fitted))
    print(f"mean error {before:.1f} % -> {after:.1f} % over {len(points)} points")
    for key in options.keys:
        print(f"{key}: {spec[key]:.6g} -> {fitted[key]:.6g}")


if __name__ == "__main__":
    main()
