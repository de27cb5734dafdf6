"""Other orders of work-groups as the last moves of a search."""

from __future__ import annotations

import functools

import needs
import pytest

from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, measurement_of_trial
from hipsynth.tuning.optimize.group_order import GroupOrders, count_tries, list_mappings, worthwhile_kernels
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
# Eight groups share each row of a table: dealt out over the chiplets, every one of them fetches every row.
PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void k(const float* in, float* out, int n) {
  __shared__ float sums[64];
  const int g = blockIdx.y * gridDim.x + blockIdx.x, row = g / 8;
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += in[row * 8192 + i * 64 + threadIdx.x];
  sums[threadIdx.x] = sum;
  __syncthreads();
  out[g * 64 + threadIdx.x] = sums[63 - threadIdx.x] + g;
}
int main(int argc, char** argv) {
  const int groups = argc > 1 ? std::atoi(argv[1]) : 4096, n = groups * 64;
  std::vector<float> host(n * 16), back(n);
  for (int i = 0; i < n * 16; ++i) host[i] = 0.25f * (i % 1000);
  float *in, *out;
  if (hipMalloc(&in, n * 64) || hipMalloc(&out, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 64, hipMemcpyHostToDevice);
  k<<<dim3(groups / 8, 8), 64>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""


@functools.cache
def measure(text: str) -> CandidateMeasurement:
    needs.simulator()
    needs.compiler()
    return measurement_of_trial(run_trial(text, TARGET))


def orders(text: str = PROGRAM) -> tuple[GroupOrders, SearchState]:
    found = measure(text)
    return GroupOrders(TARGET, count_tries(text, found, TARGET)), SearchState({}, text, found)


def test_groups_that_share_lines_meet_on_one_chiplet() -> None:
    moves, state = orders()
    move, text = next(moves.list_moves(state))
    assert move.transformation == "swizzle" and move.kernel == "k" and "spread(8)" in move.why
    assert "swizzled_k().x" in text
    assert measure(text).duration_ns < 0.95 * state.found.duration_ns
    exact = [run_trial(one, TARGET, Conditions(("128",), exact=True)) for one in (PROGRAM, text)]
    assert compare_trials(*exact).exact


def test_what_does_not_depend_on_the_order_is_tried_once() -> None:
    moves, state = orders()
    moves.tries = 4
    tried = moves.list_moves(state)
    move, _ = next(tried)
    moves.note(move, state.found, state.found)
    assert list(tried) == []


def test_tries_are_limited() -> None:
    moves, state = orders()
    assert moves.tries == 2
    assert len(list(moves.list_moves(state))) == 2 and moves.tries == 0


def test_groups_that_wait_for_each_other_keep_their_order() -> None:
    found = measure(PROGRAM)
    assert count_tries(PROGRAM.replace("float* out", "volatile float* out"), found, TARGET) == 0
    assert count_tries(PROGRAM, found, target_of("gfx90a")) == 0, "one chiplet has one order"


def test_mappings_are_proven_for_every_grid() -> None:
    assert [len(list_mappings(grid, 8)) for grid in ((64, 64, 1), (4096, 1, 1), (8, 1, 1))] == [3, 2, 0]


def test_only_kernels_that_wait_for_memory_are_reordered() -> None:
    found = measure(PROGRAM)
    assert [kernel.name for kernel in worthwhile_kernels(found)] == ["k"]


@pytest.mark.full
def test_a_search_ends_with_them() -> None:
    measure(PROGRAM)
    result = optimize_program(OptimizeRequest(PROGRAM, TARGET, 12.0, clock_s=300.0))
    assert [step.transformation for step in result.steps][-1] == "swizzle"
    assert result.status == "improved" and result.verification.passed
    assert result.steps[result.step].transformation == "swizzle"
