"""A main() for kernels without one: what is launched, with which values, and what is refused."""

from __future__ import annotations

import math

import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.source.harness import (
    HarnessChoices,
    add_harness,
    check_argument_names,
    choose_launches,
    lacks_main,
)
from hipsynth.source.harness_edits import copy_harness, remove_harness
from hipsynth.source.includes import BYTE_ORDER_MARK, FIRST_LINE, RUNTIME_HEADER

SAXPY = "__global__ void saxpy(int n, float a, const float* x, float* y) { y[threadIdx.x] = a * x[0]; }\n"
IMAGE = (
    "__global__ void blur(const float* in, float* out, int width, int height) { int y = blockIdx.y; out[y] = in[y]; }\n"
)


def test_what_lacks_a_main() -> None:
    assert lacks_main(SAXPY) and lacks_main(SAXPY + '// int main() {}\nconst char* s = "main()";\n')
    assert not lacks_main(SAXPY + "int main() { return 0; }\n")
    assert not lacks_main("void helper() {}\n"), "a file without kernels is no kernel without main()"


def test_one_number_is_the_length() -> None:
    made = add_harness(SAXPY, HarnessChoices())
    assert made.text.startswith(RUNTIME_HEADER + SAXPY), "lines keep their numbers"
    assert "saxpy<<<dim3((n_value + 255) / 256, 1, 1), dim3(256, 1, 1)>>>" in made.text
    assert "n_value = argc > 1 ? std::atoi(argv[1]) : 1048576;" in made.text and ">>>(n_value, " in made.text
    assert made.notes == (
        "no main(): saxpy is launched with 4096 x 1 x 1 work-groups of 256 x 1 x 1; n = 1048576; "
        "x, y of 1,048,576 elements",
    )


def test_a_value_sets_grid_and_buffers() -> None:
    made = add_harness(SAXPY, HarnessChoices(values={"n": 1000, "a": 2.5}))
    assert "argv[1]) : 1000;" in made.text and "make_value<float>(2.5)" in made.text
    assert "4 x 1 x 1 work-groups" in made.notes[0] and "x, y of 1,024 elements" in made.notes[0]


def test_a_changed_kernel_loses_the_main_that_was_made_for_it() -> None:
    original = SAXPY
    harnessed = add_harness(original, HarnessChoices())
    changed = harnessed.text.replace("a * x[0]", "x[0] * a")
    assert remove_harness(changed, harnessed) == original.replace("a * x[0]", "x[0] * a")
    assert copy_harness(harnessed.text, original) == harnessed.text
    helped = changed.replace(FIRST_LINE, f"int half();\n{FIRST_LINE}")
    assert remove_harness(helped, harnessed).startswith("#include <hip/hip_runtime.h>\nint half();\n__global__")
    launched_otherwise = harnessed.text.replace("<<<", " <<<")
    assert remove_harness(launched_otherwise, harnessed) == launched_otherwise, "its launch belongs to the change"


def test_a_text_that_includes_something_needs_no_header() -> None:
    for start in ("", BYTE_ORDER_MARK):
        text = f"{start}#include <hip/hip_runtime.h>\n{SAXPY}"
        assert add_harness(text, HarnessChoices()).text.startswith(text)
    made = add_harness(BYTE_ORDER_MARK + SAXPY, HarnessChoices())
    assert made.text.startswith(RUNTIME_HEADER + SAXPY), "the mark may only stand at the beginning"


def test_all_instances_that_a_text_makes_are_launched() -> None:
    kernel = "template <class T, int N> __global__ void fill(T* x) { x[threadIdx.x] = N; }\n"
    instances = "template __global__ void fill<float, 1>(float*);\ntemplate void fill<int, 2>(int*);\n"
    made = add_harness(kernel + instances, HarnessChoices())
    launched = [line for line in made.text.splitlines() if "<<<" in line]
    assert ["fill<float, 1>" in launched[0], "fill<int, 2>" in launched[1], len(launched)] == [True, True, 2]
    assert "make_buffer<int>" in made.text and made.assumed["fill"].startswith("no main(): fill<float, 1> is launched")
    assert made.assumed["fill"].endswith("; fill<int, 2> alike") and len(made.notes) == 1
    (launch,) = [line for line in add_harness(kernel, HarnessChoices()).text.splitlines() if "<<<" in line]
    assert "fill<float, 4><<<" in launch


def test_two_dimensions() -> None:
    made = add_harness(IMAGE, HarnessChoices())
    assert "<<<dim3((width_value + 15) / 16, (height_value + 15) / 16, 1), dim3(16, 16, 1)>>>" in made.text
    assert "64 x 64 x 1 work-groups of 16 x 16 x 1" in made.notes[0] and "1,048,576 elements" in made.notes[0]
    chosen = add_harness(IMAGE, HarnessChoices(grid=(2, 3, 1), block=(8, 8, 1), values={"width": 10, "height": 10}))
    assert "<<<dim3(2, 3, 1), dim3(8, 8, 1)>>>" in chosen.text and "384 elements" in chosen.notes[0]


def test_kernels_share_arguments_of_one_name_and_default() -> None:
    text = SAXPY + SAXPY.replace("saxpy", "again") + IMAGE.replace("width", "n")
    made = add_harness(text, HarnessChoices())
    sizes = [line.split()[3:] for line in made.text.splitlines() if "std::atoi" in line]
    assert [(words[0], words[-1]) for words in sizes] == [
        ("n_value", "1048576;"), ("n_value2", "1024;"), ("height_value", "1024;"),
    ]  # fmt: skip


def test_careful_sizes_leave_room_for_products_of_all_numbers() -> None:
    text = "__global__ void f(int b, int n, int m, const float* x) { int y = blockIdx.y; }\n"
    usual, careful = (choose_launches(text, HarnessChoices(), care)[0] for care in (False, True))
    assert set(usual.numbers.values()) == {1024.0} and usual.elements == 1 << 20
    assert set(careful.numbers.values()) == {128.0} and careful.elements == 4 * 128**3
    assert (
        "count_elements(256ull * ((b_value + 15) / 16) * ((n_value + 15) / 16), 3, 4,"
        in add_harness(text, HarnessChoices(), careful=True).text
    )


TEMPLATE = "template <typename T, int BLOCK, bool LAST> __global__ void f(const T* a, T b, int n) { T x = a[n]; }\n"


@pytest.mark.parametrize(
    ("host", "instance"),
    [
        ("", "f<float, 256, true>"),
        ("void g() { f<double, 64, false><<<1, 64>>>(0, 0, 0); }\n", "f<double, 64, false>"),
        ("void g() { hipLaunchKernelGGL((f<int, 512, true>), 1, 1, 0, 0, a, b, n); }\n", "f<int, 512, true>"),
        ("void g() { f<T, 64, true><<<1, m>>>(a, b, n); }\n", "f<float, 256, true>"),  # of another template
        ("void g() { f<T, 64, true><<<1, 64>>>(a, b, n); }\n", "f<float, 64, true>"),
        ("void g() { f<int, 64, true><<<1, m>>>(); f<int, 256, true><<<1, m>>>(); }\n", "f<int, 256, true>"),
        ("// f<int, 64, true><<<1, 64>>>()\n", "f<float, 256, true>"),
    ],
)
def test_templates_get_the_arguments_of_a_launch_or_usual_ones(host: str, instance: str) -> None:
    made = add_harness(TEMPLATE + host, HarnessChoices())
    kind = instance[2:].partition(",")[0]
    assert f"    {instance}<<<dim3(" in made.text and made.notes[0].startswith(f"no main(): {instance} is launched")
    assert f"auto* a_buffer = hipsynth_harness::make_buffer<{kind}>(elements);" in made.text
    assert f">>>(a_buffer, hipsynth_harness::make_value<{kind}>(1.5)" in made.text


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_values_are_finite(value: float) -> None:
    with pytest.raises(UsageError, match="n = "):
        add_harness(SAXPY, HarnessChoices(values={"n": value}))


def test_structures_are_said_to_be_zeros() -> None:
    text = "struct P { float* x; int n; };\n__global__ void k(P p, const P* all, int n) {}\n"
    assert "; p: all zeros" in add_harness(text, HarnessChoices()).assumed["k"]
    assert "zeros" not in add_harness(SAXPY, HarnessChoices()).assumed["saxpy"]


def test_work_groups_that_no_device_starts_are_refused() -> None:
    assert HarnessChoices(block=(32, 32, 1)).block
    with pytest.raises(UsageError, match="64 x 32 x 1"):
        HarnessChoices(block=(64, 32, 1))


def test_a_wrong_name_gets_a_near_one() -> None:
    with pytest.raises(UsageError) as caught:
        add_harness(IMAGE, HarnessChoices(values={"widht": 3}))
    assert caught.value.cause == "did you mean width?" and "in, out, width, height" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("template <class... T> __global__ void f(float* a) { a[0] = 1; }\n", "is a template"),
        ("template <template <class> class T> __global__ void f(float* a) { a[0] = 1; }\n", "is a template"),
        ("__global__ void f(float** a) { a[0][0] = 1; }\n", "nothing can be made"),
        ("__global__ void f(void (*g)(int)) { g(1); }\n", "nothing can be made"),
    ],
)
def test_what_cannot_be_made_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        add_harness(text, HarnessChoices())
    assert caught.value.remedy and caught.value.reason == "no_main"


def test_buffers_have_a_limit() -> None:
    with pytest.raises(BadInput, match="too large"):
        add_harness(SAXPY, HarnessChoices(values={"n": 1e12}))


def test_names_of_kernels_that_a_macro_or_header_makes_are_not_refused() -> None:
    check_argument_names("#define K(f) __global__ void f(int size) {}\nK(a)\n", ["size"])
    check_argument_names('#include "kernels.h"\nint main() { int size; }\n', ["size"])
    for text in (SAXPY + "// size\n", '#include "kernels.h"\n'):
        with pytest.raises(UsageError, match="no kernel has"):
            check_argument_names(text, ["size"])


def test_notes_say_what_arguments_of_the_command_line_make_of_a_launch() -> None:
    text = SAXPY + IMAGE
    usual, changed = (add_harness(text, HarnessChoices(arguments=words)) for words in ((), ("1000", "32", "64")))
    assert changed.text == usual.text, "arguments take effect when main() runs"
    assert changed.notes == (
        "no main(): saxpy is launched with 4 x 1 x 1 work-groups of 256 x 1 x 1; n = 1000; x, y of 1,024 elements",
        "no main(): blur is launched with 2 x 4 x 1 work-groups of 16 x 16 x 1; width = 32; height = 64; "
        "in, out of 2,048 elements",
    )
    assert add_harness(SAXPY, HarnessChoices(arguments=("many", "7"))).notes[0].endswith("x, y of 1 elements")


def test_other_kernels_than_the_chosen_one_are_neither_launched_nor_compiled() -> None:
    other = "template <class... T> __global__ void wild(float** rows) {\n  rows[0] = undeclared; // }\n}\n"
    made = add_harness(other + SAXPY, HarnessChoices(kernel="sax*"))
    assert "wild" not in made.assumed and "wild<<<" not in made.text and "saxpy<<<" in made.text
    assert "undeclared" not in made.text and made.text.partition("saxpy")[0].count("\n", len(RUNTIME_HEADER)) == 3
    assert list(add_harness(TEMPLATE + SAXPY, HarnessChoices(kernel="f<float")).assumed) == ["f"]
    with pytest.raises(UsageError, match="--kernel sexpy: no kernel matches") as caught:
        add_harness(other + SAXPY, HarnessChoices(kernel="sexpy"))
    assert caught.value.cause == "did you mean saxpy?" and caught.value.remedy == "kernels: wild, saxpy"


def test_template_numbers_of_work_items_are_those_of_the_group() -> None:
    tiled = (
        "template <int B> __global__ void flat(float* x) { int i = blockIdx.x * B + threadIdx.x; x[i] = 1; }\n"
        "template <int T, int U> __global__ void square(float* x) {\n"
        "  int i = threadIdx.x + T * blockIdx.x, j = blockIdx.y * T + threadIdx.y; x[i * j] = U;\n}\n"
        "template <int BR> __global__ __launch_bounds__(BR, 2) void bounded(float* x) { x[threadIdx.x] = 1; }\n"
    )
    texts = add_harness(tiled, HarnessChoices()).text.splitlines()
    launched = [line.split("<<<")[0].strip() for line in texts if "<<<" in line]
    assert launched == ["flat<256>", "square<16, 4>", "bounded<256>"]


ROWS = """__global__ void softmax(const float* in, float* out, int cols) {
  const float* row = in + (size_t)blockIdx.x * cols;
  for (int c = threadIdx.x; c < cols; c += 256) out[blockIdx.x * (size_t)cols + c] = row[c];
}
"""
GATHERED = """__global__ void embed(const int* ids, const float* table, float* out, int dim) {
  const int row = blockIdx.x;
  for (int c = threadIdx.x; c < dim; c += blockDim.x) out[dim * row + c] = table[ids[row] * dim + c];
}
"""


@pytest.mark.parametrize("text", [ROWS, GATHERED])
def test_a_work_group_for_each_row_gets_as_many_rows(text: str) -> None:
    (launch,) = choose_launches(text, HarnessChoices())
    assert (launch.grid, *launch.numbers.values(), launch.elements) == ((1024, 1, 1), 1024, 1 << 20)
    (launch,) = choose_launches(text, HarnessChoices(grid=(96, 1, 1), values={next(iter(launch.numbers)): 5000}))
    assert launch.elements == 96 * 5000


def test_products_with_other_numbers_make_no_rows() -> None:
    text = ROWS.replace("blockIdx.x * (size_t)cols", "blockIdx.x * blockDim.x").replace(
        "(size_t)blockIdx.x * cols", "0"
    )
    (launch,) = choose_launches(text, HarnessChoices())
    assert not launch.has_rows and launch.numbers == {"cols": float(1 << 20)}


def test_careful_buffers_hold_a_row_for_each_work_item() -> None:
    text = """__global__ void sums(const float* in, float* out, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int c = 0; c < cols; ++c) sum += in[row * cols + c];
  out[row] = sum;
}
"""
    (launch,) = choose_launches(text, HarnessChoices(), careful=True)
    assert launch.elements >= math.prod(launch.grid) * math.prod(launch.block) * launch.numbers["cols"]


@pytest.mark.parametrize(
    ("definition", "kind"),
    [
        ("", "uint"),
        ("", "const ushort"),
        ("", "uint_fast32_t"),
        ("", "std::int_least64_t"),
        ("typedef unsigned index_t;\n", "index_t"),
        ("namespace lib { using size = std::size_t; using index_t = size const; }\n", "const lib::index_t"),
        ("#define index_t long long  // of an element\n", "index_t"),
    ],
)
def test_integers_of_every_name_are_sizes(definition: str, kind: str) -> None:
    made = add_harness(definition + SAXPY.replace("int n", f"{kind} n"), HarnessChoices())
    assert "saxpy<<<dim3((n_value + 255) / 256, 1, 1)" in made.text and "n = 1048576;" in made.notes[0]
    assert "nobody chose" not in made.notes[0]


def test_scalars_that_nobody_chose_are_guesses() -> None:
    text = (
        "typedef float real;\ntypedef unsigned char byte;\ntemplate <class index_t> struct S;\n"
        "__global__ void k(real r, half h, bool b, byte c, char d, float4 v, Number m, float* x) { x[0] = r; }\n"
    )
    made = add_harness(text, HarnessChoices(values={"d": 3}))
    assert made.notes[0].endswith("; nobody chose c = 1, v = float4{}, m = 1.5 or Number{}")
    shadowed = "using T = int;\ntemplate <class T> __global__ void f(T n, float* x) { x[0] = n; }\n"
    assert "make_value<float>(1.5)" in add_harness(shadowed, HarnessChoices()).text


@pytest.mark.parametrize(
    ("other", "note"),
    [
        ("__global__ void k(float** rows) {}\n", "k: nothing can be made for its argument float** rows"),
        ("__global__ void k(float (*a)[4]) {}\n", "k: nothing can be made for its argument float (*a)[4]"),
        (
            "template <class... T> __global__ void k(T... a) {}\n",
            "k is a template, and there is no main() that says of what",
        ),
    ],
)
def test_a_kernel_whose_arguments_cannot_be_made_is_left_out(other: str, note: str) -> None:
    made, alone = add_harness(other + SAXPY, HarnessChoices()), add_harness(SAXPY, HarnessChoices())
    assert made.assumed == {**alone.assumed, "k": f"not launched: {note}"}
    assert made.text.partition(SAXPY)[2] == alone.text.partition(SAXPY)[2]
    with pytest.raises(BadInput, match="k"):
        add_harness(other + SAXPY, HarnessChoices(kernel="k"))
    overload = "__global__ void k(int* x) { x[0] = 1; }\n"
    assert add_harness(other + overload, HarnessChoices()).assumed["k"].endswith(f"elements; not launched: {note}")


PRIMARY = "template <class T> __global__ void spec(T* x, int n) { x[threadIdx.x] = n; }\n"


def test_full_specialisations_are_instances_of_their_template() -> None:
    special = "template <> __global__ void spec<int>(int* x, int n) { x[0] = 1; }\n"
    bounded = "template <>\n__global__ void __launch_bounds__(64) spec< double >(double* x, int n) { x[0] = 1; }\n"
    made = add_harness(PRIMARY + special + bounded, HarnessChoices())
    launched = [line.split("<<<")[0].strip() for line in made.text.splitlines() if "<<<" in line]
    assert launched == ["spec<int>", "spec<double>"] and "make_buffer<double>" in made.text
    assert made.notes[0].endswith("; spec<double> alike") and len(made.notes) == 1
    without = add_harness(PRIMARY + special + SAXPY, HarnessChoices(kernel="saxpy"))
    assert "x[0] = 1" not in without.text.partition("saxpy")[0]
    with pytest.raises(BadInput, match="spec is a template"):
        add_harness(special, HarnessChoices())


@pytest.mark.parametrize(
    ("opening", "closing", "names"),
    [
        ("namespace mylib {\n", "}\n", "mylib"),
        ("namespace a::b {\nvoid helper() {}\nnamespace c {}\n", "}\n", "a::b"),
        ("namespace a { namespace {\nnamespace b\n{ // namespace d {\n", "}}}\n", "a::b"),
        ("namespace a::inline v1 {\nstruct P { int x; };\n", "}\n", "a::v1"),
        ("inline namespace v2 {\n#define OPEN namespace x {\n", "}\n", "v2"),
        ("namespace {\n", "}\n", ""),
        ("namespace closed {}\nusing namespace closed;\n", "", ""),
    ],
)
def test_kernels_in_namespaces_are_named_in_their_own_block(opening: str, closing: str, names: str) -> None:
    made = add_harness(f"{opening}{SAXPY}{closing}{IMAGE}", HarnessChoices())
    using = f"    using namespace {names};\n" if names else ""
    main = made.text.partition("int main(")[2]
    assert main.count("using namespace") == bool(names) and f"  {{\n{using}    const size_t elements = " in main
    assert main.index("saxpy<<<") < main.index("\n  }\n") and (
        not names or main.index("using ") < main.index("saxpy<<<")
    )
    qualified = add_harness(f"{opening}{SAXPY}{closing}{IMAGE}", HarnessChoices(kernel=f"{names or 'a'}::saxpy"))
    assert list(qualified.assumed) == ["saxpy"]


@pytest.mark.parametrize(
    "untaken",
    [
        "#if 0\nBRANCH#endif\n",
        "  # if 0  // don't\n#ifdef X\nBRANCH#else\nBRANCH#endif\n#endif\n",
        "#if 1\n#else /* never */\nBRANCH#endif\n",
        "#if 1\n#elif X\nBRANCH#else\n#if 1\nBRANCH#endif\n#endif\n",
        "#ifdef X\n#if 0\nBRANCH#else\n#endif\n#endif\n",
    ],
)
def test_branches_that_no_compiler_takes_hold_no_kernels_and_no_main(untaken: str) -> None:
    branch = SAXPY.replace("int n", "int n, int m") + IMAGE + "int main() { return 0; }\n"
    text = untaken.replace("BRANCH", branch) + SAXPY
    assert lacks_main(text) and lacks_main(SAXPY) and not lacks_main(text.replace("#", "//"))
    made, alone = add_harness(text, HarnessChoices()), add_harness(SAXPY, HarnessChoices())
    assert made.text == RUNTIME_HEADER + text + alone.text.removeprefix(RUNTIME_HEADER + SAXPY)
    assert made.assumed == alone.assumed


@pytest.mark.parametrize(
    "taken", ["#if 0\n#else\nBRANCH#endif\n", "#if 0\n#elif X\nBRANCH#endif\n", "#if 1\nBRANCH#endif\n"]
)
def test_other_branches_may_be_compiled(taken: str) -> None:
    assert list(add_harness(taken.replace("BRANCH", IMAGE) + SAXPY, HarnessChoices()).assumed) == ["blur", "saxpy"]
    assert not lacks_main(taken.replace("BRANCH", "int main() { return 0; }\n") + SAXPY)
