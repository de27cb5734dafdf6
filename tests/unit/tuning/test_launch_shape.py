"""What the source shows of a launch's shape: along which axes it counts one, and which names are numbers."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.launch_shape import has_one_along, is_dim3_variable, is_number, read_shape_component

TEXT = """#include <hip/hip_runtime.h>
#define ROWS 4
#define SHAPE dim3(8, 4)
struct Counts { int rows; dim3 shape; };
__global__ void f(float* x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }
int count(int n) { return (n + 255) / 256; }
dim3 spread(int n) { return dim3(n, 4); }
void change(dim3& shape) { shape.y = 4; }
void g(float* x, int n, const dim3 passed) {
  const dim3 flat((n + 255) / 256), tall(8, 4), one(8, 1, 1), same{flat};
  auto guessed = dim3(8, 4);
  const auto groups = (n + 255) / 256;
  dim3 late(8), lent(8), given = dim3(n), empty;
  late.y = 4;
  change(lent);
  Counts counts{4, dim3(8, 4)};
  f<<<(n + 255) / 256, 256>>>(x);
}
int main() { return 0; }
"""


@pytest.fixture(scope="module")
def program() -> ParsedProgram:
    return read_program(TEXT, "gfx942")


def test_shapes_of_one_axis(program: ParsedProgram) -> None:
    flat = ["(n + 255) / 256", "count(n)", "groups", "256u", "ROWS", "counts.rows", "flat", "one", "given", "same"]
    flat += ["dim3(n)", "dim3(n, 1u)", "std::min<unsigned>(n, 9)", "(unsigned)n", "static_cast<unsigned>(n)"]
    others = ["spread(n)", "guessed", "SHAPE", "counts.shape", "tall", "late", "lent", "passed", "empty", "dim3(n, n)"]
    assert [shape for shape in flat if not has_one_along(program, shape, 1)] == []
    assert [shape for shape in others if has_one_along(program, shape, 1)] == []
    assert (
        has_one_along(program, "tall", 2) and has_one_along(program, "1", 0) and not has_one_along(program, "flat", 0)
    )


def test_a_component_of_what_may_be_no_number_is_written_as_one_of_a_dim3(program: ParsedProgram) -> None:
    shapes = ["n", "groups", "tall", "guessed", "SHAPE", "counts.shape", "counts.rows"]
    assert [read_shape_component(program, shape, 1) for shape in shapes] == [
        "1", "1", "tall.y", "dim3(guessed).y", "dim3(SHAPE).y", "dim3(counts.shape).y", "1"
    ]  # fmt: skip


def test_a_shape_is_a_dim3_only_if_it_is_declared_so(program: ParsedProgram) -> None:
    names = ("flat", "one", "passed", "groups", "n", "256", "f")
    assert [name for name in names if is_dim3_variable(program, name)] == ["flat", "one", "passed"]
    assert [name for name in names if is_number(program, name)] == ["groups", "n"]
