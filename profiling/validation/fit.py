"""Fits constants of a device table: `python -m hipsynth.profiling.validation.fit mi210 hbm.read_gbps ...`.

Runs the studies that provide points once and records the work of their dispatches; then re-evaluates only the timing
model while varying one constant at a time. Prints the constants with the smallest mean error; it changes no file.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hipsynth.profiling import devices
from hipsynth.profiling.sim.device import native_core
from hipsynth.profiling.validation import bench
from hipsynth.profiling.validation.frame import recorded
from hipsynth.profiling.validation.points import Point
from hipsynth.profiling.validation.studies import cache_bandwidth, latency, occupancy

STUDIES: Mapping[str, Any] = {"occupancy": occupancy, "latency": latency, "cache_bandwidth": cache_bandwidth}
STEPS = (0.2, 0.05, 0.01)


@dataclass(frozen=True)
class Prepared:
    """A point with the work counts of its dispatches, the input of the timing model."""

    point: Point
    work: Sequence[Mapping[str, float]]

    def error(self, spec: Mapping[str, float]) -> float:
        """log(simulated / recorded), so that half and twice the recorded value are equally wrong."""
        times = [native_core().estimate(spec, work)["duration_ns"] for work in self.work]
        return math.log(max(self.point.value(times), 1e-9) / self.point.recorded)


def measured(device: str, study: str) -> list[Prepared]:
    """Simulates a study on a device and returns all its points."""
    found: list[Prepared] = []
    constants = getattr(STUDIES[study], "CONSTANTS", {})
    for recording in recorded(study)["device"]:
        if recording["name"] == device:
            with bench.device(device, "benches", constants=constants) as simulated:
                found += [Prepared(point, point.work()) for point in STUDIES[study].measure(simulated, recording)]
    return found


def loss(points: Sequence[Prepared], spec: Mapping[str, float]) -> float:
    """Mean absolute logarithmic error of the points under the constants `spec`."""
    return statistics.fmean(abs(point.error(spec)) for point in points)


def fit(points: Sequence[Prepared], spec: dict[str, float], keys: Sequence[str]) -> dict[str, float]:
    """Coordinate descent over `keys` with the relative step sizes STEPS; returns `spec` with the fitted values."""
    best = loss(points, spec)
    for step in STEPS:
        improved = True
        while improved:
            improved = False
            for key in keys:
                for factor in (1 + step, 1 / (1 + step)):
                    trial = {**spec, key: spec[key] * factor}
                    if (found := loss(points, trial)) < best - 1e-6:
                        spec, best, improved = trial, found, True
    return spec


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m hipsynth.profiling.validation.fit", description=__doc__)
    parser.add_argument("device", choices=devices.names())
    parser.add_argument("keys", nargs="+", metavar="KEY", help='constants to vary, such as "hbm.read_gbps"')
    parser.add_argument("--studies", nargs="+", choices=STUDIES, default=list(STUDIES))
    options = parser.parse_args()
    points = [point for study in options.studies for point in measured(options.device, study)]
    spec = devices.load(options.device).spec()
    found = fit(points, spec, options.keys)
    print(f"mean error {100 * loss(points, spec):.1f} % -> {100 * loss(points, found):.1f} % over {len(points)} points")
    for key in options.keys:
        print(f"{key}: {spec[key]:.6g} -> {found[key]:.6g}")


if __name__ == "__main__":
    main()
