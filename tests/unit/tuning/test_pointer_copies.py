"""Arguments of launches that may be one array, by what the host code copies, and the moves that this rules out."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.kernel_fusion import find_fusions
from hipsynth.tuning.optimize.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.program_model import read_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan

TEXT = """#include <hip/hip_runtime.h>
#include <utility>
#include <vector>
struct Buffers { float *in, *out; };
__global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
__global__ void shift(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i] + 1;
}
void run(float* first, float* second, int same, int n) {
  float *a, *b, *c, *d;
  if (hipMalloc(&a, 4 * n) || hipMalloc(&b, 4 * n) || hipMalloc(&c, 4 * n) || hipMalloc(&d, 4 * n)) return;
  Buffers buffers{a, b};
  float* slots[2] = {a, b};
  DECLARED
  scale<<<(n + 255) / 256, 256>>>(P, Q, n);
  shift<<<(n + 255) / 256, 256>>>(R, d, n);
}
int main() { return 0; }
"""


def write_text(declared: str, passed: str) -> str:
    text = TEXT.replace("DECLARED", declared)
    for name, argument in zip("PQR", passed.split(), strict=True):
        text = text.replace(f"({name}, ", f"({argument}, ").replace(f", {name}, n)", f", {argument}, n)")
    return text


@pytest.mark.parametrize(
    ("declared", "passed"),
    [
        ("float* w = same ? a : b;", "a w c"),
        ("float* w = b; if (same) w = a;", "a w c"),
        ("float* w{a};", "a w c"),
        ("auto w = a + n / 2;", "a w c"),
        ("float* w = &a[n];", "a w c"),
        ("auto* w = reinterpret_cast<float*>(same ? a : b);", "a w c"),
        ("float* v = (float*)a; float* w = n > 7 ? (same ? v : c) : b;", "a w c"),
        ("float* w = same ? buffers.in : b;", "buffers.in w c"),
    ],
)
def test_copies_of_pointers_are_not_distinct(declared: str, passed: str) -> None:
    program = read_program(write_text(declared, passed), "gfx942")
    assert not has_distinct_pointers(program, program.kernels[0])
    plan = TransformationPlan(shape=(256, 1, 1), coarsen=2, jam=True, restrict=True)
    assert "__restrict__" not in emit_program(program, {"scale": plan}, {"scale": (256, 1, 1)})


@pytest.mark.parametrize(
    ("declared", "passed"),
    [
        ("", "a b c"),
        ("", "first second c"),
        ("", "buffers.in buffers.out c"),
        ("", "slots[0] slots[1] c"),
        ("float *w = a, *v = b; std::swap(w, v);", "w v c"),
        ("float *w = a, *v = b; float* t = w; w = v; v = t;", "w v c"),
        ("float* w = same ? a : b; float* v = same ? b : a;", "w v c"),
        ("float* w = a + n; float* v = b + n;", "w v c"),
        ("std::vector<float> w(n), v(n);", "w.data() v.data() c"),
    ],
)
def test_other_pointers_stay_distinct(declared: str, passed: str) -> None:
    program = read_program(write_text(declared, passed), "gfx942")
    assert has_distinct_pointers(program, program.kernels[0])


@pytest.mark.parametrize(("declared", "joined"), [("float* w = same ? b : c;", False), ("float* w = c;", True)])
def test_launches_whose_arrays_may_be_one_are_not_joined(declared: str, joined: bool) -> None:
    program = read_program(write_text(declared, "a b w"), "gfx942")
    assert bool(list(find_fusions(program))) == joined
