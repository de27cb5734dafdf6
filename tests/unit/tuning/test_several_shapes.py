"""Kernels whose launches have several grids or groups: which changes are tried, and that they do the same."""

from __future__ import annotations

from dataclasses import replace

import needs
import pytest

from hipsynth.core.reasons import Reason
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.candidates import SearchState, make_candidates
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, measurement_of_trial
from hipsynth.tuning.optimize.launch_shape import read_numbers
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.trial import Conditions, run_trial, target_of

# Halves an array again and again; the last launches have groups of another size.
TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <utility>
#include <vector>
__global__ void fold(const float* in, float* out, int* counts) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, half = gridDim.x * blockDim.x;
  out[i] = in[i] * 0.5f + in[i + half] * 0.25f;
  counts[i] += 1;
}
int main() {
  const int n = 1 << 14;
  std::vector<float> host(n);
  std::vector<int> times(n);
  for (int i = 0; i < n; ++i) host[i] = float(i % 17);
  float *a, *b;
  int* counts;
  if (hipMalloc(&a, n * 4) || hipMalloc(&b, n * 4) || hipMalloc(&counts, n * 4)) return 1;
  (void)hipMemset(counts, 0, n * 4);
  (void)hipMemcpy(a, host.data(), n * 4, hipMemcpyHostToDevice);
  int half = n / 2;
  for (; half >= 512; half /= 2) {
    fold<<<half / 256, 256>>>(a, b, counts);
    std::swap(a, b);
  }
  for (; half >= 64; half /= 2) {
    fold<<<half / 64, LAST>>>(a, b, counts);
    std::swap(a, b);
  }
  (void)hipMemcpy(host.data(), a, n * 4, hipMemcpyDeviceToHost);
  (void)hipMemcpy(times.data(), counts, n * 4, hipMemcpyDeviceToHost);
  std::printf("%g %d %d\\n", host[0], times[0], times[300]);
  return 0;
}
"""
ONE_BLOCK = TEXT.replace("half >= 64", "half >= 256").replace("half / 64, LAST", "half / 256, 256")


def measure(text: str) -> CandidateMeasurement:
    return measurement_of_trial(run_trial(text, target_of("gfx942"), Conditions(exact=True)))


def test_such_kernels_have_moves() -> None:
    found = measure(ONE_BLOCK)
    run = found.of("fold")
    assert run is not None and not run.same_shape and run.same_block and run.grid == (32, 1, 1)
    state = SearchState({}, ONE_BLOCK, found)
    moves = {move.transformation for move, _ in make_candidates(read_program(ONE_BLOCK, "gfx942"), state, state, ())}
    assert {"vectorise", "coarsen", "group_shape", "hints"} <= moves


def test_the_slowest_shape_stands_for_all() -> None:
    trial = run_trial(TEXT.replace("LAST", "64"), target_of("gfx942"), Conditions(exact=True))
    slow = tuple(replace(each, dispatches=1000 if each.grid == (2, 1, 1) else 1) for each in trial.shapes)
    run = measurement_of_trial(replace(trial, shapes=slow)).of("fold")
    assert run is not None and (run.grid, run.same_block) == ((2, 1, 1), False)


@pytest.mark.parametrize("last", ["64", "dim3(64)", "dim3(8 * 8, 1)"])
def test_launches_with_groups_of_another_size_stay(last: str) -> None:
    """Their groups are written as numbers, too, as those are that the plan is for."""
    needs.simulator()
    needs.compiler()
    text = TEXT.replace("LAST", last)
    plan = TransformationPlan(shape=(64, 1, 1), coarsen=4)
    changed = emit_program(read_program(text, "gfx942"), {"fold": plan}, {"fold": (256, 1, 1)})
    before, after = (run_trial(each, target_of("gfx942"), Conditions(exact=True)) for each in (text, changed))
    assert before.ok and after.ok and before.outputs == after.outputs
    assert {kernel.name for kernel in after.kernels} == {"fold", "fold_tuned"}


@pytest.mark.parametrize(
    ("last", "bounds"), [("64", "__launch_bounds__(1024, 4)"), ("256", "__launch_bounds__(256, 4)")]
)
def test_bounds_allow_the_groups_of_all_launches(last: str, bounds: str) -> None:
    program = read_program(TEXT.replace("LAST", last), "gfx942")
    assert bounds in emit_program(program, {"fold": TransformationPlan(waves=4)}, {"fold": (256, 1, 1)})


@pytest.mark.parametrize(
    ("shape", "numbers"),
    [
        ("256", (256, 1, 1)),
        ("dim3(16, 4 * 4)", (16, 16, 1)),
        ("(8 * 8)", (64, 1, 1)),
        ("block", None),
        ("n / 2", None),
        ("0100", (64, 1, 1)),
        ("dim3(0x20u, 1 << 2)", (32, 4, 1)),
        ("dim3(1, 2, 3, 4)", None),
    ],
)
def test_numbers_of_shapes(shape: str, numbers: Shape | None) -> None:
    assert read_numbers(shape) == numbers


def test_the_answer_says_what_was_not_tried() -> None:
    needs.simulator()
    needs.compiler()
    result = optimize_program(OptimizeRequest(ONE_BLOCK, target_of("gfx942"), budget_s=0.1))
    assert result.limited == {"fold": Reason.SEVERAL_SHAPES}
