"""How far the simulated counters can be trusted: our own kernels beside recordings of real GPUs."""

from __future__ import annotations

import functools
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiling.sim.device import SimDevice

FOLDER = Path(__file__).parent
MIB = 1 << 20
# The recordings scatter by up to 0.07 %; counters that depend on timing must agree within this share.
NEAR = 0.005
L2_HIT_POINTS = 1.5


@dataclass(frozen=True)
class Target:
    """One recorded dispatch: counters that are the same in every recording, and counters that vary a little."""

    name: str
    device: str
    kernel: str
    dispatch: int
    source: str
    duration_ns: float
    l2_hit_percent: float
    exact: Mapping[str, float]
    near: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """One compared quantity; `allowed` is the tolerance in the unit of `error` (per cent, or points for hit rates)."""

    quantity: str
    recorded: float
    ours: float
    error: float
    allowed: float | None

    @property
    def ok(self) -> bool:
        return self.allowed is None or abs(self.error) <= self.allowed


def targets() -> list[Target]:
    return [Target(**row) for row in tomllib.loads((FOLDER / "recorded.toml").read_text())["target"]]


def _launches(device: SimDevice, kernel: str, count: int) -> list[dict[str, Any]]:
    """The kernel launched as the recorded program did; buffers keep the recorded sizes."""
    if kernel == "copy_f64":
        a, b, c = (device.core.allocate(8 * MIB) for _ in range(3))
        return [device.launch(kernel, (4096,), (256,), "QQQii", a, b, c, MIB, 1) for _ in range(count)]
    data = device.core.allocate(256 * MIB)
    if kernel == "fill":
        return [device.launch(kernel, (131072,), (256,), "Qd", data, 1.0) for _ in range(count)]
    layout, seed = {"mix_float": ("fxxxxQ", 1.0), "mix_double": ("dQ", 1.0), "mix_int": ("ixxxxQ", 1)}[kernel]
    return [device.launch(kernel, (16384,), (256,), layout, seed, data) for _ in range(count)]


@functools.cache
def dispatches(device: str, kernel: str, count: int = 2) -> list[dict[str, Any]]:
    """`count` dispatches of one streaming kernel on a fresh simulated device."""
    with tempfile.TemporaryDirectory(prefix="hipsynth-trust-") as scratch:
        return _launches(SimDevice(device, FOLDER / "streams.hip", Path(scratch)), kernel, count)


def _relative(recorded: float, ours: float) -> float:
    """Error in per cent of the recorded value; any difference from a recorded zero is infinite."""
    if recorded == 0:
        return 0.0 if ours == 0 else float("inf")
    return 100 * (ours - recorded) / recorded


def compare(target: Target) -> Iterator[Row]:
    """Every recorded quantity of a target beside ours. The duration carries no tolerance: it is shown, not asserted."""
    result = dispatches(target.device, target.kernel)[target.dispatch]
    ours = result["counters"]
    for table, allowed in ((target.exact, 0.0), (target.near, 100 * NEAR)):
        for name, recorded in table.items():
            yield Row(name, recorded, ours[name], _relative(recorded, ours[name]), allowed)
    hit = 100 * ours["TCC_HIT"] / (ours["TCC_HIT"] + ours["TCC_MISS"])
    yield Row("L2 hit rate, %", target.l2_hit_percent, hit, hit - target.l2_hit_percent, L2_HIT_POINTS)
    duration = result["duration_ns"]
    yield Row("duration, ns", target.duration_ns, duration, _relative(target.duration_ns, duration), None)
