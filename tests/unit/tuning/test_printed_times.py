"""A program that prints how long its kernels took is compared without these numbers, and with all others."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.verify import Verifier
from hipsynth.tuning.trial import differs_in_times, target_of

TIMED = """#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* to, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = i;
}
int main() {
  const int n = 65536;
  int *to, last = 0;
  hipEvent_t start, stop;
  float ms = 0;
  hipMalloc(&to, n * 4);
  hipEventCreate(&start);
  hipEventCreate(&stop);
  hipEventRecord(start);
  fill<<<n / 64, 64>>>(to, n);
  hipEventRecord(stop);
  hipEventSynchronize(stop);
  hipEventElapsedTime(&ms, start, stop);
  hipMemcpy(&last, to + n - 1, 4, hipMemcpyDeviceToHost);
  printf("took %g ms, %d elements, last %d\\n", ms, n, last);
  return last == n - 1 ? 0 : 1;
}
"""


@pytest.mark.parametrize(
    ("other", "passes"),
    [
        ("took 0.004 ms, 64 elements", True),
        ("took 4e-03 ms, 65 elements", False),
        ("took 0.004 s, 64 elements", False),
        ("took 0.004 ms, 64", False),
    ],
)
def test_numbers_that_change_with_the_times_of_kernels_may_differ(other: str, passes: bool) -> None:
    printed, retimed = "took 0.005 ms, 64 elements", "took 0.0061 ms, 64 elements"
    assert differs_in_times(printed, other, retimed) is passes


def test_a_faster_program_that_prints_its_time_is_equal() -> None:
    verifier = Verifier(TIMED, target_of("gfx942"), [()])
    faster = TIMED.replace("<<<n / 64, 64>>>", "<<<n / 256, 256>>>")
    assert verifier.quick(faster).passed is True
    other = verifier.quick(faster.replace("%d elements, last %d", "%d numbers, last %d"))
    assert other.passed is False and "prints something else" in other.detail
