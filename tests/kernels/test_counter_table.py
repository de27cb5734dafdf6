"""Does a dispatch report exactly the counters of the metric table that its architecture has?"""

from __future__ import annotations

import numpy as np
import pytest
from sim_device import KernelTestDevice

from hipsynth.profiling import metrics

# Reported once a dispatch has such instructions.
ON_DEMAND = {f"SQ_INSTS_VALU_MFMA_{kind}{element}" for kind in ("", "MOPS_") for element in ("XF32", "F8")}


@pytest.mark.parametrize("name", ["mi250", "mi300x"])
def test_every_counter_of_the_table_is_set_and_no_other(name: str) -> None:
    device = KernelTestDevice(name)
    at = device.upload(np.ones(1024, np.float32))
    counters = device.launch("some_lanes_fma", (2,), (128,), "Qii", at, 64, 3)["counters"]
    facts = metrics.metric_table()
    of_arch = {key for key, row in {**facts.counters, **facts.others}.items() if device.table.arch in row.archs}
    assert set(counters) == of_arch - ON_DEMAND
