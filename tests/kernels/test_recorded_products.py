"""Do the matrix products whose L2 hit rates are compared with recordings compute products?"""

from __future__ import annotations

import numpy as np
import pytest

from hipsynth.simulator.device import SimDevice
from studies.validation import bench

ROWS = {"gemm": 128, "persistent": 256}
COLUMNS = 256


def launch(device: SimDevice, symbol: str, groups: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.zeros_like(a)
    at = device.upload(out)
    parts = device.core.allocate(groups * COLUMNS * COLUMNS * 4)
    arguments = (device.upload(a), device.upload(b), at, parts, len(a))
    device.launch(symbol, (groups,), (256,), "QQQQi", *arguments)
    return device.download(at, out).reshape(a.shape)


@pytest.mark.parametrize("name", ["gemm", "persistent"])
def test_every_work_group_computes_its_tiles(name: str) -> None:
    size, rows = 2048 if name == "persistent" else 1024, ROWS[name]
    random = np.random.default_rng(7)
    a, b = (random.integers(-2, 3, (size, size)).astype(np.float16) for _ in range(2))
    tiles = size // rows * (size // COLUMNS)
    groups = tiles if name == "gemm" else tiles // 2
    with bench.open_device("mi300x", "xcd") as device:
        found = launch(device, f"{name}_plain", groups, a, b)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    assert (found == expected).all()
