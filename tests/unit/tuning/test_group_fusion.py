"""Joining launches of the same work-groups: when it is allowed, and that the joined program computes the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

ROWS = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
constexpr int kThreads = 64;
__device__ float sum_of_group(float v) {
  __shared__ float line[kThreads];
  line[threadIdx.x] = v;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) line[threadIdx.x] += line[threadIdx.x + half];
  }
  return line[0];
}
__global__ void sum_rows(const float* x, float* sums, int columns) {
  float sum = 0;
  for (int c = threadIdx.x; c < columns; c += kThreads) sum += x[blockIdx.x * columns + c];
  sum = sum_of_group(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// Takes the mean of each row
// from its elements.
__global__ void centre_rows(const float* x, const float* sums, float* y, int n) {
  const int row = blockIdx.x;
  for (int i = threadIdx.x; i < n; i += kThreads) {
    // the mean is the same for all
    y[row * n + i] = x[row * n + i] - sums[row] / n;
  }
}
__global__ void square_rows(float* y, float* squares, int width) {
  float sum = 0;
  for (unsigned c = threadIdx.x; c < width; c += kThreads) {
    const int at = blockIdx.x * width + c;
    y[at] *= 0.5f;
    sum += y[at] * y[at];
  }
  sum = sum_of_group(sum);
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}
int main() {
  const int rows = 37, columns = 150, count = rows * columns;
  std::vector<float> host(count), back(rows);
  for (int i = 0; i < count; ++i) host[i] = i % 41 + i % 7;
  float *x, *y, *sums, *squares;
  if (hipMalloc(&x, 4 * count) || hipMalloc(&y, 4 * count) || hipMalloc(&sums, 4 * rows)) return 1;
  if (hipMalloc(&squares, 4 * rows)) return 1;
  (void)hipMemcpy(x, host.data(), 4 * count, hipMemcpyHostToDevice);
  sum_rows<<<rows, kThreads>>>(x, sums, columns);
  centre_rows<<<rows, kThreads>>>(x, sums, y, columns);
  square_rows<<<rows, kThreads>>>(y, squares, columns);
  (void)hipMemcpy(host.data(), y, 4 * count, hipMemcpyDeviceToHost);
  (void)hipMemcpy(back.data(), squares, 4 * rows, hipMemcpyDeviceToHost);
  std::printf("%g %g\\n", host[36], back[3]);
  return 0;
}
"""


def list_joined(text: str) -> list[Fusion]:
    return [fusion for fusion in find_fusions(read_program(text, "gfx942")) if not fusion.one_group]


def test_launches_with_a_group_for_each_row_are_joined() -> None:
    (fusion,) = list_joined(ROWS)
    assert fusion.kernels == ("sum_rows", "centre_rows", "square_rows")
    assert f"{fusion.name}<<<rows, kThreads>>>(x, sums, columns, y, squares);" in fusion.text
    assert fusion.text.count("\n  __syncthreads();\n  {  // ") == 2
    assert "  {  // centre_rows\n    // Takes the mean of each row\n    // from its elements.\n" in fusion.text


def test_kernels_that_nothing_else_uses_are_gone() -> None:
    (fusion,) = list_joined(ROWS)
    assert fusion.text.count("__global__") == 1 and "\n\n\n" not in fusion.text
    again = ROWS.replace("  return 0;", "  sum_rows<<<rows, kThreads>>>(x, sums, columns);\n  return 0;")
    (fusion,) = list_joined(again)
    assert "__global__ void sum_rows(" in fusion.text and "void centre_rows(" not in fusion.text


def test_statements_keep_their_indentation() -> None:
    (fusion,) = list_joined(ROWS)
    assert "\n    for (int i = threadIdx.x; i < columns; i += kThreads) {\n      // the mean" in fusion.text


def test_the_joined_program_leaves_the_same_memory_and_does_not_race() -> None:
    target, conditions = target_of("gfx942"), Conditions(exact=True)
    (fusion,) = list_joined(ROWS)
    before, after = run_trial(ROWS, target, conditions), run_trial(fusion.text, target, conditions)
    comparison = compare_trials(before, after)
    assert after.ok and comparison.equal and comparison.exact, comparison.reason
    assert [sum(k.dispatches for k in trial.kernels) for trial in (before, after)] == [3, 1]
    assert not run_trial(fusion.text, target, replace(conditions, races=True)).races


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- sums[row] / n", "- sums[(row + 1) % gridDim.x] / n"),  # what another group left
        ("- sums[row] / n", "- sums[threadIdx.x % 37] / n"),
        ("i < n; i += kThreads", "i < n + 1; i += kThreads"),  # beyond the row
        ("i < n; i += kThreads", "i <= n; i += kThreads"),
        ("int i = threadIdx.x;", "int i = threadIdx.x - 1;"),
        ("i += kThreads) {", "i += kThreads) { if (i == 7) i -= 8;"),
        ("const int row = blockIdx.x;", "const int row = blockIdx.x / 2;"),
        ("if (threadIdx.x == 0) sums[blockIdx.x] = sum;", "if (threadIdx.x == 0) atomicAdd(&sums[blockIdx.x], sum);"),
        ("centre_rows<<<rows, kThreads>>>", "centre_rows<<<rows, 2 * kThreads>>>"),
        ("  centre_rows<<<", "  (void)hipMemset(y, 0, 8);\n  centre_rows<<<"),
        ("(x, sums, y, columns)", "(x, sums, y, columns / 2)"),
        ("const int row = blockIdx.x;", "const int row = blockIdx.x; __threadfence();"),
    ],
)
def test_launches_that_need_what_another_group_did_stay_apart(old: str, new: str) -> None:
    text = ROWS.replace(old, new)
    assert text != ROWS
    assert all(len(fusion.kernels) < 3 for fusion in list_joined(text))


def test_a_group_that_ends_early_is_not_joined_where_others_wait() -> None:
    early = ROWS.replace(
        "  float sum = 0;\n  for (int c", "  if (threadIdx.x > 40) return;\n  float sum = 0;\n  for (int c"
    )
    assert early != ROWS and all("sum_rows" not in fusion.kernels for fusion in list_joined(early))
