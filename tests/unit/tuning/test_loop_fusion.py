"""Loops of small launches by one work-group: which loops, and that one launch leaves the same memory."""

from __future__ import annotations

import pytest
from kernel_texts import COUNTING, PRINTING, declare_before_kernels

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.one_group import find_launch_loops
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

HEAD = """#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
#define CHECK(call) do { if ((call) != hipSuccess) std::exit(1); } while (0)
constexpr int kBlock = 64;
"""
MAIN = """
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 300;
  std::vector<int> host(2 * n + 64);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 11;
  int *rows[3], *a, *b;
  const size_t bytes = host.size() * 4;
  CHECK(hipMalloc(&a, bytes));
  CHECK(hipMalloc(&b, bytes));
  for (int** row : {&rows[0], &rows[1], &rows[2]}) {
    CHECK(hipMalloc(row, bytes));
    CHECK(hipMemset(*row, 0, bytes));
  }
  CHECK(hipMemcpy(a, host.data(), bytes, hipMemcpyHostToDevice));
  CHECK(hipMemset(b, 0, bytes));
LOOP
  CHECK(hipMemcpy(host.data(), RESULT, bytes, hipMemcpyDeviceToHost));
  std::printf("%d %d\\n", host[1], host[n - 1]);
  return 0;
}
"""
FUNCTIONS = f"__shared__ int tile[64];\n{PRINTING}\n{COUNTING}"
# The diagonals of a table, of which each needs the two before.
DIAGONAL = """
__global__ void diagonal(const int* letters, const int* before2, const int* before, int* now, int d, int n) {
  const int i = max(1, d - n) + blockIdx.x * blockDim.x + threadIdx.x, j = d - i;
  if (i > n || j < 1) return;
  now[i] = max(before2[i - 1] + (letters[i - 1] == letters[j - 1] ? 3 : -1), max(before[i - 1], before[i]) - 2);
}
"""
DIAGONALS = """  for (int d = 2; d <= 2 * n; ++d) {
    const int cells = std::min(n, d - 1) - std::max(1, d - n) + 1;
    diagonal<<<(cells + kBlock - 1) / kBlock, kBlock>>>(a, rows[(d + 1) % 3], rows[(d + 2) % 3], rows[d % 3], d, n);
    CHECK(hipGetLastError());
  }"""
# Steps from one array to the other one, each after a launch that prepares it.
STEP = """
__global__ void fill_ends(int* x, int n, int number) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2) x[i * (n - 1)] = number;
}
__global__ void step(const int* __restrict__ x, int* __restrict__ y, int n, int weight) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i > 0 && i + 1 < n) y[i] = (x[i - 1] + weight * x[i] + x[i + 1]) & 255;
}
"""
STEPS = """  for (int k = 0; k < 7; k++) {
    fill_ends<<<1, 32>>>(a, n, k * 5);
    step<<<(n + 63) / 64, 64>>>(a, b, n, 2);
    std::swap(a, b);
  }"""


def write(kernels: str, loop: str, result: str) -> str:
    return HEAD + kernels + MAIN.replace("LOOP", loop).replace("RESULT", result)


TEXTS = {
    "diagonals": write(DIAGONAL, DIAGONALS, "rows[2]"),
    "steps": write(STEP, STEPS, "a"),
    "parts of swapped arrays": write(STEP, STEPS.replace("step<<<(n + 63) / 64, 64>>>(a, b, n, 2)",
                                                         "step<<<(n + 63) / 64, 64>>>(a + 1, b + 1, n - 1, 2)"), "a"),
}  # fmt: skip


def join(text: str) -> list[str]:
    return [fusion.text for fusion in find_launch_loops(read_program(text, "gfx942"))]


def test_the_loop_moves_into_a_kernel_of_one_group() -> None:
    (text,) = join(TEXTS["diagonals"])
    assert "__device__ void diagonal(const int* letters, const int* before2, const int* before, int* now, " in text
    assert "int d, int n, unsigned item) {\n  const int i = max(1, d - n) + item, j = d - i;" in text
    assert "  int* const rows[] = {rows_0, rows_1, rows_2};\n  for (int d = 2; d <= 2 * n; ++d) {\n" in text
    assert "    const int cells = std::min(n, d - 1) - std::max(1, d - n) + 1;\n" in text
    assert "item < ((cells + kBlock - 1) / kBlock) * kBlock; item += blockDim.x) {\n" in text
    launch = "  diagonal_passes<<<1, 1024>>>(n, rows[0], rows[1], rows[2], a);\n  CHECK(hipGetLastError());\n"
    assert launch in text.replace("(n, a, rows[0], rows[1], rows[2])", "(n, rows[0], rows[1], rows[2], a)")
    assert join(text) == [], "there is no loop of launches left"


def test_arrays_that_the_host_swaps_are_swapped_there_and_in_the_kernel() -> None:
    (text,) = join(TEXTS["steps"])
    assert "step_passes(int n, int* a, int* b) {" in text, "each pass may write either"
    assert "    auto* const other = a;\n    a = b;\n    b = other;\n  }\n" in text
    assert "  for (int k = 0; k < 7; k++) std::swap(a, b);\n" in text
    assert text.count("    __syncthreads();\n") == 2, "after each launch"


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
@pytest.mark.parametrize("name", TEXTS)
def test_it_leaves_the_same_memory_in_one_launch(name: str, arch: str) -> None:
    (changed,) = join(TEXTS[name])
    for arguments in ((), ("1",), ("1500",)):
        conditions = Conditions(arguments, exact=True, races=True)
        before, after = (run_trial(text, target_of(arch), conditions) for text in (TEXTS[name], changed))
        comparison = compare_trials(before, after)
        assert comparison.equal and comparison.exact, comparison.reason
        assert not after.races, after.races
        assert sum(kernel.dispatches for kernel in after.kernels) == 1


OTHERS = [
    ("diagonals", "    CHECK(hipGetLastError());\n", '    std::puts("pass");\n'),
    ("diagonals", "    CHECK(hipGetLastError());\n", "    if (d == 3) break;\n"),
    ("diagonals", "const int cells", "host[d] = 1;\n    const int cells"),
    ("diagonals", "const int cells = std::min(n, d - 1)", "const int cells = std::abs(d)"),
    ("diagonals", "(a, rows[(d + 1) % 3]", "(a + host[0] * d, rows[(d + 1) % 3]"),  # the host's memory
    ("diagonals", "  for (int d = 2;", "  int d;\n  for (d = 2;"),
    ("diagonals", "; ++d)", "; d += 1, ++host[0])"),
    ("diagonals", "  now[i] =", "  __shared__ int tile[64];\n  tile[0] = 0;\n  now[i] ="),
    ("diagonals", "j = d - i;", "j = d - i - threadIdx.x;"),
    ("diagonals", "+ blockIdx.x", "+ 2 * blockIdx.x"),
    ("diagonals", "kBlock, kBlock>>>", "kBlock, kBlock, 256>>>"),
    ("diagonals", "kBlock, kBlock>>>", "kBlock, dim3(kBlock, 2)>>>"),
    ("diagonals", "LAST", "  diagonal<<<1, 64>>>(a, rows[0], rows[1], rows[2], 2, n);\n"),  # a launch elsewhere
    ("diagonals", "  now[i] =", '  printf("%d", i);\n  now[i] ='),
    ("diagonals", "  now[i] =", "  note(i);\n  now[i] ="),
    ("diagonals", "  now[i] =", "  static int calls;\n  calls = i;\n  now[i] ="),
    ("diagonals", "  now[i] =", "  static __device__ int calls;\n  calls = i;\n  now[i] ="),
    ("diagonals", "  now[i] =", "  next();\n  now[i] ="),
    ("diagonals", "  now[i] =", "  tile[i % 64] = i;\n  now[i] ="),
    ("steps", "std::swap(a, b);", "std::swap(a, b); hipMemset(a, 0, 4);"),
]


@pytest.mark.parametrize(("name", "old", "new"), OTHERS)
def test_other_loops_stay(name: str, old: str, new: str) -> None:
    if old == "LAST":
        old, new = "  std::printf", f"{new}  std::printf"
    assert old in TEXTS[name]
    assert join(declare_before_kernels(TEXTS[name], FUNCTIONS).replace(old, new)) == []


def test_constants_of_a_function_are_no_static_variables() -> None:
    new = "  static constexpr int zero = 0;\n  now[i] = zero +"
    assert len(join(TEXTS["diagonals"].replace("  now[i] =", new))) == 1


@pytest.mark.parametrize(("kind", "joined"), [("int*&", 0), ("int*", 1)])
def test_loops_with_another_name_for_what_they_swap_stay(kind: str, joined: int) -> None:
    """The reference is the other array after each pass."""
    text = TEXTS["steps"].replace("fill_ends<<<1, 32>>>(a,", "fill_ends<<<1, 32>>>(current,")
    assert len(join(text.replace("  for (int k", f"  {kind} current = a;\n  for (int k"))) == joined


@pytest.mark.parametrize("declared", ["int*& w = z;", "auto& [w, v] = z2;", "auto [w, v] = z2;"])
def test_loops_that_swap_references_stay(declared: str) -> None:
    """What they are names for is swapped, too."""
    text = TEXTS["steps"].replace("fill_ends<<<1, 32>>>(a,", "fill_ends<<<1, 32>>>(z,").replace("(a, b)", "(w, b)")
    text = text.replace("  for (int k", f"  int *z = a, *z2[2] = {{a, b}};\n  {declared}\n  for (int k")
    assert len(join(text.replace("(a, b, n, 2)", "(w, b, n, 2)"))) == ("&" not in declared)


@pytest.mark.parametrize(("kind", "joined"), [("float", 0), ("int", 1)])
def test_numbers_that_kernels_take_as_different_types_stay(kind: str, joined: int) -> None:
    text = TEXTS["steps"].replace("int n, int weight", f"int n, {kind} weight").replace("n, 2)", "n, weight)")
    text = text.replace("y[i] = (x[i - 1] + weight * x[i] + x[i + 1]) & 255", "y[i] = x[i - 1] + weight * x[i]")
    text = text.replace("(a, n, k * 5)", "(a, n, weight)")
    assert len(join(text.replace("  for (int k", f"  {kind} weight = 2.5f;\n  for (int k"))) == joined
