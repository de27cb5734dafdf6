"""Do our own copy and streaming kernels show the counters that the hardware showed?"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sim_device import SimDevice

TARGETS = tomllib.loads(Path(__file__).with_name("recorded_targets.toml").read_text())["target"]
NEAR = 0.005  # relative; the recordings themselves scatter by up to 0.0007
L2_HIT_POINTS = 1.5
MIB = 1 << 20


def dispatches(device: SimDevice, kernel: str, count: int) -> list[dict[str, Any]]:
    """Launches as the recorded program did; buffers keep the recorded sizes."""
    if kernel == "copy_f64":
        a, b, c = (device.core.allocate(8 * MIB) for _ in range(3))
        args: tuple[Any, ...] = ("QQQii", a, b, c, MIB, 1)
        return [device.launch(kernel, (4096,), (256,), *args) for _ in range(count)]
    data = device.core.allocate(256 * MIB)
    if kernel == "fill":
        return [device.launch(kernel, (131072,), (256,), "Qd", data, 1.0) for _ in range(count)]
    layout, seed = {"mix_float": ("fxxxxQ", 1.0), "mix_double": ("dQ", 1.0), "mix_int": ("ixxxxQ", 1)}[kernel]
    return [device.launch(kernel, (16384,), (256,), layout, seed, data) for _ in range(count)]


@functools.cache
def counters(name: str, kernel: str, count: int) -> list[dict[str, float]]:
    return [result["counters"] for result in dispatches(SimDevice(name), kernel, count)]


@pytest.mark.parametrize(
    "target",
    [pytest.param(t, id=t["name"], marks=() if t["kernel"] == "copy_f64" else pytest.mark.full) for t in TARGETS],
)
def test_counters_are_the_recorded_ones(target: dict[str, Any]) -> None:
    ours = counters(target["device"], target["kernel"], 2)[target["dispatch"]]
    wrong = {k: (ours[k], v) for k, v in target["exact"].items() if ours[k] != v}
    wrong |= {k: (ours[k], v) for k, v in target["near"].items() if abs(ours[k] - v) > NEAR * v}
    hit = 100 * ours["TCC_HIT"] / (ours["TCC_HIT"] + ours["TCC_MISS"])
    assert not wrong, f"(ours, {target['source']})"
    assert abs(hit - target["l2_hit_percent"]) <= L2_HIT_POINTS


def test_two_devices_give_the_same_counters_and_addresses() -> None:
    results = []
    for _ in range(2):
        device = SimDevice("mi300x")
        data = device.upload(np.arange(4096, dtype=np.float32))
        results.append((data, device.launch("fma_chain", (16,), (256,), "Qi", data, 3)))
        del device
    assert results[0] == results[1]
