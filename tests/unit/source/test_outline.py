"""The outline names what a text declares and launches, however broken the text is."""

from __future__ import annotations

import re

import pytest

from hipsynth.serving.lsp.kernel_positions import locate_kernels
from hipsynth.source.declarations import read_parameter
from hipsynth.source.harness import check_argument_names
from hipsynth.source.outline import (
    blank_opaque,
    kernel_names,
    outline_kernels,
    outline_launches,
    outline_macros,
    parameter_names,
    split_commas,
    without_comments,
)
from hipsynth.tuning.reason.kernel_rewrite import kernels_in

# A forward declaration, a comment and a string that mention kernels, an attribute with brackets, a macro as the mark.
TEXT = """#define A 64  // lanes
#define TWICE(x) (2 * (x))
#define KERNEL __global__ void
__global__ void axpy(float, float*, int);  // __global__ void old(int* p) {
const char* text = "__global__ void text(int) {";
template <typename T, int N> __global__ void __launch_bounds__(sizeof(int) * (A), 2) tiled(T* a, int p) { a[p] = 0; }
__attribute__((amdgpu_flat_work_group_size(1, 64))) __global__ void axpy(float k, float* x, int n) { x[n] = k; }
KERNEL hidden(int (*f)(int), const int* __restrict__ q = nullptr) { *q = 1; }
int main() {
  tiled<float, 4><<<dim3(2, 3), 64, 0, s>>>(p, f(1, 2)), hidden<<<A, TWICE(4)>>>(g);
  hipLaunchKernelGGL(HIP_KERNEL_NAME(ns::axpy<int, 2>), 4, 5, 0, 0, a, b);
  hipLaunchKernel((const void*)hidden, grid, block, args, 0, 0);
}
"""
NAMES = ["tiled", "axpy", "hidden"]


def test_all_who_read_an_outline_name_the_same_kernels() -> None:
    assert kernel_names(TEXT) == NAMES
    assert [one.name for one in locate_kernels(TEXT)] == NAMES
    assert list(kernels_in(TEXT)) == NAMES
    check_argument_names(TEXT, ["n", "p", "f"])


def test_kernels_of_a_text() -> None:
    tiled, axpy, hidden = outline_kernels(TEXT)
    assert (tiled.template, tiled.template_names) == ("template <typename T, int N>", ("T", "N"))
    assert tiled.launch_bounds == "sizeof(int) * (A), 2" and axpy.launch_bounds == ""
    assert TEXT[axpy.start : axpy.end].startswith("__attribute__") and TEXT[axpy.end - 1] == "}"
    assert TEXT[slice(*tiled.body)] == " a[p] = 0; " and TEXT.startswith("hidden", hidden.name_start)
    assert [(one.name, one.base, one.constant) for one in axpy.parameters] == [
        ("k", "", False), ("x", "float", False), ("n", "", False),
    ]  # fmt: skip
    assert [one.name for one in hidden.parameters] == ["f", "q"] and hidden.parameters[1].constant
    assert parameter_names(TEXT, "axpy") == ("k", "x", "n") and parameter_names(TEXT, "none") == ()
    assert parameter_names("__global__ void f(float*, int n);", "f") == ("", "n")


def test_launches_of_a_text() -> None:
    launches = outline_launches(TEXT)
    assert [(one.kernel, one.template, one.shape, one.arguments) for one in launches] == [
        ("tiled", "<float, 4>", ("dim3(2, 3)", "64", "0", "s"), ("p", "f(1, 2)")),
        ("hidden", "", ("A", "TWICE(4)"), ("g",)),
        ("ns::axpy", "<int, 2>", ("4", "5", "0", "0"), ("a", "b")),
        ("hidden", "", ("grid", "block", "0", "0"), ()),
    ]
    assert TEXT[launches[0].start : launches[0].end] == "tiled<float, 4><<<dim3(2, 3), 64, 0, s>>>(p, f(1, 2))"


def test_macros_of_a_text() -> None:
    assert [(one.name, one.parameters, one.text) for one in outline_macros(TEXT)] == [
        ("A", None, "64"), ("TWICE", ("x",), "(2 * (x))"), ("KERNEL", None, "__global__ void"),
    ]  # fmt: skip
    assert outline_macros("#define LONG 1 + \\\n  2\nint x;")[0].words == {"1", "2"}


@pytest.mark.parametrize("mark", [*"{}();", "template <typename T, int N>", "void", "int p"])
def test_a_text_without_one_of_its_marks_has_the_same_kernels(mark: str) -> None:
    """Whichever one is missing: at most the kernel that it is missing in has another name."""
    starts = [match.start() for match in re.finditer(re.escape(mark), TEXT)]
    assert starts
    for at in starts:
        broken = TEXT[:at] + TEXT[at + len(mark) :]
        start, end = TEXT.rfind("\n", 0, at), TEXT.find("\n", at)
        line = TEXT[max(0, start) : end]
        lost = [name for name in NAMES if name in line and name not in kernel_names(broken)]
        assert set(kernel_names(broken)) >= set(NAMES) - set(lost)
        assert not lost or mark in "()"


def test_a_kernel_that_is_not_closed_ends_before_the_next() -> None:
    one, two = outline_kernels("__global__ void a(int* p) { if (p) {\n__global__ void b(int* p) { *p = 1; }\n")
    assert (one.name, one.closed, one.end) == ("a", False, two.start) and two.closed
    assert list(kernels_in("__global__ void a(int* p) { if (p) {")) == []


def test_names_of_parameters() -> None:
    texts = [
        "const T* __restrict__ a = 0",
        "float*",
        "unsigned",
        "std::array<int, 4> b",
        "int (&c)[4]",
        "ns::T",
        "T d[]",
    ]
    assert [read_parameter(text).name for text in texts] == ["a", "", "", "b", "c", "", "d"]
    assert read_parameter("const float* a").type == "const float*"


def test_lists_are_split_outside_of_brackets() -> None:
    parts = split_commas("a<b, c>, f(d, e), {1, 2}, x < y, z")
    assert [part.strip() for part in parts] == ["a<b, c>", "f(d, e)", "{1, 2}", "x < y", "z"]


def test_separators_of_digits_begin_no_literal() -> None:
    text = "int n = 1'000; // don't\nint m = 0xFFFF'FFFF'00; // it's\nchar c = u8'/', d = '\"';  // last\n"
    assert without_comments(text) == "int n = 1'000;  \nint m = 0xFFFF'FFFF'00;  \nchar c = u8'/', d = '\"';   \n"
    blank = blank_opaque(text)
    assert " ".join(blank.split()) == "int n = 1'000; int m = 0xFFFF'FFFF'00; char c = u8 , d = ;"
    assert outline_macros("#define N (1'000'000)\n")[0].text == "(1'000'000)"


def test_positions_stay_without_comments_and_literals() -> None:
    blank = blank_opaque(TEXT)
    assert len(blank) == len(TEXT) and blank.count("\n") == TEXT.count("\n") and "old" not in blank


def test_a_comment_ends_with_the_text_and_none_begins_in_a_literal() -> None:
    assert without_comments("int a; /* open " + "/* " * 100_000) == "int a;  "
    for literal in ('"/*"', 'R"(src/*.hip)"', 'R"x()" /*)x"'):
        assert without_comments(f"f({literal}); // g\nint a;") == f"f({literal});  \nint a;"
