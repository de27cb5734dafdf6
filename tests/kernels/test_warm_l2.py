"""With a warm L2, launches find what earlier ones read, but nothing that a launch or the host has written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import numpy as np
import pytest

from hipsynth.simulator import devices
from hipsynth.simulator.api import run_program
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.limits import RunLimits

SOURCE = Path(__file__).with_name("repeated.hip")
ITEMS = 65536
LINES = ITEMS * 4 // 128

PROGRAM = """
#include <hip/hip_runtime.h>
__global__ void twice(const float* a, float* b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = a[i] * 2;
}
int main() {
  float *a, *b;
  hipMalloc(&a, 4 << 16);
  hipMalloc(&b, 4 << 16);
  for (int launch = 0; launch < 4; ++launch) twice<<<256, 256>>>(a, b);
  return hipDeviceSynchronize();
}
"""


def misses(device: SimDevice, kernel: str, *arrays: int) -> float:
    result: dict[str, Any] = device.launch(kernel, (ITEMS // 256,), (256,), "Q" * len(arrays), *arrays)
    return float(result["counters"]["TCC_MISS"])


@pytest.mark.parametrize(("name", "written_stay"), [("mi250", True), ("mi300x", False)])
def test_launches_find_what_was_read_and_one_l2_also_what_was_written(
    name: str, written_stay: bool, tmp_path: Path
) -> None:
    device = SimDevice(name, SOURCE, tmp_path, keep_l2=True)
    a, b, c = (device.upload(np.zeros(ITEMS, np.float32)) for _ in range(3))
    first = misses(device, "twice", a, b)
    again = misses(device, "twice", a, b)
    assert first - again == pytest.approx(2 * LINES if written_stay else LINES, rel=0.05)
    reads_written = misses(device, "twice", b, c)
    assert reads_written == pytest.approx(LINES if written_stay else 2 * LINES, rel=0.05)
    device.core.empty_l2()
    assert misses(device, "twice", a, b) == pytest.approx(first, rel=0.05)


def test_a_program_is_profiled_with_a_warm_l2_on_demand(tmp_path: Path) -> None:
    needs.compiler()
    source = tmp_path / "repeated.hip"
    source.write_text(PROGRAM)
    built = build_runnable(source, "gfx942", "-O3", tmp_path / "build")
    device = devices.load_device("mi300x")
    (cold,), (warm,) = (run_program(built, device, tmp_path, RunLimits(warm_l2=on)).kernels for on in (False, True))
    assert cold.dispatches == warm.dispatches == 4
    assert cold.counters["TCC_MISS"] - warm.counters["TCC_MISS"] == pytest.approx(0.75 * LINES, rel=0.1)
    assert warm.duration_ns < cold.duration_ns
