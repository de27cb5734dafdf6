"""Pointers that no launch shows: moves that need to know all arrays of a kernel are refused, with the reason."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.hidden_pointers import find_hidden_pointers
from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers, is_passed_alone
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.verification.repeated_runs import check_moved_memory
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.trial import target_of

TEXT = """#include <hip/hip_runtime.h>
DECLARED
__global__ void scale(float* out, const float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
__global__ void shift(TAKEN, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = VALUE;
}
int main() {
  const int n = 1000;
  float *a, *b, *c;
  if (hipMalloc(&a, 4 * n) || hipMalloc(&b, 4 * n) || hipMalloc(&c, 4 * n)) return 1;
  HOST
  scale<<<(n + 255) / 256, 256>>>(b, a, n);
  shift<<<(n + 255) / 256, 256>>>(PASSED, c, n);
  return 0;
}
"""
COPIED = "(void)hipMemcpyToSymbol(HIP_SYMBOL(kept), &b, 8);"
TABLE = "float** table = nullptr; (void)hipMalloc((void**)&table, 8); (void)hipMemcpy(table, &b, 8, hipMemcpyDefault);"


def write_text(value: str, declared: str = "", host: str = "", taken: str = "const float* x", passed: str = "a") -> str:
    text = TEXT.replace("DECLARED", declared).replace("VALUE", value).replace("HOST", host)
    return text.replace("TAKEN", taken).replace("PASSED", passed)


VARIABLES = {
    "a pointer": write_text("x[i] + kept[n - 1 - i]", "__device__ float* kept;", COPIED),
    "a pointer to constants": write_text("x[i] + kept[n - 1 - i]", "__device__ const float* kept;", COPIED),
    "a constant pointer": write_text("x[i] + kept[n - 1 - i]", "__constant__ float* kept;", COPIED),
    "a pointer in a function": write_text(
        "x[i] + take(n - 1 - i)",
        "__device__ float* kept;\n__device__ float take(int i) { return kept[i]; }",
        COPIED,
    ),
    "a pointer in a macro": write_text(
        "x[i] + take(n - 1 - i)",
        "__device__ float* kept;\n#define AT(i) kept[i]\n__device__ float take(int i) { return AT(i); }",
        COPIED,
    ),
    "pointers": write_text("x[i] + kept[0][n - 1 - i]", "__device__ float* kept[2];", COPIED),
    "a structure": write_text(
        "x[i] + kept.p[n - 1 - i]", "struct Kept { float* p; };\n__constant__ Kept kept;", COPIED
    ),
    "an array whose address the host takes": write_text(
        "x[i] + kept[n - 1 - i]", "__device__ float kept[1000];", "(void)hipGetSymbolAddress((void**)&b, kept);"
    ),
    "a pointer that a macro declares": write_text(
        "x[i] + kept[n - 1 - i]", "#define DECLARE(T, name) __device__ T name;\nDECLARE(float*, kept)", COPIED
    ),
    "a pointer that a macro names": write_text(
        "x[i] + d_kept[n - 1 - i]", "#define DECLARE(T, name) __device__ T d_##name;\nDECLARE(float*, kept)",
        COPIED.replace("kept", "d_kept"),
    ),
    "a pointer of a macro alone": write_text(
        "x[i] + kept[n - 1 - i]", "#define STATE __device__ float* kept;\nSTATE", COPIED
    ),
    "a pointer that macros name": write_text(
        "x[i] + KEPT[n - 1 - i]", "#define NAME kept\n#define KEPT kept\n__device__ float* NAME;", COPIED
    ),
    "an array that a macro declares": write_text(
        "x[i] + kept[n - 1 - i]", "#define DECLARE(name) __device__ float name[1000];\nDECLARE(kept)",
        "(void)hipGetSymbolAddress((void**)&b, kept);",
    ),
    "a managed array": write_text("x[i] + kept[n - 1 - i]", "__managed__ float kept[1000];", "b = kept;"),
}  # fmt: skip
NODE = "struct Node { float value; Node* next; };"
OWNER = "class Owner { float* p;\n public:\n  Owner(float* q) : p(q) {}\n  __device__ float at(int i) const "
OWNER += "{ return p[i]; }\n};"
PARAMETERS = {
    "pointers to pointers": write_text("x[0][n - 1 - i]", "", TABLE, "float* const* x", "table"),
    "an array of pointers": write_text("x[0][n - 1 - i]", "", TABLE, "float* x[1]", "table"),
    "pointers by another name": write_text(
        "x[0][n - 1 - i]", "typedef float* Row;", TABLE, "const Row* x", "(Row*)table"
    ),
    "nodes": write_text(
        "x[i].next->value", NODE, "Node* nodes = nullptr; (void)hipMalloc(&nodes, 16 * n);", "const Node* x", "nodes"
    ),
    "nodes in a structure": write_text(
        "x[i].first.next->value", f"{NODE}\nstruct List {{ Node first; int n; }};", "List* lists = nullptr;",
        "const List* x", "lists",
    ),
    "a class": write_text("x.at(n - 1 - i)", OWNER, "Owner owner(b);", "Owner x", "owner"),
    "a structure that a function fills": write_text(
        "x.p[n - 1 - i]", "struct Part { float* p; };\nvoid fill(Part& part, float* p) { part.p = p; }",
        "Part part; fill(part, c);", "Part x", "part",
    ),
    "numbers": write_text("((float*)x[0])[n - 1 - i]", "", "size_t* numbers = nullptr;", "const size_t* x", "numbers"),
}  # fmt: skip


def read(text: str) -> ParsedProgram:
    return read_program(text, "gfx942")


def test_arrays_that_launches_pass_are_all_that_a_kernel_has() -> None:
    program = read(write_text("x[i] + 1"))
    assert [find_hidden_pointers(program, kernel) for kernel in program.kernels] == ["", ""]
    assert has_distinct_pointers(program, program.kernels[1]) and is_passed_alone(program, program.kernels[1], "y")
    assert any(not fusion.one_group for fusion in find_fusions(program))


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_outside_functions_may_point_to_any_array(name: str) -> None:
    program = read(VARIABLES[name])
    assert "outside of functions" in find_hidden_pointers(program, program.kernels[1])
    assert not has_distinct_pointers(program, program.kernels[1])
    assert not is_passed_alone(program, program.kernels[1], "y")
    assert list(find_fusions(program)) == []


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_may_lead_to_any_array(name: str) -> None:
    program = read(PARAMETERS[name])
    assert "x may lead" in (reason := find_hidden_pointers(program, program.kernels[1])) or "numbers" in reason
    assert not has_distinct_pointers(program, program.kernels[1])
    assert not is_passed_alone(program, program.kernels[1], "y")
    assert list(find_fusions(program)) == []


@pytest.mark.parametrize(
    "text",
    [
        write_text("kept[i] + x[i]", "__device__ float kept[9], others[9];",
                   "(void)hipMemcpyToSymbol(HIP_SYMBOL(kept), &n, 4);"),
        write_text("kNine + x[i]", "constexpr int kNine = 9;", "int m = kNine; (void)m;"),
        write_text("x[i]", "float* x = nullptr;"),  # of the host
        write_text("x[i].v[0]", "struct Cell { float v[9]; bool is; float4 w; enum { one } e; };",
                   "Cell* cells = nullptr;", "const Cell* x", "cells"),
        write_text("x[i].x", "template <typename T> struct Pair { T x, y; };", "Pair<float>* pairs = nullptr;",
                   "const Pair<float>* x", "pairs"),
        write_text("x[i].x", "typedef struct { float x, y; } Pair;", "Pair* pairs = nullptr;",
                   "const Pair* x", "pairs"),
        write_text("x[i][0]", "typedef float Four __attribute__((ext_vector_type(4)));", "Four* all = nullptr;",
                   "const Four* x", "all"),
        write_text("((const float4*)x)[i].x"),
    ],
)  # fmt: skip
def test_values_without_pointers_are_no_reason(text: str) -> None:
    program = read(text)
    assert find_hidden_pointers(program, program.kernels[1]) == ""


@pytest.mark.parametrize(
    ("declared", "hidden"),
    [("struct Buffer { float* p; ~Buffer() { (void)hipFree(p); } };", False), (NODE, True), (OWNER, True)],
)
def test_templates_are_given_no_pointers_where_the_device_has_none(declared: str, hidden: bool) -> None:
    text = write_text("x[i]", declared, "", "const T* x").replace(
        "__global__ void shift", "template <typename T> __global__ void shift"
    )
    program = read(text)
    assert bool(find_hidden_pointers(program, program.kernels[1])) == hidden


@pytest.mark.parametrize(("value", "passes"), [("(x[0][n - 1 - i])", True), ("x[0][n - 1 - i] + 1", False)])
def test_addresses_in_device_memory_may_be_others_where_memory_is_moved(value: str, passes: bool) -> None:
    text = write_text("x[0][n - 1 - i]", host=TABLE, taken="float** x", passed="table")
    copied = "  static float back[1000];\n  (void)hipMemcpy(back, c, 4 * n, hipMemcpyDeviceToHost);\n  return 0;"
    text = text.replace("  return 0;", copied)
    verifier = Verifier(text, target_of("gfx942"), [()])
    assert check_moved_memory(verifier, text.replace("x[0][n - 1 - i]", value)).passed is passes
