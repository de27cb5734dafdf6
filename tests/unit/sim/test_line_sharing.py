"""The file of the lines that work-groups share, which the simulated program could have written to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hipsynth.core.errors import BadInput
from hipsynth.simulator.line_sharing import FILE, TOUCH, read_sharing


def test_symbols_of_any_length_are_read(tmp_path: Path) -> None:
    touches = np.array([(0, 7, 1, 0, 0), (3, 7, 0, 1, 0)], TOUCH)
    symbols = ["k", "_Z" + 5000 * "x"]
    launches = [f"{symbol} all 4 1 1 64 1 1 0 1 2\n".encode() + touches.tobytes() for symbol in symbols]
    (tmp_path / FILE).write_bytes(b"".join(launches))
    found = read_sharing(tmp_path)
    assert [launch.symbol for launch in found] == symbols and found[1].touches.tolist() == touches.tolist()


def test_a_group_that_the_grid_does_not_have_is_damage(tmp_path: Path) -> None:
    touches = np.array([(4, 7, 1, 0, 0)], TOUCH)
    (tmp_path / FILE).write_bytes(b"k all 4 1 1 64 1 1 0 1 1\n" + touches.tobytes())
    with pytest.raises(BadInput, match="is damaged"):
        read_sharing(tmp_path)
