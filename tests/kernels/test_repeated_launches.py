"""Launches that must have the counters of an earlier one are not counted again, and compute the same results."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import hip_programs
import needs
import numpy as np
import pytest

from hipsynth.simulator.api import RunResult, run_program
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import find_toolchain

SOURCE = Path(__file__).with_name("repeated.hip")
DEVICES = ("mi250", "mi300x")
ITEMS = 65536
TIMES = 5


class Repeater:
    """A device with the kernels' buffers; `reuse=False` counts every launch."""

    def __init__(self, name: str, scratch: Path, **options: Any) -> None:
        needs.compiler()
        assert find_toolchain()
        gc.collect()  # a device that is still alive would make this one's memory lie elsewhere
        self.device = SimDevice(name, SOURCE, scratch, **options)
        rng = np.random.default_rng(7)
        self.a = self.device.upload(rng.integers(0, 100, ITEMS).astype(np.float32))
        self.b = self.device.upload(np.zeros(ITEMS * 4, np.float32))
        self.index = self.device.upload(rng.integers(0, ITEMS, ITEMS, np.int32))
        self.bins = self.device.upload(np.zeros(1024, np.int32))
        reached = np.zeros(ITEMS + 4096, np.int32)
        reached[0] = 1
        self.reached = self.device.upload(reached)
        self.found: list[dict[str, Any]] = []

    def launch(self, kernel: str, layout: str, *args: Any, groups: int = ITEMS // 256) -> None:
        self.found.append(self.device.launch(kernel, (groups,), (256,), layout, *args))

    def memory(self) -> bytes:
        buffers = ((self.a, ITEMS), (self.b, ITEMS * 4), (self.index, ITEMS), (self.bins, 1024), (self.reached, ITEMS))
        return b"".join(self.device.download(at, np.zeros(n, np.int32)).tobytes() for at, n in buffers)

    def reused(self) -> list[int]:
        return [one["sampling"].pop("reused") for one in self.found]


def repeat_kernel(kernel: str, r: Repeater) -> None:
    arguments: dict[str, tuple[Any, ...]] = {
        "twice": ("QQ", r.a, r.b),
        "bump": ("Q", r.a),
        "gather": ("QQQ", r.index, r.a, r.b),
        "histogram": ("QQ", r.index, r.bins),
        "add_floats": ("QQ", r.a, r.bins),
        "chase": ("QQi", r.index, r.b, 3),
        "spread": ("Q", r.reached),
        "turns": ("QQ", r.index, r.b),
        "timed": ("Q", r.b),
        "up_to_limit": ("Q", r.b),
    }
    for _ in range(TIMES):
        r.launch(kernel, *arguments[kernel])


def ping_pong(r: Repeater) -> None:
    for _ in range(TIMES):
        r.launch("twice", "QQ", r.a, r.b)
        r.launch("twice", "QQ", r.b, r.a)


def host_writes_between(r: Repeater) -> None:
    """The first change affects only results, the second one addresses, too; then nothing changes."""
    for step in range(2 * TIMES):
        if step == 3:
            r.device.core.write(r.a, np.full(ITEMS, 7, np.float32).view(np.uint8))
        if step == 5:
            r.device.core.write(r.index, np.zeros(ITEMS, np.int32).view(np.uint8))
        r.launch("gather", "QQQ", r.index, r.a, r.b)


def results_overwritten(r: Repeater) -> None:
    for _ in range(TIMES):
        r.launch("twice", "QQ", r.a, r.b)
        r.device.core.write(r.b, np.full(ITEMS, 9, np.float32).view(np.uint8))
    r.launch("twice", "QQ", r.a, r.b)


def other_kernels_between(r: Repeater) -> None:
    for step in range(3 * TIMES):
        r.launch("chase", "QQi", r.index, r.b, 2)
        if step % 4 == 3:
            r.launch("bump", "Q", r.a)


def other_arguments(r: Repeater) -> None:
    for step in range(2 * TIMES):
        r.launch("chase", "QQi", r.index, r.b, 1 + step // TIMES)


def allocations_between(r: Repeater) -> None:
    for _ in range(TIMES):
        r.launch("twice", "QQ", r.a, r.b)
        r.device.core.allocate(4096)


def global_changed(r: Repeater) -> None:
    at, _ = r.device.core.symbol(r.device.module, "limit")
    for step in range(2 * TIMES):
        r.device.core.write(at, np.array([1 + step // TIMES], np.int32).view(np.uint8))
        r.launch("up_to_limit", "Q", r.b)


def beyond_infinity_cache(r: Repeater) -> None:
    """640 MiB pass through caches of 256 MiB, so the lines that a launch leaves are not those that it needs first."""
    big = r.device.core.allocate(640 << 20)
    for _ in range(4):
        r.launch("twice", "QQ", big, big + (320 << 20), groups=(320 << 20) // 1024)


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    ("kernel", "fewest"),
    [("twice", 3), ("bump", 3), ("gather", 3), ("histogram", 3), ("chase", 3), ("turns", 3), ("up_to_limit", 3),
     ("spread", 0), ("timed", 0)],
)  # fmt: skip
def test_repeated_launches_equal_counted_ones(name: str, kernel: str, fewest: int, tmp_path: Path) -> None:
    """`fewest`: launches whose counters are reused; 0 if none may be."""
    results = []
    for reuse in (False, True):
        r = Repeater(name, tmp_path, reuse=reuse)
        repeat_kernel(kernel, r)
        reused = sum(r.reused())
        results.append((r.found, r.memory()))
        del r
    assert reused >= fewest if fewest else reused == 0
    assert results[0] == results[1]


SEQUENCES = {
    ping_pong: 2, host_writes_between: 4, results_overwritten: 3, other_kernels_between: 4, other_arguments: 4,
    allocations_between: 0, global_changed: 4, beyond_infinity_cache: 0,
}  # fmt: skip


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize(
    "sequence",
    [
        pytest.param(sequence, marks=[pytest.mark.full] if sequence is beyond_infinity_cache else [])
        for sequence in SEQUENCES
    ],
    ids=lambda s: s.__name__,
)
def test_sequences_equal_counted_ones(sequence: Any, name: str, values: bool, tmp_path: Path) -> None:
    results = []
    for reuse in (False, True):
        r = Repeater(name, tmp_path, reuse=reuse, values=values)
        sequence(r)
        reused = sum(r.reused())
        results.append((r.found, r.memory() if values else b""))
        del r
    assert results[0] == results[1]
    # Small ping-pong launches on the MI300X are not worth comparing the Infinity Cache's lines.
    assert reused >= (0 if (name, sequence) == ("mi300x", ping_pong) else SEQUENCES[sequence])


@pytest.mark.parametrize("name", DEVICES)
def test_large_grids_are_reused(name: str, tmp_path: Path) -> None:
    """Also if they are sampled, when nothing at all runs."""
    results = []
    for reuse in (False, True):
        r = Repeater(name, tmp_path, reuse=reuse, sampling_units=12, sample_above=200_000)
        for _ in range(TIMES):
            r.launch("turns", "QQ", r.index, r.b)
            r.launch("twice", "QQ", r.a, r.b)
        results.append((r.reused(), r.found))
        del r
    assert results[0][1] == results[1][1]


@pytest.mark.parametrize("name", DEVICES)
def test_alternating_large_launches_are_reused(name: str, tmp_path: Path) -> None:
    """On the MI300X as soon as the lines of the Infinity Cache return to the same order."""
    results = []
    for reuse in (False, True):
        r = Repeater(name, tmp_path, reuse=reuse, values=False)
        x, y = (r.device.core.allocate(16 << 20) for _ in range(2))
        for _ in range(TIMES):
            r.launch("twice", "QQ", x, y, groups=16384)
            r.launch("twice", "QQ", y, x, groups=16384)
        r.launch("bump", "Q", r.a)  # counted, with the caches as the reused launches would have left them
        r.launch("twice", "QQ", x, r.b, groups=1024)
        results.append((sum(r.reused()), r.found))
        del r
    assert results[0][1] == results[1][1]
    assert results[1][0] >= 4


@pytest.mark.parametrize("name", DEVICES)
def test_per_kernel_counts_the_first_launches_of_each_shape(name: str, tmp_path: Path) -> None:
    results = []
    for options in ({"per_kernel": 2}, {"reuse": False}):
        r = Repeater(name, tmp_path, **options)
        for steps in (1, 2, 3, 4):
            r.launch("chase", "QQi", r.index, r.b, steps)
        r.launch("chase", "QQi", r.index, r.b, 4, groups=8)
        results.append((r.reused(), r.found, r.memory()))
        del r
    (reused, found, memory), (_, expected, all_memory) = results
    assert memory == all_memory
    assert reused == [0, 0, 1, 1, 0]
    assert found[:4] == [*expected[:2], expected[1], expected[1]]


def both_ways(name: str, scratch: Path, arch: str) -> list[RunResult]:
    """The program with every launch counted, and with reuse."""
    from hipsynth.simulator import devices

    device = devices.load_device(devices.default_device(arch))
    found = []
    for reuse in (False, True):
        folder = scratch / str(reuse)
        folder.mkdir()
        limits = RunLimits(time_s=30.0, sampling_units=0, reuse=reuse)
        found.append(run_program(hip_programs.built(name, arch), device, folder, limits))
    return found


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(
    ("name", "reuses"), [("repeated_launches", True), ("graphs", False), ("streams", False), ("jacobi", False)]
)
def test_programs_give_the_same_with_reuse(name: str, reuses: bool, arch: str, tmp_path: Path) -> None:
    from dataclasses import replace

    counted, reusing = both_ways(name, tmp_path, arch)
    assert reusing.status == "ok" and reusing.stdout == counted.stdout
    plain = []
    for result in (counted, reusing):
        kernels = [k for k in result.kernels if k.sampling is not None]
        plain.append([replace(k, sampling=replace(k.sampling, reused=0)) for k in kernels if k.sampling])
    assert plain[0] == plain[1] and plain[0]
    if reuses:
        assert sum(k.sampling.reused for k in reusing.kernels if k.sampling) >= 6
