"""Passes of a loop: when groups keep to elements of their own, and that one launch of all passes does the same."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.loop_passes import find_passes
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

# Transforms of 128 numbers each, from one array to the other one, by groups of 32 work-items: two groups a transform.
TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <utility>
#include <vector>
constexpr int kPoints = 128;
__global__ void combine(const int* __restrict__ in, int* __restrict__ out, const int* weights, int span) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x, first = t / (kPoints / 2) * kPoints, i = t % (kPoints / 2);
  const int k = i % span, j = (i / span) * 2 * span + k;
  const int a = in[first + i], b = in[first + i + kPoints / 2] * weights[k];
  out[first + j] = a + b;
  out[first + j + span] = a - b;
}
int main(int argc, char** argv) {
  const int work = (argc > 1 ? 33 : 64) * 32, n = 2 * work + kPoints;
  std::vector<int> host(n);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 11;
  int *a, *b, *weights;
  if (hipMalloc(&a, n * 4) || hipMalloc(&b, n * 4) || hipMalloc(&weights, n * 4)) return 1;
  (void)hipMemset(b, 0, n * 4);
  (void)hipMemcpy(weights, host.data(), n * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(a, host.data(), n * 4, hipMemcpyHostToDevice);
  for (int span = 1; span < kPoints; span *= 2) {
    combine<<<work / 32, 32>>>(a, b, weights, span);
    std::swap(a, b);
  }
  (void)hipMemcpy(host.data(), a, n * 4, hipMemcpyDeviceToHost);
  std::printf("%d %d\\n", host[0], host[n / 2]);
  return 0;
}
"""
# The same in one array: each work-item changes a pair of its own.
IN_PLACE = TEXT.replace("(a, b, weights, span)", "(a, weights, span)").replace("    std::swap(a, b);\n", "")
HEAD, BODY = (
    "__global__ void combine(int* in, const int* weights, int span) {\n",
    """
  const int t = blockIdx.x * blockDim.x + threadIdx.x, at = 2 * t - (t & (span - 1));
  const int a = in[at], b = in[at + span] * weights[span];
  in[at] = a + b;
  in[at + span] = a - b;
""",
)
IN_PLACE = f"{IN_PLACE[: IN_PLACE.index('__global__')]}{HEAD}{BODY}{IN_PLACE[IN_PLACE.index('}' + chr(10)) :]}"


def fuse_passes(text: str) -> list[str]:
    """The changed programs: with elements in the LDS, and without that."""
    return [fusion.text for fusion in find_passes(read_program(text, "gfx942"))]


def test_one_launch_takes_all_passes() -> None:
    staged, plain = fuse_passes(TEXT)
    assert "void combine_passes(int* in, int* out, const int* weights) {" in plain
    assert "  for (int span = 1; span < kPoints; span *= 2) {\n    const int t" in plain
    assert "    __syncthreads();\n    auto* const other = in;\n    in = out;\n    out = other;\n  }" in plain
    launch = "    combine_passes<<<(work / 32) / 2, 64>>>(a, b, weights);\n    std::swap(a, b);\n"
    for changed in (staged, plain):
        assert f"  if ((work / 32) % 2 == 0) {{\n{launch}" in changed, (
            "after seven passes the other array has the result"
        )
        assert fuse_passes(changed) == [], "what remains for other grids is not joined again"


def test_elements_lie_in_the_lds_between_the_passes() -> None:
    staged = fuse_passes(TEXT)[0]
    assert "  __shared__ int tiles[2][128];\n" in staged
    assert "i += blockDim.x) tiles[0][i] = in[first_2 + i];\n  __syncthreads();\n" in staged
    assert "tiles[1][i] = " not in staged, "the first pass writes all of the other tile"
    guarded = TEXT.replace("  const int k", "  if (t < 0) return;\n  const int k")
    assert [changed for changed in fuse_passes(guarded) if "__shared__" in changed] == []
    assert len(fuse_passes(guarded)) == 1


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
@pytest.mark.parametrize("text", [TEXT, IN_PLACE], ids=["two arrays", "in place"])
def test_it_leaves_the_same_memory_in_one_launch(text: str, arch: str) -> None:
    assert len(fuse_passes(text)) == 2
    for arguments, launches in (((), 1), (("odd",), 7)):
        conditions = Conditions(arguments, exact=True, races=True)
        before, *others = (run_trial(one, target_of(arch), conditions) for one in (text, *fuse_passes(text)))
        for after in others:
            comparison = compare_trials(before, after)
            assert comparison.equal and comparison.exact, comparison.reason
            assert not after.races, after.races
            made = [sum(kernel.dispatches for kernel in trial.kernels) for trial in (before, after)]
            assert made == [7, launches], "an odd number of groups keeps its launches"


LOOP = "for (int span = 1; span < kPoints; span *= 2)"
OTHERS = [
    ("* weights[k]", "* weights[threadIdx.x]"),  # larger groups would have other numbers
    ("constexpr int kPoints = 128;", "constexpr int kPoints = 4096;"),  # more than a group has
    ("in[first + i]", "in[i]"),  # another group's
    ("out[first + j + span]", "out[first + j + span + 1]"),
    ("out[first + j]", "weights[k] ? out[0] : out[first + j]"),
    (LOOP, "for (int span = 1; span < n; span *= 2)"),  # no constant
    (LOOP, "for (int span = 1; span < kPoints; span += span)"),
    (LOOP, "for (int span = 64; span < kPoints; span *= 2)"),  # one pass
    (LOOP, "for (int span = 64; span > 0; span /= 0)"),
    (LOOP, "for (unsigned span = 64; span >= 1; span -= 63)"),  # it never is below 0
    ("std::swap(a, b);", "std::swap(a, weights);"),
    ("std::swap(a, b);", 'std::swap(a, b); std::puts("");'),
    ("out[first + j] = a + b;", "atomicAdd(&out[first + j], a + b);"),
    ("(a, b, weights, span)", "(a, b, weights, 2 * span)"),
    ("(a, b, weights, span)", "(a, b, b, span)"),
    ("<<<work / 32, 32>>>", "<<<span, 32>>>"),
    ("  const int k = i % span", "  weights += 2;\n  const int k = i % span"),  # in each pass again
]


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_other_passes_stay(old: str, new: str) -> None:
    assert old in TEXT
    assert fuse_passes(TEXT.replace(old, new)) == []


@pytest.mark.parametrize(("value", "changes"), [("argc > 9 ? a : weights", 0), ("weights", 2)])
def test_passes_whose_arrays_may_be_one_stay(value: str, changes: int) -> None:
    text = TEXT.replace("  for (int span", f"  int* used = {value};\n  for (int span").replace(
        "b, weights,", "b, used,"
    )
    assert len(fuse_passes(text)) == changes
