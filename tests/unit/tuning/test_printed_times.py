"""A program that prints how long its kernels took is compared without these numbers, and with all others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_texts import TIMED

from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.trial import Tolerance, compare_printed, replace_printed_times, target_of
from hipsynth.tuning.trial.compare import BIT_FOR_BIT, TrialComparison
from hipsynth.tuning.trial.run import Trial


@pytest.mark.parametrize(
    ("other", "replaced"),
    [
        ("took 0.004 ms, 64 elements", "took 0.005 ms, 64 elements"),
        ("took 4e-03 ms, 65 elements", "took 0.005 ms, 65 elements"),
        ("took 0.004 s, 64 elements", "took 0.004 s, 64 elements"),
        ("took 0.004 ms, 64", "took 0.004 ms, 64"),
    ],
)
def test_numbers_that_change_with_the_times_of_kernels_may_differ(other: str, replaced: str) -> None:
    printed, retimed = "took 0.005 ms, 64 elements", "took 0.0061 ms, 64 elements"
    assert replace_printed_times(printed, other, retimed) == replaced


def test_a_faster_program_that_prints_its_time_is_equal() -> None:
    verifier = Verifier(TIMED, target_of("gfx942"), [()])
    faster = TIMED.replace("<<<n / 64, 64>>>", "<<<n / 256, 256>>>")
    assert verifier.quick(faster).passed is True
    other = verifier.quick(faster.replace("%d elements, last %d", "%d numbers, last %d"))
    assert other.passed is False and "prints something else" in other.detail


def test_times_of_the_host_may_differ_where_nothing_is_counted() -> None:
    clock = "std::chrono::steady_clock::now().time_since_epoch().count() % 1000003 + 0.5"
    text = f'  std::printf("%.1f ns\\n", {clock});\n  return last =='
    printing = "#include <chrono>\n" + TIMED.replace("  return last ==", text)
    verifier = Verifier(printing, target_of("gfx942"), [()])
    conditions = replace(verifier.run_conditions(()), count=False)
    assert verifier.check_equal("timed_size", printing + "\n", conditions).passed is True


@pytest.mark.parametrize(
    ("printed", "passes"), [('"last %d", last', False), ('"%x %x %x %x", draw(), draw(), draw(), draw()', True)]
)
def test_what_is_printed_to_stderr_is_compared_unless_runs_differ_there(printed: str, passes: bool) -> None:
    text = f"  std::random_device draw;\n  std::fprintf(stderr, {printed});\n  return last =="
    printing = "#include <random>\n" + TIMED.replace("  return last ==", text)
    verifier = Verifier(printing, target_of("gfx942"), [()])
    assert verifier.quick(printing + "\n").passed is True
    silent = verifier.quick(TIMED)
    assert silent.passed is passes and ("prints something else" in silent.detail) is not passes


SUMS = r"""#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void sums(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += in[i * n + k];
  out[i] = sum;
}
int main() {
  const int n = 100;
  std::vector<float> host(64 * n), back(64);
  for (int i = 0; i < 64 * n; ++i) host[i] = 1.0f / (1 + i % 37) - 0.11f;
  float *in, *out;
  hipMalloc(&in, 64 * n * 4);
  hipMalloc(&out, 64 * 4);
  hipMemcpy(in, host.data(), 64 * n * 4, hipMemcpyHostToDevice);
  sums<<<1, 64>>>(in, out, n);
  hipMemcpy(back.data(), out, 64 * 4, hipMemcpyDeviceToHost);
  double least = 0;
  int wrong = 0;
  for (int i = 0; i < 64; ++i) {
    float reference = 0;
    for (int k = n - 1; k >= 0; --k) reference += host[i * n + k];
    least = std::max(least, (double)std::abs(reference - back[i]));
    wrong += std::abs(reference - back[i]) > 1e-3f;
  }
  printf("largest error %.3g, %d wrong\n", least, wrong);
  return 0;
}
"""
BACKWARDS = SUMS.replace("int k = 0; k < n; ++k", "int k = n - 1; k >= 0; --k", 1)


@pytest.mark.parametrize(
    ("changed", "passes"),
    [
        (BACKWARDS, True),  # another order of the sums: the error that is printed is none
        (BACKWARDS.replace("%.3g,", "%.3g!"), False),
        (BACKWARDS.replace("std::max(least, (double)", "std::max(least, 10 + (double)"), False),
        (BACKWARDS.replace("wrong);", "wrong + 1);"), False),
        (SUMS.replace("std::max(least, (double)", "std::max(least, 2 * (double)"), False),
    ],
    ids=["another order", "another text", "a large error", "a count", "the same outputs"],
)
def test_printed_numbers_may_differ_as_far_as_the_outputs_explain_it(changed: str, passes: bool) -> None:
    verifier = Verifier(SUMS, target_of("gfx942"), [()], Tolerance("float", 2e-5, "a test"))
    assert changed != SUMS
    check = verifier.quick(changed)
    assert check.passed is passes and ("it prints" in check.detail) is not passes, check


def test_without_a_tolerance_printed_numbers_must_be_the_same() -> None:
    """Outputs whose words are in another order are equal without one."""
    before, after = (Trial("ok", stdout=f"{number} places") for number in (3, 4))
    equal = TrialComparison(True, exact=False)
    assert compare_printed(before, after, BIT_FOR_BIT, [before], equal).equal is False
    assert compare_printed(before, before, BIT_FOR_BIT, [before], equal).equal is True


@pytest.mark.parametrize(
    ("other", "passes"),
    [("sum 1.00001 of 100000", True), ("sum 1.00000 of 100001", False), ("sum 1.1 of 100000", False)],
)
def test_integers_are_printed_as_they_were(other: str, passes: bool) -> None:
    before, after = (Trial("ok", stdout=text) for text in ("sum 1.00000 of 100000", other))
    tolerance, equal = Tolerance("float", 2e-5, "a test"), TrialComparison(True, exact=False)
    assert compare_printed(before, after, tolerance, [before], equal).equal is passes
    assert compare_printed(before, after, tolerance, [], equal).equal is False
