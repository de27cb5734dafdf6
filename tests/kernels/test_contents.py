"""Kernels whose addresses depend on data are previewed with what the host put there, near what execution counts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import needs
import pytest

from hipsynth.core.program import load_program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.job import profile_program
from hipsynth.profiling.preview import record
from hipsynth.profiling.preview.interpret import Interpreter
from hipsynth.profiling.preview.programs import device_code, find_launches
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.limits import RunLimits

GATHER = """#include <hip/hip_runtime.h>
#include <vector>
__global__ void gather(const float* in, const int* index, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[index[i]];
}
int main() {
  const int n = 1 << 18;
  std::vector<int> index(n);
  for (int i = 0; i < n; ++i) index[i] = INDEX;
  float *in, *out;
  int* device;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4) || hipMalloc(&device, n * 4)) return 1;
  if (hipMemset(in, 0, n * 4) || hipMemcpy(device, index.data(), n * 4, hipMemcpyHostToDevice)) return 1;
  gather<<<n / 256, 256>>>(in, device, out, n);
  return hipDeviceSynchronize();
}
"""
COUNTERS = ("TCP_TOTAL_CACHE_ACCESSES", "TCP_TCC_READ_REQ", "TCC_REQ")


@pytest.mark.parametrize("index", ["i", "i / 64 * 64 + i * 7 % 64", "(int)(i * 2654435769u >> 14)"])
def test_a_gather_is_previewed_with_its_indices(index: str, tmp_path: Path) -> None:
    needs.simulator()
    needs.sandbox()
    path = tmp_path / "gather.hip"
    path.write_text(GATHER.replace("INDEX", index))
    (result,) = profile_program(
        load_program(path), [Target("gfx90a", "-O3", "mi250")], "sim", RunLimits(sampling_units=0)
    )
    (executed,) = result.kernels
    interpreter = Interpreter(device_code(path.read_text(), "gfx90a", "-O3"), load_device("mi250"))
    (launch,) = find_launches(path.read_text(), interpreter).launches
    empty = tuple(dataclasses.replace(one, contents=None) for one in launch.buffers)
    previewed, made_up = interpreter.preview(launch), interpreter.preview(dataclasses.replace(launch, buffers=empty))
    assert previewed is not None and made_up is not None and previewed.by_data
    for name in COUNTERS:
        assert previewed.counters[name] == pytest.approx(executed.counters[name], rel=0.05), name
    if index == "i":
        assert made_up.counters["TCC_REQ"] > 2 * executed.counters["TCC_REQ"], "noise would not do"


OTHER = """__global__ void other(PARAMETER) {
  float x = threadIdx.x;
  for (int i = 0; i < 9999; ++i) x = x * 1.5f + p[i];
  if (x == 7) __builtin_trap();
}
"""


@pytest.mark.parametrize(
    ("parameter", "budget", "known"),
    [
        ("int* p", 5.0, True),
        ("int* p", 1e-9, False),
        ("const int* p", 1e-9, True),
        ("const int* p, int n", 1e-9, True),
        ("int* p, int n", 1e-9, False),
    ],
)
def test_what_a_kernel_that_was_not_run_may_have_written_is_not_known(
    monkeypatch: pytest.MonkeyPatch, parameter: str, budget: float, known: bool
) -> None:
    """A kernel runs for its results while the budget lasts."""
    needs.sandbox()
    monkeypatch.setattr(record, "KERNEL_SECONDS", budget)
    text = GATHER.replace("INDEX", "i").replace(
        "gather<<<", f"other<<<1, 64>>>(device{', n' * (',' in parameter)}); /* {budget} */\n  gather<<<"
    )
    text = text.replace("int main", OTHER.replace("PARAMETER", parameter) + "int main")
    interpreter = Interpreter(device_code(text, "gfx90a", "-O3"), load_device("mi250"))
    gather = find_launches(text, interpreter).launches[-1]
    assert gather.kernel == "gather"
    index = gather.pointers[1][1]
    assert index.contents is not None and index.stale != known
