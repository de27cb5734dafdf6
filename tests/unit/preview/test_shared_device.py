"""Launches of a preview that follow each other on one device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hipsynth.core.time_limit import OutOfTime
from hipsynth.profiling.preview.interpret import Interpreter, Preview, ScaledCounts
from hipsynth.profiling.preview.launch import DeviceBuffer, DeviceLaunch
from hipsynth.profiling.preview.programs import (
    ENOUGH_OF_KERNEL,
    KnownSensitivities,
    device_code,
    find_launches,
    interpret_all,
)
from hipsynth.profiling.preview.shared_device import SharedDevice
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.native_core import NativeDevice

SOURCE = """#include <hip/hip_runtime.h>
__global__ void scale(float4* y, const float4* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = make_float4(2 * x[i].x, x[i].y, x[i].z, x[i].w);
}
__global__ void rotate(float4* y, const float4* x) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = make_float4(x[i].y, x[i].z, x[i].w, x[i].x);
}
int main() {
  const int n = 1 << 21;
  float4 *a, *b;
  hipMalloc(&a, n * 16);
  hipMalloc(&b, n * 16);
  LAUNCHES
}
"""
ONCE, TIMES = "scale<<<n / 256, 256>>>(b, a);", 5


def launches_of(*calls: str) -> tuple[Interpreter, Sequence[DeviceLaunch]]:
    text = SOURCE.replace("LAUNCHES", " ".join(calls))
    interpreter = Interpreter(device_code(text, "gfx942", "-O3"), load_device("mi300x"))
    return interpreter, find_launches(text, interpreter).launches


def previews_of(*calls: str) -> list[Preview]:
    interpreter, launches = launches_of(*calls)
    return interpret_all(launches, interpreter).previews


def test_a_launch_finds_in_the_infinity_cache_what_an_earlier_one_left() -> None:
    rotate = "rotate<<<n / 256, 256>>>(a, b);"
    (alone,), (_, later) = previews_of(rotate), previews_of(ONCE, rotate)
    assert later.duration_ns < 0.95 * alone.duration_ns
    assert later.counters["SQ_INSTS"] == alone.counters["SQ_INSTS"]


def test_a_launch_that_is_made_again_has_the_mean() -> None:
    (first,), (mean,) = previews_of(ONCE), previews_of(*[ONCE] * TIMES)
    assert mean.launch.times == TIMES
    interpreter, launches = launches_of(ONCE)
    device = SharedDevice()
    interpreter.count(launches[0], device)
    counted = interpreter.count(launches[0], device)
    assert counted is not None
    later = interpreter.scale_counts(launches[0], counted)
    assert later.duration_ns < first.duration_ns
    assert math.isclose(mean.duration_ns, (first.duration_ns + (TIMES - 1) * later.duration_ns) / TIMES)


def test_launches_in_a_row_find_what_they_left_themselves() -> None:
    """Whatever the program launches afterwards."""
    other = "rotate<<<n / 256, 256>>>(c, d);"
    more = "float4 *c, *d; hipMalloc(&c, 8 * n * 16); hipMalloc(&d, 8 * n * 16);"
    flood = other.replace("n / 256", "8 * n / 256")
    (alone,) = previews_of(*[ONCE] * TIMES)
    in_a_row, _ = previews_of(more, *[ONCE] * TIMES, *[flood] * TIMES)
    in_turn, _ = previews_of(more, *[ONCE, flood] * TIMES)
    assert in_a_row.launch.follows_itself and not in_turn.launch.follows_itself
    assert in_a_row.launch.times == in_turn.launch.times == TIMES
    assert math.isclose(in_a_row.duration_ns, alone.duration_ns, rel_tol=1e-3)
    assert in_turn.duration_ns > 1.05 * in_a_row.duration_ns


def test_time_that_ends_before_the_second_pass_leaves_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = previews_of(ONCE)
    interpreter, launches = launches_of(*[ONCE] * TIMES)
    count, turns = Interpreter.count, iter(range(9))

    def count_once(self: Interpreter, launch: DeviceLaunch, device: SharedDevice | None = None) -> ScaledCounts | None:
        if next(turns):
            raise OutOfTime
        return count(self, launch, device)

    monkeypatch.setattr(Interpreter, "count", count_once)
    answered = interpret_all(launches, interpreter)
    assert [preview.duration_ns for preview in answered.previews] == [first.duration_ns] and not answered.failures


def test_nothing_is_interpreted_after_the_limit_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer raises once: a second pass would not be ended."""
    interpreter, launches = launches_of(*[ONCE, "rotate<<<n / 256, 256>>>(a, b);"] * TIMES)
    preview, kernels = Interpreter.preview, list[str]()

    def end_at_second(self: Interpreter, launch: DeviceLaunch, *more: Any) -> Preview | None:
        if launch.kernel == "rotate":
            raise OutOfTime
        return preview(self, launch, *more)

    def note_count(self: Interpreter, launch: DeviceLaunch, *more: Any) -> ScaledCounts | None:
        kernels.append(launch.kernel)
        return count(self, launch, *more)

    count = Interpreter.count
    monkeypatch.setattr(Interpreter, "preview", end_at_second)
    monkeypatch.setattr(Interpreter, "count", note_count)
    answered = interpret_all(launches, interpreter)
    assert kernels == ["scale"] and len(answered.previews) == 1
    assert [failure.kernel for failure in answered.failures] == ["rotate"]


def test_buffers_keep_their_places_until_others_take_them() -> None:
    interpreter, _ = launches_of(ONCE)
    device = SharedDevice()
    core: NativeDevice = device.start(interpreter._native_device)
    first, same, over = (DeviceBuffer(start, size) for start, size in ((4096, 8192), (4096, 8192), (8192, 4096)))

    def allocate(buffer: DeviceBuffer) -> int:
        return core.allocate(buffer.bytes)

    address = device.place(core, first, allocate)
    assert device.place(core, same, allocate) == address and len(device.places) == 1
    device.place(core, over, allocate)
    assert set(device.places) == {8192}
    device.end()
    assert device.start(interpreter._native_device) is not core and not device.places


def test_memory_is_filled_with_data_and_zeros_by_turns() -> None:
    interpreter, _ = launches_of(ONCE)
    core = interpreter._native_device()
    address, out = core.allocate(64), np.zeros(64, np.uint8)
    core.fill(address, 64, np.full(64, 9, np.uint8), 64)
    core.fill(address, 21, np.array([1, 2], np.uint8), 8)
    core.read(address, out)
    assert out.tolist() == [1, 2, *[0] * 6, 1, 2, *[0] * 6, 1, 2, *[0] * 3, *[9] * 43]


def test_large_parts_of_memory_are_cleared_to_their_last_byte() -> None:
    interpreter, _ = launches_of(ONCE)
    core, size = interpreter._native_device(), (16 << 20) + 12345
    address, out = core.allocate(size + 1), np.zeros(size + 1, np.uint8)
    core.fill(address, size + 1, np.full(1, 7, np.uint8), 1)
    core.fill(address, size, np.array([3, 4], np.uint8), size)
    core.read(address, out)
    assert out[:2].tolist() == [3, 4] and not out[2:size].any() and out[size] == 7


def test_sensitivities_of_many_shapes_are_learned_from_the_first() -> None:
    learned = KnownSensitivities()
    launches = [DeviceLaunch("walk", "walk(int*)", (groups, 1, 1), (64, 1, 1), 0, b"") for groups in range(1, 12)]
    for number, launch in enumerate(launches):
        assert learned.find(launch) == (None if number < ENOUGH_OF_KERNEL else 0.1 * (ENOUGH_OF_KERNEL - 1))
        if number < ENOUGH_OF_KERNEL:
            learned.add(launch, 0.1 * number)
    assert learned.find(DeviceLaunch("other", "other()", (1, 1, 1), (64, 1, 1), 0, b"")) is None
