"""The model of a program that compiles: what libclang knows, with the names that the outline has."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.source import parse_service
from hipsynth.source.outline import kernel_names, outline_kernels
from hipsynth.source.program import ProgramModel, read_parsed_program
from hipsynth.toolchain.sandbox import processes
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.swizzle.edits import read_source

ROOT = Path(__file__).resolve().parents[3]
ARCH = "gfx942"
TEXT = """#include <hip/hip_runtime.h>
#include <cstdlib>
#define A 64  // lanes
#define KERNEL __global__ void
#define MAKE(name) __global__ void name
__global__ void axpy(float, float*, int);  // __global__ void old(int* p) {
const char* text = "__global__ void text(int) {";
template <typename T, int N> __global__ void __launch_bounds__(sizeof(int) * (A), 2) tiled(T* a, int p) { a[p] = 0; }
__attribute__((amdgpu_flat_work_group_size(1, 64))) __global__ void axpy(float k, float* x, int n) { x[n] = k; }
KERNEL hidden(int (*f)(int), const int* __restrict__ q = nullptr) { f = 0; }
namespace ns { struct S { __device__ int f(int a) const { return a; } }; }
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 20;
  tiled<float, 4><<<dim3(2, 3), 64, 0, 0>>>((float*)nullptr, n);
  hipLaunchKernelGGL(axpy, 4, 5, 0, 0, 1.0f, nullptr, 1);
}
"""
NAMES = ["tiled", "axpy", "hidden"]


@pytest.fixture(scope="module")
def program() -> ProgramModel:
    return read_parsed_program(TEXT, ARCH)


def test_all_who_parse_a_program_name_the_kernels_of_its_outline(program: ProgramModel) -> None:
    assert [one.name for one in program.kernels] == kernel_names(TEXT) == NAMES
    assert [one.name for one in read_program(TEXT, ARCH).kernels] == NAMES
    assert list(read_source(TEXT, ARCH).kernels) == NAMES


def test_a_parser_that_was_ended_between_two_programs_is_started_again() -> None:
    before = read_parsed_program(TEXT, ARCH)
    running = parse_service._process
    assert running is not None
    for pid in processes.living_descendants(running.session.jail.process.pid):
        os.kill(pid, signal.SIGKILL)
    select.select([running.session.job.out.fileno()], [], [], 10)
    assert read_parsed_program(TEXT, ARCH).kernels == before.kernels and parse_service._process is not running


def test_functions_of_a_program(program: ProgramModel) -> None:
    tiled, axpy, hidden, method, main = program.functions
    assert (tiled.template, tiled.template_names) == ("template <typename T, int N>", ("T", "N"))
    assert tiled.launch_bounds == "sizeof(int) * (A), 2" and axpy.launch_bounds == ""
    assert (tiled.mangled, axpy.mangled, method.mangled) == ("", "_Z4axpyfPfi", "_ZNK2ns1S1fEi")
    assert (method.name, method.kernel, main.name) == ("f", False, "main")
    assert [one.name for one in hidden.parameters] == ["f", "q"]
    assert hidden.parameters[1].text == "const int* __restrict__ q" and hidden.parameters[1].base == "int"
    assert TEXT[axpy.start : axpy.end].startswith("__attribute__") and TEXT[slice(*axpy.body)] == " x[n] = k; "
    assert [token.text for token in program.tokens[axpy.first : axpy.last]] == ["x", "[", "n", "]", "=", "k", ";"]
    assert program.tokens[axpy.named].text == "axpy" and program.default_arguments == (1 << 20,)


def test_a_kernel_whose_head_is_a_macro_with_an_argument_is_one() -> None:
    found = read_parsed_program(TEXT.replace("KERNEL hidden(", "MAKE(hidden)("), ARCH)
    assert [one.name for one in found.kernels] == NAMES
    assert TEXT and found.kernels[2].start == found.text.index("MAKE(hidden)")


def test_a_function_of_the_device_side_only_is_found() -> None:
    device = "#ifdef __HIP_DEVICE_COMPILE__\n__global__ void k(int* p) { *p = 1; }\n#endif\n"
    assert [one.name for one in read_parsed_program("#include <hip/hip_runtime.h>\n" + device, ARCH).kernels] == ["k"]


def test_a_text_without_a_kernel_is_refused() -> None:
    with pytest.raises(BadInput, match="no kernel"):
        read_parsed_program("int main() { return 0; }\n", ARCH)


@pytest.mark.parametrize("problem", ["attention", "kmeans", "transpose", "reduction", "spmv", "histogram"])
def test_outline_and_tree_agree_on_handwritten_programs(problem: str) -> None:
    files = sorted((ROOT / "corpus" / "handwritten" / problem).glob("*.hip"))
    for path in files:
        text = path.read_text()
        outlined = outline_kernels(text.encode().decode("latin-1"))
        parsed = read_parsed_program(text, ARCH)
        assert [(k.name, k.start, k.end, k.parameters) for k in outlined] == [
            (k.name, k.start, k.end, k.parameters) for k in parsed.kernels
        ], path
    assert files


def test_macros_of_compiler_flags_are_known() -> None:
    text = "#include <hip/hip_runtime.h>\n__global__ void k(float* x) { x[blockIdx.x * BLOCK] = 1; }\n"
    with pytest.raises(BadInput, match="parsed"):
        read_parsed_program(text, ARCH)
    assert [one.name for one in read_parsed_program(text, ARCH, "-O3 -DBLOCK=64").kernels] == ["k"]
    assert read_program(text, ARCH, "-O2 -D BLOCK=8").flags == "-O2 -D BLOCK=8"
