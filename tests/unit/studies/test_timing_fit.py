"""Does the fit recover the constants that the data was generated with?"""

from __future__ import annotations

import pytest

from hipsynth.simulator import devices
from hipsynth.simulator.native_core import native_core
from studies.validation.fit import FitRecord, compute_mean_error, fit_constants
from studies.validation.timed import TimedValue

BYTES = (1e9, 2e9)


def stream() -> TimedValue:
    """The difference of the same stream over one and two gigabytes, as a bandwidth."""
    runs = []
    for size in BYTES:
        waves = size / 4096
        work = {"groups": waves / 4, "waves_per_group": 4, "groups_per_cu": 8, "waves": waves, "hbm_read_bytes": size}
        runs.append(work)
    return TimedValue(tuple(runs), BYTES[1] - BYTES[0], inverted=False)


def test_the_fit_recovers_the_constant() -> None:
    table = devices.load_device("mi250").spec()
    truth = {**table, "hbm.read_gbps": 900.0}
    made = stream()
    times = [native_core().estimate(truth, work)["duration_ns"] for work in made.runs]
    assert made.is_difference and made.compute_value(times, table) == pytest.approx(900, rel=0.05)
    points = [FitRecord(made, made.compute_recorded_ns(made.compute_value(times, table)))]
    found = fit_constants(points, table, ["hbm.read_gbps"])
    assert found["hbm.read_gbps"] == pytest.approx(900, rel=0.02)
    assert compute_mean_error(points, found) < compute_mean_error(points, table)
    assert {key: value for key, value in found.items() if key != "hbm.read_gbps"} == {
        key: value for key, value in table.items() if key != "hbm.read_gbps"
    }
