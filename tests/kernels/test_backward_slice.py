"""Executing only the backward slice of addresses and branches (values=False) does not change any counter."""

from __future__ import annotations

import numpy as np
import pytest
from grids import KERNELS, launch

BOTH = pytest.mark.parametrize("name", ["mi250", "mi300x"])


@pytest.mark.one_in(2)
@BOTH
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_slicing_does_not_change_counters(name: str, kernel: str) -> None:
    full, bare = (launch(name, kernel, 64, values=values) for values in (True, False))
    assert bare["counters"] == full["counters"]
    assert bare["duration_ns"] == full["duration_ns"]


def test_instructions_outside_the_slice_are_not_executed() -> None:
    _, device, at = launch("mi250", "triad", 64, values=False, keep=True)
    assert not device.download(at[0], np.zeros(1024, np.float32)).any()
