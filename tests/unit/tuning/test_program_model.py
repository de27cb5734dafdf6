"""The model of a program: what it says of kernels that are written in other ways."""

from __future__ import annotations

from hipsynth.tuning.optimize.analysis.program_constants import find_constants
from hipsynth.tuning.optimize.analysis.program_model import read_program, spell_coordinates

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


def test_work_items_that_look_at_each_other_depend_on_their_group() -> None:
    for kind in ("volatile float* x", "float* __restrict__ volatile x"):
        chain = OLD.replace("float* x", kind).replace("i < n;", "x[i] == 0;")
        assert read_program(chain, "gfx942").kernels[0].together == "it takes volatile pointers"
    inside = OLD.replace("x[i] *= 2", "while (((volatile float*)x)[i - 1] == 0) {}")
    assert read_program(inside, "gfx942").kernels[0].together == "it uses volatile"


def test_launches_in_macros_cannot_be_changed() -> None:
    assert read_program(OLD, "gfx942").kernels[0].fixed == ""
    text = OLD.replace("int main() {", "#define RUN scale<<<1, 64>>>(nullptr, 0)\nint main() { RUN;")
    assert read_program(text, "gfx942").kernels[0].fixed == "a macro names it"


def test_names_that_a_program_defines_itself_stay() -> None:
    text = (
        "#define hipThreadIdx_x (63 - threadIdx.x)\n__global__ void k(int* x) { x[hipThreadIdx_x] = hipThreadIdx_y; }\n"
    )
    assert spell_coordinates(text) == text


def test_constants_are_the_numbers_that_c_reads() -> None:
    macro = "#define MASK 0x7fu\nconst int kMany = 1'000;\n"
    program = read_program(f"{OLD}{macro}constexpr unsigned kAll = 0xffffffff;\nconstexpr int kTile = 010;", "gfx942")
    assert find_constants(program) == {"kTile": 8, "MASK": 127, "kMany": 1000}


def test_macros_are_numbers_as_a_whole_and_with_one_definition_alone() -> None:
    macros = """#define AREA (8*8)
#define BOTH (128 + \\
  128)  // two
#define SUM 8 + 8
#define LESS (-1)
#define CAST (int)8
#if 1
#define CHOICE 256
#define SAME 7
#else
#define CHOICE 64
#define SAME 7
#endif
#define CALL() 9
const int LESS_TOO = 5;
"""
    program = read_program(OLD + macros, "gfx942")
    assert find_constants(program) == {"AREA": 64, "BOTH": 256, "SAME": 7, "LESS_TOO": 5}


def test_constants_are_what_every_declaration_of_the_name_says() -> None:
    text = """struct C {};
int size, many = 3, last;
const int *first = 0, kept_too = 6;
void change(const C c) { size = 4; }
namespace a { const int one = 1, *two = 0; const int width = 8; const int height = 8; }
namespace b { const int width = sizeof(C); const int height = 8; int depth = 2; }
namespace c { const int depth = 2; }
"""
    assert find_constants(read_program(OLD + text, "gfx942")) == {"height": 8}
