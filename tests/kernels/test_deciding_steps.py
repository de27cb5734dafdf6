"""Leaving out the instructions that decide no counter changes no counter."""

from __future__ import annotations

import numpy as np
import pytest
from grids import KERNELS, launch

BOTH = pytest.mark.parametrize("name", ["mi250", "mi300x"])


@BOTH
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_counters_without_values_are_those_with_values(name: str, kernel: str) -> None:
    full, bare = (launch(name, kernel, 64, values=values) for values in (True, False))
    assert bare["counters"] == full["counters"]
    assert bare["duration_ns"] == full["duration_ns"]


def test_what_is_left_out_is_not_computed() -> None:
    _, device, at = launch("mi250", "triad", 64, values=False, keep=True)
    assert not device.download(at[0], np.zeros(1024, np.float32)).any()
