"""Do the matrix products whose L2 hit rates are compared with recordings compute products?"""

from __future__ import annotations

import numpy as np
import pytest

from profiling.sim.device import SimDevice
from profiling.trust import bench

ROWS = {"gemm": 128, "persistent": 256}
COLUMNS, BAND = 256, 8


def tile_of(number: int, columns: int) -> tuple[int, int]:
    """Row and column of a tile that is counted down the columns of bands."""
    band, within = divmod(number, BAND * columns)
    return band * BAND + within % BAND, within // BAND


def launch(device: SimDevice, symbol: str, groups: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    out = np.zeros_like(a)
    at = device.upload(out)
    parts = device.core.allocate(groups * COLUMNS * COLUMNS * 4)
    arguments = (device.upload(a), device.upload(b), at, parts, len(a))
    device.launch(symbol, (groups,), (256,), "QQQQi", *arguments)
    return device.download(at, out).reshape(a.shape)


@pytest.mark.parametrize("name", ["gemm", "persistent"])
def test_the_first_xcd_computes_its_tiles(name: str) -> None:
    size, rows = 2048 if name == "persistent" else 1024, ROWS[name]
    random = np.random.default_rng(7)
    a, b = (random.integers(-2, 3, (size, size)).astype(np.float16) for _ in range(2))
    columns = size // COLUMNS
    tiles = size // rows * columns
    groups = tiles if name == "gemm" else tiles // 2
    with bench.device("mi300x", "xcd") as device:
        found = launch(device, f"{name}_plain", groups, a, b)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    for number in range(0, tiles, 8):
        row, column = tile_of(number, columns)
        part = np.s_[row * rows : (row + 1) * rows, column * COLUMNS : (column + 1) * COLUMNS]
        assert (found[part] == expected[part]).all()
    assert np.count_nonzero(found) < 0.2 * found.size  # the other XCDs leave at once
