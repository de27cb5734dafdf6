"""Does the fit recover the constants that the data was generated with?"""

from __future__ import annotations

import pytest

from hipsynth.profiling import devices
from hipsynth.profiling.sim.device import native_core
from hipsynth.profiling.validation.fit import Prepared, fit, loss
from hipsynth.profiling.validation.points import Point

BYTES = (1e9, 2e9)


def prepared(bandwidth: float) -> Prepared:
    """Twice the same stream, of one and of two gigabytes, recorded at a bandwidth."""
    runs = []
    for size in BYTES:
        waves = size / 4096
        work = {"groups": waves / 4, "waves_per_group": 4, "groups_per_cu": 8, "waves": waves, "hbm_read_bytes": size}
        runs.append({"duration_ns": 0.0, "work": work})
    point = Point("stream", "", bandwidth, BYTES[1] - BYTES[0], tuple(runs))
    return Prepared(point, point.work())


def test_the_fit_recovers_the_constant() -> None:
    table = devices.load("mi250").spec()
    truth = {**table, "hbm.read_gbps": 900.0}
    made = prepared(1.0)
    times = [native_core().estimate(truth, work)["duration_ns"] for work in made.work]
    points = [prepared(made.point.value(times))]
    found = fit(points, table, ["hbm.read_gbps"])
    assert found["hbm.read_gbps"] == pytest.approx(900, rel=0.02)
    assert loss(points, found) < loss(points, table)
    assert {key: value for key, value in found.items() if key != "hbm.read_gbps"} == {
        key: value for key, value in table.items() if key != "hbm.read_gbps"
    }
