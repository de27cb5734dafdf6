"""Previews say how much they depend on data that nobody knows before the program runs."""

from __future__ import annotations

import math
from pathlib import Path

import needs
import pytest

from hipsynth.profiling.preview.interpret import MOST_SWAY
from hipsynth.profiling.preview.programs import Found, device_code, previews
from hipsynth.training.analytic.model import DURATION
from hipsynth.training.analytic.predict import AnalyticPredictor

LOOPS = """#include <hip/hip_runtime.h>
#include <vector>
__global__ void level(const int* many, int* state, int current, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (state[i] != current) return;
  float sum = 0;
  for (int k = 0; k < 500 + many[i]; ++k) sum = sum * 0.5f + out[i];
  out[i] = sum;
  state[i] = current + 1;
}
__global__ void plain(float* out) { out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }
int main() {
  const int n = 1 << 16;
  std::vector<int> lengths(n), first(n);
  for (int i = 0; i < n; ++i) lengths[i] = 7;
  for (int i = 0; i < n; ++i) first[i] = 0;
  int *many, *state, count = n;
  float* out;
  if (hipMalloc(&many, n * 4) || hipMalloc(&state, n * 4) || hipMalloc(&out, n * 4)) return 1;
  if (hipMemcpy(many, lengths.data(), n * 4, hipMemcpyHostToDevice)) return 1;
  if (hipMemcpy(state, first.data(), n * 4, hipMemcpyHostToDevice)) return 1;
  plain<<<n / 256, 256>>>(out);
  level<<<n / 256, 256>>>(many, state, 0, out);
  MORE
  return hipDeviceSynchronize();
}
"""


def found(more: str) -> Found:
    needs.simulator()
    text = LOOPS.replace("MORE", more)
    return previews(text, device_code(text, "gfx90a", "-O3"), "mi250")


def test_data_that_the_host_writes_are_known() -> None:
    plain, level = found("").previews
    assert level.by_data and level.sway == 0
    assert not plain.by_data and plain.sway == 0


def test_data_that_a_kernel_has_changed_are_doubted() -> None:
    """After the first level, other work-items may be in it than the host has put there."""
    _, first, second = found("level<<<n / 256, 256>>>(many, state, 1, out);").previews
    assert first.sway == 0
    assert second.sway > math.log(2)


@pytest.mark.parametrize(
    "call", ["hipMemcpy(&count, state, 4, hipMemcpyDeviceToHost)", "hipMemcpyDtoH(&count, state, 4)"]
)
def test_a_number_that_is_read_back_is_not_known(call: str) -> None:
    """The host goes on with what the kernel computes: nobody knows that launch's shape."""
    answer = found(f"(void){call};\n  level<<<count / 256, 256>>>(many, state, 1, out);")
    assert [one.launch.kernel for one in answer.previews] == ["plain", "level"]
    assert [one.sway for one in answer.previews] == [0, MOST_SWAY]
    assert [(one.kernel, "launch shape" in one.reason) for one in answer.failures] == [("level", True)]


def test_the_predictor_abstains_where_unknown_data_decide(tmp_path: Path) -> None:
    needs.sandbox()
    text = LOOPS.replace(
        "MORE",
        "(void)hipMemcpy(&count, state, 4, hipMemcpyDeviceToHost);\n  level<<<count, 256>>>(many, state, 1, out);",
    )
    plain, level, unknown = AnalyticPredictor.load().predict(text, "gfx90a", "-O3").kernels
    assert not plain.abstained
    assert level.abstained and "data" in level.reason and level.duration_ns is not None
    low, high = level.intervals[DURATION]
    assert low == pytest.approx(level.duration_ns / math.exp(MOST_SWAY))
    assert high == pytest.approx(level.duration_ns * math.exp(MOST_SWAY))
    assert unknown.abstained and unknown.duration_ns is None
