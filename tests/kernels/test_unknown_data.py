"""Previews say how much they depend on data that nobody knows before the program runs."""

from __future__ import annotations

import math

import needs
import pytest

from hipsynth.profiling.preview import record
from hipsynth.profiling.preview.interpret import MOST_SENSITIVITY
from hipsynth.profiling.preview.programs import ProgramPreviews, device_code, preview_program
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


def found(more: str, monkeypatch: pytest.MonkeyPatch, budget: float = record.KERNEL_SECONDS) -> ProgramPreviews:
    """Previews of the program with `more` at its end, whose kernels run for their results within a budget."""
    needs.simulator()
    monkeypatch.setattr(record, "KERNEL_SECONDS", budget)
    text = LOOPS.replace("MORE", f"{more}  // {budget}")
    return preview_program(text, device_code(text, "gfx90a", "-O3"), "mi250")


NOTHING = 1e-9  # seconds of work on kernels: none of them runs
AGAIN = "level<<<n / 256, 256>>>(many, state, 1, out);"
READ = "(void)hipMemcpy(&count, state, 4, hipMemcpyDeviceToHost);\n  level<<<count + 1, 256>>>(many, state, 1, out);"


def test_data_that_the_host_writes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, level = found("", monkeypatch).previews
    assert level.by_data and level.sensitivity == 0
    assert not plain.by_data and plain.sensitivity == 0


def test_data_that_a_kernel_may_have_changed_are_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first level, other work-items may be in it than the host has put there."""
    _, first, second = found(AGAIN, monkeypatch, NOTHING).previews
    assert first.sensitivity == 0
    assert second.sensitivity > math.log(2)


def test_launches_on_known_data_do_not_tell_how_much_others_depend_on_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three are known: the host has written their states."""
    write = "if (hipMemcpy(state, first.data(), n * 4, hipMemcpyHostToDevice)) return 1;"
    levels = "".join(f"{write} level<<<n / 256, 256>>>(many, state, 0, out + {k});" for k in (1, 2))
    _, *known, last = found(levels + AGAIN, monkeypatch, NOTHING).previews
    assert not any(one.sensitivity for one in known) and last.sensitivity > math.log(2)


def test_data_that_a_kernel_has_changed_are_known_if_it_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    _, first, second = found(AGAIN, monkeypatch, 5.0).previews
    assert (first.sensitivity, second.sensitivity) == (0, 0)
    assert second.duration_ns > 0.5 * first.duration_ns  # all work-items are in the second level


def test_a_launch_after_lost_results_were_read_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = found(READ, monkeypatch, NOTHING)
    assert [one.launch.after_loss for one in answer.previews] == [False, False, True]
    assert [one.sensitivity for one in answer.previews] == [0, 0, MOST_SENSITIVITY]


def test_the_predictor_abstains_where_unknown_data_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    needs.sandbox()
    monkeypatch.setattr(record, "KERNEL_SECONDS", NOTHING)
    text = LOOPS.replace("MORE", f"{READ}  // again")
    plain, level, unknown = AnalyticPredictor.load().predict(text, "gfx90a", "-O3").kernels
    assert not plain.abstained and not level.abstained
    assert unknown.abstained and "data" in unknown.reason and unknown.duration_ns is not None
    low, high = unknown.intervals[DURATION]
    assert low == pytest.approx(unknown.duration_ns / math.exp(MOST_SENSITIVITY))
    assert high == pytest.approx(unknown.duration_ns * math.exp(MOST_SENSITIVITY))


QUEUE = """#include <hip/hip_runtime.h>
__global__ void take(int* next, float* out, int blocks) {
  for (;;) {
    int block = 0;
    if (threadIdx.x == 0) block = atomicAdd(next, 1);
    block = __shfl(block, 0);
    if (block >= blocks) return;
    float sum = 0;
    for (int k = 0; k < 3000; ++k) sum = sum * 0.5f + block;
    out[block * 64 + threadIdx.x] = sum;
  }
}
int main() {
  const int blocks = 1 << 14;
  int* next;
  float* out;
  if (hipMalloc(&next, 4) || hipMalloc(&out, blocks * 64 * 4) || hipMemset(next, 0, 4)) return 1;
  take<<<832, 64>>>(next, out, blocks);
  return hipDeviceSynchronize();
}
"""


def test_a_queue_that_few_work_groups_do_not_empty_is_not_known() -> None:
    """They go on for too long with the data that the host wrote, and end at once with other data."""
    needs.simulator()
    (taken,) = preview_program(QUEUE, device_code(QUEUE, "gfx90a", "-O3"), "mi250").previews
    assert taken.sensitivity == MOST_SENSITIVITY


OUTSIDE = """#include <hip/hip_runtime.h>
__global__ void next(const float* in, float* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i + 1];
}
int main() {
  float *in, *out;
  if (hipMalloc(&in, 4096 * 4) || hipMalloc(&out, 4096 * 4) || hipMemset(in, 0, 4096 * 4)) return 1;
  for (int k = 0; k < 3; ++k) next<<<16, 256>>>(in, out);
  return hipDeviceSynchronize();
}
"""


def test_an_access_to_memory_around_an_array_goes_on_as_on_hardware() -> None:
    """So that later launches find in the caches what it left, in buffers of their own sizes."""
    needs.simulator()
    (preview,) = preview_program(OUTSIDE, device_code(OUTSIDE, "gfx942", "-O3"), "mi300x").previews
    assert preview.by_time is not None and not preview.guessed and not preview.diverged
    first, later = preview.by_time
    assert later.duration_ns < first.duration_ns - 100
