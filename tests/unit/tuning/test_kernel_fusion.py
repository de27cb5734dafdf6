"""Joining launches: when it is allowed, and that the joined program computes the same."""

from __future__ import annotations

import pytest
from kernel_texts import COUNTING, PRINTING, declare_before_kernels

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.kernel_fusion.joinable_kernels import check_joinable
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void scale(float* out, const float* x, float a, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = a * x[i];
}
__global__ void shift(const float* x, float* y, float a, int count) {
  const int at = threadIdx.x + blockIdx.x * blockDim.x, i = at;
  if (at < count) y[i] = x[i] + a;
}
int main() {
  const int n = 1000;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = i % 37;
  float *a, *b, *c;
  if (hipMalloc(&a, 4 * n) || hipMalloc(&b, 4 * n) || hipMalloc(&c, 4 * n)) return 1;
  (void)hipMemcpy(a, host.data(), 4 * n, hipMemcpyHostToDevice);
  scale<<<(n + 255) / 256, 256>>>(b, a, 2.0f, n);  // first
  shift<<<(n + 255) / 256, 256>>>(b, c, 3.0f, n);
  (void)hipMemcpy(host.data(), c, 4 * n, hipMemcpyDeviceToHost);
  std::printf("%g\\n", host[36]);
  return 0;
}
"""
SAME = TEXT.replace("threadIdx.x + blockIdx.x * blockDim.x, i = at", "blockIdx.x * blockDim.x + threadIdx.x, i = at")


def fused(text: str) -> list[Fusion]:
    """The fusions of launches that follow each other."""
    return [fusion for fusion in find_fusions(read_program(text, "gfx942")) if not fusion.one_group]


def test_launches_of_the_same_elements_are_joined() -> None:
    (found,) = fused(SAME)
    assert found.kernels == ("scale", "shift")
    assert "scale_shift<<<(n + 255) / 256, 256>>>(b, a, 2.0f, n, c, 3.0f);" in found.text
    assert "void scale_shift(float* out, const float* x, float a, int n, float* y, float a_2)" in found.text
    assert "    if (!(i >= n)) {\n      out[i] = a * x[i];\n    }\n" in found.text
    assert "y[i] = out[i] + a_2" in found.text


@pytest.mark.parametrize("text", [SAME, SAME.replace("(b, c, 3.0f, n)", "(b, b, 3.0f, n)")])
def test_a_joined_program_leaves_the_same_memory(text: str) -> None:
    target = target_of("gfx942")
    conditions = Conditions(exact=True)
    before, after = run_trial(text, target, conditions), run_trial(fused(text)[0].text, target, conditions)
    found = compare_trials(before, after)
    assert after.ok and found.equal and found.exact, found.reason
    assert sum(k.dispatches for k in before.kernels) == 2 and sum(k.dispatches for k in after.kernels) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[i] = x[i] + a;", "y[i] = x[i + 1 < count ? i + 1 : i] + a;"),  # what another work-item left
        ("y[i] = x[i] + a;", "y[i] = x[i / 2] + a;"),
        ("i = at;", "i = at / 2;"),
        ("y[i] = x[i] + a;", "{ const float* p = x; y[i] = p[i] + a; }"),
        ("shift<<<(n + 255) / 256, 256>>>", "shift<<<(n + 127) / 128, 128>>>"),
        ("  shift<<<", "  hipDeviceSynchronize();\n  shift<<<"),
        ("y[i] = x[i] + a;", "{ __shared__ float s; if (threadIdx.x == 0) s = a; __syncthreads(); y[i] = x[i] + s; }"),
        ("(b, c, 3.0f, n)", "(b, b + 1, 3.0f, n)"),
        ("  scale<<<", "  if (n > 7) scale<<<"),
        ("  scale<<<", "  for (int i = 0; i < 2; ++i)\n    scale<<<"),
        ("  scale<<<", "  if (n < 7) return 1; else scale<<<"),
        ("  const int n = 1000;", "  const int n = 1000; dim3 grid(4, 2);"),
    ],
)
def test_launches_that_depend_on_other_work_items_stay(old: str, new: str) -> None:
    text = SAME.replace(old, new)
    text = text.replace("<<<(n + 255) / 256,", "<<<grid,") if "dim3 grid" in text else text
    assert text != SAME and fused(text) == []


def test_the_same_place_is_recognised_by_its_text_only() -> None:
    assert fused(TEXT) == []  # the sum is written the other way round


def test_structures_may_have_arrays_as_members() -> None:
    text = SAME.replace("float a, int n)", "Arrays a, int n)").replace("a * x[i]", "a.factors[i] * x[i]")
    text = declare_before_kernels(text, "struct Arrays { float* factors; };").replace("2.0f", "Arrays{c}")
    assert fused(text) == [], "the second launch writes what is a member for the first one"
    for alias in ("using Arrays = float;", "typedef float Arrays;"):
        assert len(fused(declare_before_kernels(SAME.replace("float a, int n)", "Arrays a, int n)"), alias)))


KEPT = "__device__ float kept[1000];"
FUNCTIONS = """
__device__ void put(int i, float v) { kept[i] = v; }
__device__ float take(int i) { return kept[i]; }"""
MACRO = FUNCTIONS.replace("{ kept[i] = v; }", "{ AT(i) = v; }").replace("\n", "\n#define AT(i) kept[i]\n", 1)
APART = {
    "an array outside kernels": ("if (at < count) y[i] = kept[count - 1 - i];", "kept[i] = out[i] = a * x[i];", KEPT),
    "a number outside kernels": (
        "if (at < count) y[i] = total;",
        "if (i == 0) total = x[0];",
        "__device__ float total;",
    ),
    "what functions use": ("if (at < count) y[i] = take(count - 1 - i);", "put(i, x[i]);", KEPT + FUNCTIONS),
    "what a macro in functions uses": ("if (at < count) y[i] = kept[i / 2];", "put(i, x[i]);", KEPT + MACRO),
}


@pytest.mark.parametrize("what", APART)
def test_launches_that_meet_in_variables_of_the_device_stay(what: str) -> None:
    second, first, variables = APART[what]
    text = SAME.replace("if (at < count) y[i] = x[i] + a;", second).replace("out[i] = a * x[i];", first)
    assert fused(declare_before_kernels(text, variables)) == []


def test_constants_of_the_device_keep_no_launches_apart() -> None:
    text = SAME.replace("a * x[i]", "kOne[0] * x[i]").replace("x[i] + a", "kOne[0] + x[i]")
    assert fused(declare_before_kernels(text, "__constant__ float kOne[1];"))


@pytest.mark.parametrize("arguments", ["b, c, 3.0f, ++n", "b, c, 3.0f, n = 9", "b, c, next(), n"])
def test_launches_whose_arguments_have_effects_stay(arguments: str) -> None:
    """Arguments of one launch are evaluated in any order."""
    text = SAME.replace("const int n", "int n").replace("(b, c, 3.0f, n)", f"({arguments})")
    assert fused(text.replace("int main", "float next() { static int k; return k += 2; }\nint main")) == []


@pytest.mark.parametrize(
    ("change", "passed"), [("n -= 900;", "n, c, 3.0f, n"), ("x += 2; n -= 2;", "n, b, c, 3.0f, n"),
                           ("cut(n);", "n, c, 3.0f, n"), ("int& m = n; m -= 900;", "n, c, 3.0f, n")],
)  # fmt: skip
def test_parameters_that_a_kernel_changes_are_its_own(change: str, passed: str) -> None:
    text = SAME.replace("  if (i >= n) return;", f"  {change}\n  if (i >= n) return;")
    text = text.replace("(b, a, 2.0f, n)", "(d, b, 2.0f, n)" if "x +=" in change else "(b, a, 2.0f, n)")
    text = text.replace("float *a, *b, *c;", "float *a, *b, *c, *d;").replace(
        "if (hip", "if (hipMalloc(&d, 4 * n) || hip"
    )
    text = declare_before_kernels(text, "__device__ void cut(int& n) { n -= 900; }")
    found = fused(text)[0]
    assert f"2.0f, {passed});" in found.text
    conditions = Conditions(exact=True)
    before, after = (run_trial(each, target_of("gfx942"), conditions) for each in (text, found.text))
    assert compare_trials(before, after).exact


@pytest.mark.parametrize("kind", ["unsigned char", "short", "uint16_t", "float"])
def test_launches_whose_indices_are_cut_stay(kind: str) -> None:
    """The second launch reads elements that work-items of other groups wrote."""
    text = SAME.replace("if (at < count) y[i] = x[i] + a;", f"const {kind} j = at; y[at] = x[int(j)] + a;")
    assert fused(text.replace("int(j)", "j") if kind != "float" else text) == []
    assert fused(SAME.replace("if (at < count) y[i] = x[i] + a;", "const unsigned j = at; y[at] = x[j] + a;"))


BACKWARDS = SAME.replace("y[i] = x[i] + a;", "y[i] = x[count - 1 - i] + a;")
PUT = "template <typename T> __device__ void put(T& to, T v) { to = v; }"
TURN = "__device__ void turn(int& j, int n) { j = n - 1 - j; }"
CELL = "struct Cell { float v; __device__ void set(float w) { v = w; } };"


@pytest.mark.parametrize(
    ("old", "new", "functions"),
    [
        ("out[i] = a * x[i];", "float& v = out[i]; v = a * x[i];", ""),
        ("out[i] = a * x[i];", "auto& v{out[i]}; v = a * x[i];", ""),
        ("out[i] = a * x[i];", "put(out[i], a * x[i]);", PUT),
        ("out[i] = a * x[i];", "put<float>(out[i], a * x[i]);", PUT),
        ("out[i] = a * x[i];", "(out[i]) = a * x[i];", ""),
        ("out[i] = a * x[i];", "(i % 2 ? out[i] : out[0]) = a * x[i];", ""),
        ("out[i] = a * x[i];", "++(out[i]);", ""),
        ("out[i] = a * x[i];", "reinterpret_cast<int&>(out[i]) = 1;", ""),
        ("out[i] = a * x[i];", "((Cell*)out)[i].set(a * x[i]);", CELL),
    ],
)
def test_elements_that_are_written_by_another_name_keep_launches_apart(old: str, new: str, functions: str) -> None:
    text = declare_before_kernels(BACKWARDS.replace(old, new), functions)
    assert text != BACKWARDS and fused(text) == []


CASTS = [
    "((float*)x)[i]",
    "const_cast<float*>(x)[i]",
    "*(float*)&x[i]",
    "((float*)(x + 1))[i]",
    "((const float4*)x)[i].x",
]


@pytest.mark.parametrize("cast", CASTS)
def test_arrays_that_a_kernel_takes_for_constants_may_be_written(cast: str) -> None:
    text = BACKWARDS.replace("(b, a, 2.0f, n)", "(a, b, 2.0f, n)")
    is_read = "const " in cast
    text = text.replace("out[i] = a * x[i];", f"out[i] = {cast};" if is_read else f"{cast} = 1; out[i] = 0;")
    assert bool(fused(text)) == is_read


def test_elements_that_methods_change_keep_launches_apart() -> None:
    text = BACKWARDS.replace("a * x[i]", "Cell{a * x[i].v}").replace("float* ", "Cell* ").replace("float *a", "Cell *a")
    text = declare_before_kernels(text.replace("x[count - 1 - i] + a", "x[count - 1 - i]"), CELL)
    assert fused(text.replace("out[i] = Cell{a * x[i].v}", "out[i].set(a * x[i].v)")) == []
    read = text.replace("float w) { v = w; }", "float w) const {}").replace(
        "out[i] = Cell{a * x[i].v}", "out[i].set(a)"
    )
    assert fused(read), "such a method changes nothing"
    same = text.replace("count - 1 - i", "i")
    assert fused(same.replace("out[i] = Cell{a * x[i].v}", "out[i].set(a * x[i].v)"))


@pytest.mark.parametrize("change", ["turn(j, count);", "int& k = j; k = count - 1 - k;", "(j) = count - 1 - at;"])
def test_subscripts_that_are_changed_by_another_name_keep_launches_apart(change: str) -> None:
    text = SAME.replace("if (at < count) y[i] = x[i] + a;", f"int j = at; {change} if (at < count) y[at] = x[j] + a;")
    assert fused(declare_before_kernels(text, TURN)) == []
    assert fused(declare_before_kernels(text, TURN).replace(change, "const int& k = j;"))


WRITE = f"{PRINTING}\n#define OUT note\n__device__ void write(int i) {{ OUT(i); }}"


@pytest.mark.parametrize(
    ("statement", "functions", "reason"),
    [
        ('printf("%d\\n", i);', "", "it uses printf"),
        ("note(i);", PRINTING, "it uses printf"),
        ("NOTE(i);", '#define NOTE(i) printf("%d", i)', "it uses printf"),
        ("write(i);", WRITE, "it uses printf"),
        ("if (x[i] < 0) abort();", "", "it uses abort"),
    ],
)  # fmt: skip
def test_what_launches_print_keeps_its_order(statement: str, functions: str, reason: str) -> None:
    text = SAME.replace("out[i] = ", f"{statement}\n  out[i] = ").replace("y[i] = ", f"{{ {statement} }} y[i] = ")
    program = read_program(declare_before_kernels(text, functions), "gfx942")
    assert list(find_fusions(program)) == []
    with pytest.raises(NotUnderstood, match=reason):
        check_joinable(program, program.kernels[0])


def test_kernels_of_one_name_are_changed_alike_or_not_at_all() -> None:
    text = SAME.replace("shift", "scale").replace("float* y", "double* y").replace("*b, *c;", "*b;\n  double* c;")
    found = read_program(text, "gfx942")
    assert [kernel.name for kernel in found.kernels] == ["scale"] * 2 and list(find_fusions(found)) == []
    with pytest.raises(NotUnderstood, match="several kernels"):
        check_joinable(found, found.kernels[0])
    assert all(kernel.independent for kernel in found.kernels)
    shared = read_program(text.replace("y[i] = x[i] + a;", "{ __shared__ float s; s = a; y[i] = x[i] + s; }"), "gfx942")
    assert not any(kernel.independent for kernel in shared.kernels) and not any(k.fixed for k in shared.kernels)
    more = text.replace("float a, int n)", "float a, int n, int more)").replace("2.0f, n)", "2.0f, n, 1)")
    other = read_program(more, "gfx942")
    assert [kernel.fixed for kernel in other.kernels] == ["several kernels have its name"] * 2


def test_static_variables_of_functions_keep_launches_apart() -> None:
    text = SAME.replace("a * x[i]", "next() * x[i]").replace("x[i] + a", "next() + x[i]")
    assert fused(declare_before_kernels(text, COUNTING)) == []
    assert fused(declare_before_kernels(text, COUNTING.replace("static int calls = 0; return ++calls", "return 1")))


@pytest.mark.parametrize(
    ("body", "joined"), [("static int k = 3; return ++k;", 0), ("return calls++;", 0), ("return (n + 255) / 256;", 1)]
)
def test_launches_whose_shape_may_be_another_one_each_time_stay(body: str, joined: int) -> None:
    text = SAME.replace("<<<(n + 255) / 256,", "<<<blocks(n),")
    text = text.replace("int main", f"int calls = 0;\nint blocks(int n) {{ {body} }}\nint main")
    assert len(fused(text)) == joined
