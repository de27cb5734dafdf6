"""Are a program's counters independent of what ran before it?"""

from __future__ import annotations

import numpy as np
from sim_device import KernelTestDevice


def test_two_devices_give_the_same_counters_and_addresses() -> None:
    results = []
    for _ in range(2):
        device = KernelTestDevice("mi300x")
        data = device.upload(np.arange(4096, dtype=np.float32))
        results.append((data, device.launch("fma_chain", (16,), (256,), "Qi", data, 3)))
        del device
    assert results[0] == results[1]
