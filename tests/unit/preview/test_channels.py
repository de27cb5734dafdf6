"""The L2 channels of a launch's work-groups: of neighbours in a large grid, and beside other devices."""

from __future__ import annotations

import pytest

from hipsynth.profiling.preview.interpret import Interpreter
from hipsynth.profiling.preview.programs import device_code, find_launches
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.native_core import native_core

TRANSPOSE = """#include <hip/hip_runtime.h>
__global__ void transpose(const float* in, float* out, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < n && y < n) out[(size_t)x * n + y] = in[(size_t)y * n + x];
}
int main() {
  const int n = 4096;
  float *in, *out;
  hipMalloc(&in, n * n * 4);
  hipMalloc(&out, n * n * 4);
  transpose<<<dim3(n / 64, n / 4), dim3(64, 4)>>>(in, out, n);
}
"""


def test_channels_of_neighbours_are_not_those_of_the_grid() -> None:
    """Rows are a power of two apart; executed, the whole grid takes 0.37 ms."""
    table = load_device("mi250")
    interpreter = Interpreter(device_code(TRANSPOSE, "gfx90a", "-O3"), table)
    (launch,) = find_launches(TRANSPOSE, interpreter).launches
    counted = interpreter.count(launch)
    assert counted is not None
    average = counted.counters["TCC_REQ"] / table["l2.channels"]
    assert counted.work["l2_requests_busiest_channel"] < 1.2 * average
    assert 0.34e6 < interpreter.scale_counts(launch, counted).duration_ns < 0.38e6


@pytest.mark.parametrize("arch, device", [("gfx90a", "mi250"), ("gfx942", "mi300x")])
def test_other_devices_in_the_process_change_no_channel(arch: str, device: str) -> None:
    """Each device's memory lies at other addresses, and all address bits choose the channel."""
    table = load_device(device)
    interpreter = Interpreter(device_code(TRANSPOSE, arch, "-O3"), table)
    (launch,) = find_launches(TRANSPOSE, interpreter).launches
    alone = interpreter.count(launch)
    others = [native_core().Device(arch, dict(table.spec())) for _ in range(3)]
    assert interpreter.count(launch) == alone
    assert len({device.arena() for device in others}) == 3
