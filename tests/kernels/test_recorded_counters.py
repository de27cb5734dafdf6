"""Do our own copy and streaming kernels show the counters that the hardware showed?"""

from __future__ import annotations

import numpy as np
import pytest
from sim_device import SimDevice

from profiling import trust


@pytest.mark.parametrize(
    "target",
    [pytest.param(t, id=t.name, marks=() if t.kernel == "copy_f64" else pytest.mark.full) for t in trust.targets()],
)
def test_counters_are_the_recorded_ones(target: trust.Target) -> None:
    wrong = [row for row in trust.compare(target) if not row.ok]
    assert not wrong, target.source


def test_two_devices_give_the_same_counters_and_addresses() -> None:
    results = []
    for _ in range(2):
        device = SimDevice("mi300x")
        data = device.upload(np.arange(4096, dtype=np.float32))
        results.append((data, device.launch("fma_chain", (16,), (256,), "Qi", data, 3)))
        del device
    assert results[0] == results[1]
