"""Temporal blocking: which loops take many passes in a launch, and that these leave the same memory."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.item_places import ItemPlaces, find_places
from hipsynth.tuning.optimize.kernel_fusion.temporal_blocking import find_temporal_blocks
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

MAIN = """#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
#define CHECK(call) do { if ((call) != hipSuccess) std::exit(1); } while (0)
#define WEIGHT 3
#define CORNER before2[i - 1]
constexpr int kBlock = 64;
struct Letters {
  const int* each;
  Letters(int* array) : each(array) {}
  __device__ int operator[](int i) const { return each[i]; }
};
KERNEL
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 700, passes = argc > 2 ? std::atoi(argv[2]) : 301;
  std::vector<TYPE> host(n + 64);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 11;
  TYPE *rows[3], *a, *b, *c;
  const size_t bytes = host.size() * sizeof(TYPE);
  CHECK(hipMalloc(&a, bytes));
  CHECK(hipMalloc(&b, bytes));
  CHECK(hipMalloc(&c, bytes + EXTRA));
  for (TYPE** row : {&rows[0], &rows[1], &rows[2]}) {
    CHECK(hipMalloc(row, bytes));
    CHECK(hipMemset(*row, 0, bytes));
  }
  CHECK(hipMemcpy(a, host.data(), bytes, hipMemcpyHostToDevice));
  CHECK(hipMemcpy(b, a, bytes, hipMemcpyDeviceToDevice));
  CHECK(hipMemset(c, 0, bytes));
LOOP
  CHECK(hipMemcpy(host.data(), RESULT, bytes, hipMemcpyDeviceToHost));
  std::printf("%d %d\\n", (int)host[1], (int)host[n - 1]);
  return 0;
}
"""


def write(kernel: str, loop: str, result: str, kind: str = "int", extra: str = "0") -> str:
    replaced = {"KERNEL": kernel, "LOOP": loop, "RESULT": result, "TYPE": kind, "EXTRA": extra}
    text = MAIN
    for word, new in replaced.items():
        text = text.replace(word, new)
    return text


# The diagonals of a table, of which each needs the two before; the best of each row so far lies in an array, too.
DIAGONAL = """
__global__ void diagonal(const int* letters, const int* before2, const int* before, int* now, int* best, int d, int n) {
  const int i = max(1, d - n) + blockIdx.x * blockDim.x + threadIdx.x, j = d - i;
  if (i > n || j < 1) return;
  const int score = before2[i - 1] + (letters[i - 1] == letters[j - 1] ? 3 : -1);
  now[i] = max(score, max(before[i - 1], before[i]) - 2);
  best[i] = max(best[i], now[i]);
}
"""
DIAGONALS = """  for (int d = 2; d <= 2 * n; ++d) {
    const int cells = std::min(n, d - 1) - std::max(1, d - n) + 1;
    diagonal<<<(cells + kBlock - 1) / kBlock, kBlock>>>(a, rows[(d + 1) % 3], rows[(d + 2) % 3], rows[d % 3], c, d, n);
    CHECK(hipGetLastError());
  }"""
# Steps from one array to the other one, with weights in a loop and a number that is converted for the kernel.
STEP = """
__global__ void smooth(const float* __restrict__ x, float* __restrict__ y, const float* weights, int n, float shift) {
  int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x);
  if (i < 2 || i + 2 >= n) return;
  float sum = shift / 2;
  for (int k = -2; k <= 2; k++) sum += x[i + k] * weights[k + 2] * 0.01f;
  y[i] = sum;
}
"""
STEPS = """  for (int t = 0; t < passes; t++) {
    smooth<<<(n + kBlock - 1) / kBlock, kBlock>>>(a, b, c, n, t);
    std::swap(a, b);
  }
  CHECK(hipDeviceSynchronize());"""
# Every second element of one array in each pass, from its neighbours, to the right of where the loop says.
RED_BLACK = """
__global__ void relax(double* x, unsigned int n, int pass, int begin) {
  const unsigned item = blockIdx.x * blockDim.x + threadIdx.x;
  const auto at = begin / 2 + item;
  if (at > 0 && at + 1 < n && (at + pass) % 2 == 0) x[at] = (x[at - 1] + WEIGHT * x[at] + x[at + 1]) / 5;
}
"""
RELAXATIONS = "  for (unsigned pass = 0; pass < passes; pass += 1) relax<<<n / kBlock, kBlock>>>(a, n, pass, 6);"
TEXTS = {
    "diagonals": write(DIAGONAL, DIAGONALS, "rows[2]"),
    "steps": write(STEP, STEPS, "a", "float"),
    "one array": write(RED_BLACK, RELAXATIONS, "a", "double"),
    "an array of another size": write(DIAGONAL, DIAGONALS, "rows[2]", extra="4"),
    "parts of one array": write(DIAGONAL, DIAGONALS, "rows[2]").replace(
        "  for (int d",
        "  CHECK(hipMalloc(&c, 2 * bytes));\n  CHECK(hipMemset(c, 0, 2 * bytes));\n"
        "  rows[1] = c + host.size();\n  for (int d",
    ),
}


def block(text: str) -> list[str]:
    return [fusion.text for fusion in find_temporal_blocks(read_program(text, "gfx942"))]


def places_of(text: str, *arrays: str) -> ItemPlaces:
    program = read_program(text, "gfx942")
    return find_places(Body(program, program.kernels[0]), frozenset(arrays))


def test_places_are_read_from_the_subscripts() -> None:
    diagonals = places_of(TEXTS["diagonals"], "before2", "before", "now", "best")
    assert (diagonals.base, diagonals.least, diagonals.largest) == ("max(1, d - n)", -1, 0)
    steps = places_of(TEXTS["steps"], "x", "y")
    assert (steps.base, steps.least, steps.largest, len(steps.subscripts)) == ("", -2, 2, 2)
    relaxations = places_of(TEXTS["one array"], "x")
    assert (relaxations.base, relaxations.least, relaxations.largest) == ("(begin / 2)", -1, 1)


def test_a_group_computes_its_halo_for_itself() -> None:
    (text,) = block(TEXTS["diagonals"])
    assert "  now[i - first] = max(score, max(before[i - 1 - first], before[i - first]) - 2);\n" in text
    assert "letters[i - 1] == letters[j - 1]" in text, "what no pass changes stays in memory"
    assert "  const int lane = threadIdx.x, first = blockIdx.x * 384 - 128, place = first + lane;\n" in text
    assert "    const unsigned item = place - max(1, d - n);\n    if (lane >= edge && item < " in text
    assert "for (int d = first_d; d < first_d + 128 && d <= 2 * n; ++d) {" in text
    assert "diagonal_item(a, rows[(d + 1) % 3], rows[(d + 2) % 3], rows[d % 3], c, d, n, item, first);" in text
    assert "DiagonalArrays arrays = {{rows[0], rows[1], rows[2], c}}, copies = arrays;" in text
    assert "  } else {\n    for (int d = 2; d <= 2 * n; ++d) {\n" in text, "the loop remains"
    assert block(text) == [], "which is not changed again"


def test_as_many_passes_as_keep_the_halo_small() -> None:
    (text,) = block(TEXTS["steps"])
    assert "for (int t = first_t; t < first_t + 32 && t < passes; ++t) {" in text
    assert "    if (lane >= 2 * edge && lane < 512 - 2 * edge && item < ((n + kBlock - 1) / kBlock) * kBlock) {" in text
    assert "  if (lane >= 64 && lane < 512 - 64 && place < size) {" in text
    assert "    for (int t = 0; t < passes; t++) std::swap(a, b);\n" in text


@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.one_in(3)
def test_it_leaves_the_same_memory(name: str, arch: str) -> None:
    (changed,) = block(TEXTS[name])
    for arguments in ((), ("90", "7"), ("1100", "64")):
        conditions = Conditions(arguments, exact=True, races=True)
        before, after = (run_trial(text, target_of(arch), conditions) for text in (TEXTS[name], changed))
        comparison = compare_trials(before, after)
        assert comparison.equal and comparison.exact, comparison.reason
        assert not after.races, after.races
        launches = [sum(kernel.dispatches for kernel in trial.kernels) for trial in (before, after)]
        assert (launches[0] == launches[1]) == (name in ("an array of another size", "parts of one array"))


OTHERS = [
    ("diagonals", "now[i] =", "now[i + 1] ="),  # two places
    ("diagonals", "now[i] =", "now[j] ="),  # the other way round
    ("diagonals", "before2[i - 1]", "before2[2 * i - 1]"),
    ("diagonals", "before2[i - 1]", "before2[letters[i]]"),
    ("diagonals", "before2[i - 1]", "before2[i - d]"),  # at a distance that is not known
    ("diagonals", "before2[i - 1]", "before2[i - 100]"),  # farther than a halo is worth
    ("diagonals", "before2[i - 1]", "*(before2 + i)"),
    ("diagonals", "  if (i > n", "  const int* also = before;\n  if (also[i] < 0 || i > n"),
    ("diagonals", "best[i] = max(best[i], now[i]);", "atomicMax(&best[i], now[i]);"),
    ("diagonals", "best[i] = max(best[i], now[i]);", "best[0] = 1;"),
    ("diagonals", "  if (i > n", "  short cut = i;\n  now[cut] = 1;\n  if (i > n"),  # another place where it wraps
    ("diagonals", "int d, int n)", "long d, int n)"),  # a place that wraps otherwise than unsigned numbers
    ("diagonals", "score = before2[i - 1]", "score = CORNER"),
    ("diagonals", "++d)", "d += 2)"),
    ("diagonals", "int d = 2; d <= 2 * n; ++d", "int d = 2 * n; d >= 2; --d"),
    ("diagonals", "rows[d % 3], c,", "rows[d % 3], c + 1,"),  # a part of an array
    ("diagonals", "CHECK(hipGetLastError());", "diagonal<<<1, 64>>>(a, rows[0], rows[1], rows[2], c, d, n);"),
    ("diagonals", "CHECK(hipGetLastError());", 'std::puts("pass");'),
    ("diagonals", "const int* letters", "const Letters letters"),  # which may be another array by another name
    ("steps", "k <= 2;", "k <= n;"),
    ("steps", "y[i] = sum;", "y[i] = sum; __syncthreads();"),
    ("steps", "const float* weights", "float* weights"),
]


@pytest.mark.parametrize(("name", "old", "new"), OTHERS)
def test_other_loops_stay(name: str, old: str, new: str) -> None:
    assert old in TEXTS[name]
    changed = TEXTS[name].replace(old, new)
    if old == "const float* weights":  # which is written then, at another place
        changed = changed.replace("  y[i] = sum;", "  y[i] = sum;\n  weights[0] = sum;")
    assert block(changed) == []
