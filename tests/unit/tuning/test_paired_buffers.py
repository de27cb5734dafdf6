"""Which allocations of two programs are compared: by number or by use, and not those of steps on the way to results."""

from __future__ import annotations

import functools

import pytest

from hipsynth.simulator.observation import Output
from hipsynth.tuning.trial import Conditions, Trial, compare_trials, run_trial, target_of
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.paired_buffers import find_steps, find_uploaded_results, leaves_results_out

PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <vector>
__global__ void first(const float* in, float* step, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) step[i] = 2 * in[i];
}
__global__ void second(const float* step, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = step[i] + 1;
}
__global__ void both(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i] + 1;
}
__global__ void total(const float* out, float* sum, int n) {
  if (threadIdx.x == 0) for (int i = 0; i < n; ++i) *sum += out[i];
}
int main() {
  const int n = 256;
  std::vector<float> host(n), back(n);
  for (int i = 0; i < n; ++i) host[i] = 0.5f * i;
  float *in, *step, *out, *sum;
  (void)hipMalloc(&in, n * 4), (void)hipMalloc(&step, n * 4), (void)hipMalloc(&out, n * 4), (void)hipMalloc(&sum, 4);
  (void)hipMemset(sum, 0, 4);
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  first<<<4, 64>>>(in, step, n);
  second<<<4, 64>>>(step, out, n);
  (void)hipMemcpy(back.data(), out + 1, 16, hipMemcpyDeviceToHost);
}
"""
ALLOCATED = "(void)hipMalloc(&in, n * 4), (void)hipMalloc(&step, n * 4), (void)hipMalloc(&out, n * 4)"
LAUNCHED = "  first<<<4, 64>>>(in, step, n);\n  second<<<4, 64>>>(step, out, n);\n"
LARGER = ALLOCATED.replace("&out, n * 4", "&out, n * 4 + 256")
SUMMED = PROGRAM.replace(LAUNCHED, LAUNCHED + "  total<<<1, 64>>>(out, sum, n);\n").replace("out + 1, 16", "sum, 4")
ONE_GROUP = LAUNCHED.replace("second<<<4", "second<<<1")


@functools.cache
def run(text: str) -> Trial:
    trial = run_trial(text, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20))
    assert trial.ok, trial.message
    return trial


def change(*changes: tuple[str, str], text: str = PROGRAM) -> Trial:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return run(text)


def buffers_of(trial: Trial) -> list[Output]:
    return sorted((output for output in trial.outputs if output.kind == "buffer"), key=lambda output: output.index)


def test_a_run_tells_who_wrote_and_read_an_allocation_and_when() -> None:
    placed, step, out, total = buffers_of(run(PROGRAM))
    assert (placed.uploaded, step.uploaded, total.uploaded) == (1024, 0, 0)
    assert [use.last for use in step.uses] == [3, 4] and [use.last for use in out.uses] == [4]
    assert (total.written_at, placed.written_at, out.written_at) == (1, 2, 0)
    [copy] = [output for output in run(PROGRAM).outputs if output.kind == "copy"]
    assert (copy.source, copy.offset) == (2, 4)


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ([(ALLOCATED, ", ".join(reversed(ALLOCATED.split(", (void)"))).replace(", hip", ", (void)hip"))], True),
        ([(LAUNCHED, "  both<<<4, 64>>>(in, out, n);\n")], True),
        ([(LAUNCHED, "  both<<<1, 64>>>(in, out, n);\n")], False),
        ([(ALLOCATED, LARGER)], True),
        ([(ALLOCATED, LARGER), (LAUNCHED, ONE_GROUP)], False),
        ([(ALLOCATED, LARGER), (LAUNCHED, ONE_GROUP), ("second", "renamed")], False),
        ([(ALLOCATED, LARGER.replace("n * 4 + 256", "256")), (LAUNCHED, ONE_GROUP)], False),
    ],
    ids=["another order", "no step", "no step and one group", "larger", "larger and one group", "renamed", "smaller"],
)
def test_allocations_are_compared_by_their_use(changes: list[tuple[str, str]], equal: bool) -> None:
    comparison = compare_trials(run(PROGRAM), change(*changes))
    assert comparison.equal is equal and (equal or "buffer 2" in comparison.reason)


def test_what_only_a_checksum_is_made_of_is_no_step() -> None:
    original = run(SUMMED)
    assert [original.outputs[place].index for place in find_steps(original, ParameterTypes())] == []
    crossed = change(("out[i] = step[i]", "out[i ^ 1] = step[i]"), text=SUMMED)
    assert compare_trials(original, crossed).reason == "buffer 2 of 1024 bytes differs"
    assert [run(PROGRAM).outputs[place].index for place in find_steps(run(PROGRAM), ParameterTypes())] == [1]


def test_results_of_kernels_with_other_parameters_are_not_compared() -> None:
    text = ("const float* step, float* out, int n", "int n, const float* step, float* out")
    other = change((ALLOCATED, LARGER), text, ("(step, out, n)", "(n, step, out)"))
    types = ParameterTypes()
    assert leaves_results_out(run(PROGRAM), other, types)
    assert not leaves_results_out(run(PROGRAM), change((ALLOCATED, LARGER)), types)


def test_uploads_of_what_kernels_write_are_named() -> None:
    upload = "(void)hipMemcpy(out, host.data(), n * 4, hipMemcpyHostToDevice);\n"
    uploaded = find_uploaded_results(run(PROGRAM), change((LAUNCHED, upload + LAUNCHED)), ParameterTypes())
    assert [output.index for output in uploaded] == [2]
    assert not find_uploaded_results(run(PROGRAM), run(PROGRAM), ParameterTypes())
    other = (
        ("const float* step, float* out, int n", "int n, const float* step, float* out"),
        ("(step, out, n)", "(n, step, out)"),
    )
    hidden = change((ALLOCATED, LARGER), (LAUNCHED, upload + LAUNCHED), *other)
    assert [output.index for output in find_uploaded_results(run(PROGRAM), hidden, ParameterTypes())] == [2]
    in_place = change((LAUNCHED, "  both<<<4, 64>>>(in, in, n);\n"), ("out + 1", "in + 1"))
    assert not find_uploaded_results(run(PROGRAM), in_place, ParameterTypes())
