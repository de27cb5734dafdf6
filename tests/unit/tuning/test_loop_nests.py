"""Nests of loops whose iterations lanes share as those of one loop."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

NEST = """for (int i = 0; i < n; i++) for (int j = 0; j < rows; ++j) {
    for (int k = 0; k < width; k += 1) sum += x[((i * channels + c) * rows + j) * width + k];
  }"""
TEXT = (
    """#include <hip/hip_runtime.h>
#include <vector>
__global__ void sums(const float* x, float* out, int n, int channels, int rows, int width) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  float sum = 1;
  """
    + NEST
    + """
  out[c] = sum;
}
int main() {
  const int n = 3, channels = 21, rows = 5, width = 7;
  std::vector<float> host(n * channels * rows * width);
  for (size_t i = 0; i < host.size(); ++i) host[i] = i * 29 % 101;
  float *x, *out;
  if (hipMalloc(&x, host.size() * 4) || hipMalloc(&out, channels * 4)) return 1;
  (void)hipMemcpy(x, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  sums<<<1, 64>>>(x, out, n, channels, rows, width);
  return hipMemcpy(host.data(), out, channels * 4, hipMemcpyDeviceToHost) != hipSuccess;
}
"""
)


def split_program(text: str, lanes: int = 16) -> str:
    plan = TransformationPlan(shape=(max(256, lanes), 1, 1), split=lanes, restrict=True)
    return emit_program(read_program(text, "gfx942"), {"sums": plan}, {"sums": (64, 1, 1)})


def test_lanes_share_the_iterations_of_a_nest() -> None:
    text = split_program(TEXT)
    assert (
        "const unsigned i_count = n > 0 ? n : 0, j_count = rows > 0 ? rows : 0, k_count = width > 0 ? width : 0;"
        in text
    )
    assert "for (unsigned i_j_k = lane_part; i_j_k < i_count * j_count * k_count; i_j_k += 16) {" in text
    assert "const int j = i_j_k / k_count % j_count;" in text and "for (int k" not in text


@pytest.mark.parametrize("lanes", [4, 64, 256])
@pytest.mark.parametrize("size", ["n = 3", "n = 0", "n = -2"])
@pytest.mark.one_in(3)
def test_a_program_whose_nest_is_shared_computes_the_same(lanes: int, size: str) -> None:
    needs.simulator()
    text = TEXT.replace("(x, out, n,", "(x, out, count,").replace(
        "  const int n = 3", f"  const int count = {size[4:]}, n = 3"
    )
    changed = split_program(text, lanes)
    target, conditions = target_of("gfx942"), Conditions(exact=True)
    before, after = run_trial(text, target, conditions), run_trial(changed, target, conditions)
    assert "i_j_k" in changed and after.ok
    assert compare_trials(before, after, Tolerance("float", 1e-6, "sums in another order")).equal


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k < width", "k < j"),  # a triangle
        ("int k = 0", "int k = 1"),
        ("sum += x[", "if (k == 3) break; else sum += x["),
        ("    for (int k", "    // along a row\n    for (int k"),
        ("    for (int k", "    #pragma unroll\n    for (int k"),
    ],
)
def test_what_is_no_nest_of_counting_loops_is_shared_without_its_last_level(old: str, new: str) -> None:
    text = TEXT.replace(old, new).replace("    #pragma unroll", "#pragma unroll")
    changed = split_program(text)
    assert text != TEXT and "i_j_k" not in changed and "unsigned i_j = lane_part" in changed


def test_lanes_follow_the_outer_variable_where_that_moves_along_memory() -> None:
    text = TEXT.replace("+ j) * width + k]", "+ j) * width + k * n + i]")
    assert text != TEXT and "int i = static_cast<decltype(i)>(lane_part); i < n; i += 16" in split_program(text)
