"""The model of a program: what it says of kernels that are written in other ways."""

from __future__ import annotations

from hipsynth.tuning.optimize.program_model import read_program, spell_coordinates

OLD = """#include <hip/hip_runtime.h>
// hipThreadIdx_x counts lanes.
__global__ void scale(float* x, int n) {
  int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
  for (; i < n; i += hipGridDim_x * hipBlockDim_x) x[i] *= 2;
}
int main() { hipLaunchKernelGGL(scale, dim3(4), dim3(64), 0, 0, nullptr, 0); }
"""


def test_first_names_of_coordinates_are_those_of_today() -> None:
    program = read_program(OLD, "gfx942")
    assert "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n" in program.text
    assert "// hipThreadIdx_x counts lanes.\n" in program.text
    assert program.kernels[0].independent and program.text == program.unit.text.decode()


def test_names_that_a_program_defines_itself_stay() -> None:
    text = (
        "#define hipThreadIdx_x (63 - threadIdx.x)\n__global__ void k(int* x) { x[hipThreadIdx_x] = hipThreadIdx_y; }\n"
    )
    assert spell_coordinates(text) == text
