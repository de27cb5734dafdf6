"""What the kernels of joined launches begin with stands once, where it is the same."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void row_max(const float* x, float* top, int rows, int columns) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float v = x[row * columns];
  for (int i = 1; i < columns; ++i) v = fmaxf(v, x[row * columns + i]);
  top[row] = v;
}
// Distances from the largest element.
__global__ void row_sum(const float* x, const float* top, float* sum, int n, int columns) {
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < n) {
    float v = 0;
    for (int i = 0; i < columns; ++i) v += top[r] - x[r * columns + i];
    sum[r] = v;
  }
}
int main() {
  const int rows = 100, columns = 33;
  std::vector<float> host(rows * columns);
  for (int i = 0; i < rows * columns; ++i) host[i] = i * 7 % 37;
  float *x, *top, *sum;
  if (hipMalloc(&x, 4 * rows * columns) || hipMalloc(&top, 4 * rows) || hipMalloc(&sum, 4 * rows)) return 1;
  (void)hipMemcpy(x, host.data(), 4 * rows * columns, hipMemcpyHostToDevice);
  row_max<<<2, 64>>>(x, top, rows, columns);
  row_sum<<<2, 64>>>(x, top, sum, rows, columns);
  (void)hipMemcpy(host.data(), sum, 4 * rows, hipMemcpyDeviceToHost);
  std::printf("%g\\n", host[36]);
  return 0;
}
"""
JOINED = """__global__ void row_max_row_sum(const float* x, float* top, int rows, int columns, float* sum) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  // row_max
  float v = x[row * columns];
  for (int i = 1; i < columns; ++i) v = fmaxf(v, x[row * columns + i]);
  top[row] = v;
  // Distances from the largest element.
  float v_2 = 0;
  for (int i = 0; i < columns; ++i) v_2 += top[row] - x[row * columns + i];
  sum[row] = v_2;
}
"""


def join_rows(text: str) -> Fusion:
    """The one fusion of the program."""
    (fusion,) = (each for each in find_fusions(read_program(text, "gfx942")) if not each.one_group)
    return fusion


def test_a_number_and_its_bound_stand_once_whatever_they_are_called() -> None:
    assert JOINED in join_rows(TEXT).text


def test_a_condition_around_the_first_kernel_is_one_around_both() -> None:
    text = TEXT.replace("  if (row >= rows) return;\n", "  if (row < rows) {\n").replace(
        "  top[row] = v;", "  top[row] = v; }"
    )
    joined = join_rows(text).text
    assert joined.count("if (row < rows) {") == 1 and "rows) return" not in joined
    assert "    // Distances from the largest element.\n    float v_2 = 0;\n" in joined


def test_the_joined_program_leaves_the_same_memory() -> None:
    target, conditions = target_of("gfx942"), Conditions(exact=True)
    before, after = run_trial(TEXT, target, conditions), run_trial(join_rows(TEXT).text, target, conditions)
    assert after.ok and compare_trials(before, after).exact


@pytest.mark.parametrize(
    ("old", "new"),
    [("(r < n)", "(r < n - 1)"), ("(r < n)", "(r <= n)"), ("    sum[r] = v;", "    sum[r] = v; n = 0;")],
)
def test_bounds_that_differ_or_change_stay_with_their_kernels(old: str, new: str) -> None:
    joined = join_rows(TEXT.replace(old, new)).text
    assert joined.count("int row = ") == 1
    assert "  if (!(row >= rows)) {\n    float v = x[row * columns];\n" in joined
    bound = "< n)" if "n = 0" in new else "<= rows)" if "<=" in new else "< rows - 1)"
    assert f"  if (row {bound}" in joined, "a parameter that a kernel changes is its own"


def test_a_variable_of_the_same_name_inside_keeps_kernels_apart() -> None:
    text = TEXT.replace("for (int i = 0; i < columns; ++i) v += top[r] - x[r * columns + i];",
                        "for (int row = 0; row < columns; ++row) v += top[r] * row;")  # fmt: skip
    joined = join_rows(text).text
    assert "  {  // row_max\n" in joined and "  {  // row_sum\n" in joined
    assert "for (int row = 0; row < columns; ++row) v += top[r] * row;" in joined
