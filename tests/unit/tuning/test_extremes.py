"""Extremes that a group finds before it changes memory: when it is allowed, and that memory is the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import extremes, jam
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TEXT = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void find_range(const int* x, int* range, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicMin(&range[0], x[i]);
  atomicMax(range + 1, x[i]);
}
int main() {
  const int n = 5003;
  int host[n], range[2] = {1 << 30, -(1 << 30)}, *x, *r;
  for (int i = 0; i < n; ++i) host[i] = i * 7919 % 10007 - 5000;
  if (hipMalloc(&x, sizeof host) || hipMalloc(&r, sizeof range)) return 1;
  (void)hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice);
  (void)hipMemcpy(r, range, sizeof range, hipMemcpyHostToDevice);
  find_range<<<(n + 255) / 256, 256>>>(x, r, n);
  (void)hipMemcpy(range, r, sizeof range, hipMemcpyDeviceToHost);
  std::printf("%d %d\n", range[0], range[1]);
  return 0;
}
"""
LONG = TEXT.replace("int* range", "unsigned long long* range").replace(
    "int host[n], range[2]", "int host[n], *x; unsigned long long range[2]"
)
LONG = (
    LONG.replace("{1 << 30, -(1 << 30)}, *x, *r", "{1 << 30, 0}, *r")
    .replace("%d %d", "%llu %llu")
    .replace("- 5000", "+ 1")
)


def view_of(text: str) -> KernelView:
    program = read_program(text, "gfx942")
    return KernelView(program, program.kernels[0], TransformationPlan(), "atomics", (20, 1, 1), (256, 1, 1))


@pytest.mark.parametrize("text", [TEXT, LONG], ids=["int", "long"])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_a_group_changes_memory_once(text: str, number: int, arch: str) -> None:
    needs.simulator()
    view = view_of(text)
    plan = list(extremes.list_plans(view))[number]
    changed = emit_program(view.program, {"find_range": plan}, {"find_range": (256, 1, 1)})
    target, conditions = target_of(arch), Conditions(exact=True)
    before, after = run_trial(text, target, conditions), run_trial(changed, target, conditions)
    assert after.ok and compare_trials(before, after).exact
    counts = [run.kernels[0].counters["TCC_ATOMIC"] for run in (before, after)]
    assert 10 * counts[1] <= counts[0]


def test_work_items_that_are_executed_together_keep_their_extremes_apart() -> None:
    view = view_of(TEXT)
    plan = next(extremes.list_plans(view))
    jammed = next(
        iter(jam.TRANSFORMATION.list_plans(KernelView(view.program, view.kernel, plan, "", view.grid, view.block)))
    )
    assert jammed.extremes and jammed.jam
    text = emit_program(view.program, {"find_range": jammed}, {"find_range": (256, 1, 1)})
    assert "GroupExtremes<int, true, false>" in text
    assert text.count("take<0>(&range[0],") == text.count("take<1>(range + 1,") >= 3
    target, conditions = target_of("gfx942"), Conditions(exact=True)
    after = run_trial(text, target, conditions)
    assert after.ok and compare_trials(run_trial(TEXT, target, conditions), after).exact


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("atomicMax(range + 1, x[i])", "atomicMax(range + 1 + i % 2, x[i])"),  # addresses of work-items
        ("atomicMax(range + 1, x[i])", "atomicAdd(range + 1, x[i])"),
        ("atomicMax(range + 1, x[i])", "range[2] = atomicMax(range + 1, x[i])"),  # a result that is used
        ("atomicMax(range + 1, x[i])", "if (range[1] < 9) atomicMax(range + 1, x[i])"),  # a number that is looked at
        ("(x, r, n)", "(r, r, n)"),
        ("int* range, int n) {", "int* others, int n) {\n  float* range = reinterpret_cast<float*>(others);"),
    ],
)
def test_kernels_that_need_more_than_extremes_are_left_alone(old: str, new: str) -> None:
    view = view_of(TEXT.replace(old, new))
    assert list(extremes.list_plans(view_of(TEXT))) and list(extremes.list_plans(view)) == []
