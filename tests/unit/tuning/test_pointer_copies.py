"""Arguments of launches that may be one array, by what the host code copies, and the moves that this rules out."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers, is_passed_alone
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan

TEXT = """#include <hip/hip_runtime.h>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>
struct Pool { float *begin, *end; float* all(); float* take(int n); };
struct Buffers { float *in, *out; };
__global__ void scale(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
__global__ void shift(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[n - 1 - i] + 1;
}
float* pick(bool other, float* x, float* y) { return other ? x : y; }
template <typename T> T* walk(T* x, int n) { T* at = x + n; return at; }
float* grab(int n) {
  float* p = nullptr;
  return hipMalloc(&p, 4 * n) ? nullptr : p;
}
void choose(float** to, float* from, int n) { *to = from + n; }
auto own(int n) {
  float* p;
  auto release = [](float* q) { (void)hipFree(q); };
  if (hipMalloc(&p, 4 * n)) p = nullptr;
  return std::unique_ptr<float, decltype(release)>(p, release);
}
float* workspace(int n) {
  static float* p = nullptr;
  if (!p && hipMalloc(&p, 4 * n)) return nullptr;
  return p;
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
        ("float* w = pick(same, a, b);", "a w c"),
        ("", "a pick(same,a,b) c"),
        ("auto* w = walk<float>(a, n);", "a w c"),
        ("auto choose = [&](bool one) { return one ? a : b; }; float* w = choose(same);", "b w c"),
        ("float *v = workspace(n), *w = workspace(n);", "v w c"),
        ("", "buffers.in a c"),
        ("", "slots[1] b c"),
        ("int i = n % 2;", "slots[i] slots[1] c"),
        ("Buffers others; others.out = a;", "others.out a c"),
        ("float* w; choose(&w, a, n);", "a w c"),
        ("auto raw = [&](float* p) { return p + n; };", "raw(a) a c"),
        ("float *w, *v; (void)hipHostGetDevicePointer((void**)&w, v, 0);", "v w c"),
        ("std::vector<float*> all; all.push_back(a);", "all[0] a c"),
        ("Pool pool; float *w = pool.all(), *v = pool.all();", "w v c"),
        ("for (float* w : slots) { if (w) c = w; }", "c a d"),
        ("float* w = n > 7 ? c : n > 5 ? d : a;", "a w c"),
        ("float *w = a, *v = b; std::swap(w, v);", "w b c"),
        ("float *w = a, *v = b; float* t = w; w = v; v = t;", "w b c"),
        ("float *w = a, *v = b, *u = a; std::swap(w, v); std::swap(v, u);", "w v c"),
        ("float* w = a; std::exchange(w, b);", "w b c"),
        ("std::vector<float*> w; w.insert(w.begin(), a);", "w[0] a c"),
        ("float *w, *v; std::tie(w, v) = std::make_pair(a, b);", "w a c"),
        ("auto [w, v] = std::make_pair(a, b);", "w a c"),
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
        ("float *w = pick(same, a, b), *v = pick(same, c, d);", "w v first"),
        ("float *w = grab(n), *v = grab(n);", "w v c"),
        ("auto* w = walk<float>(a, n);", "w b c"),
        ("Buffers others{c, d};", "buffers.in others.out c"),
        ("auto w = own(n), v = own(n);", "w.get() v.get() c"),
        ("auto raw = [](auto& v) { return v.data(); }; std::vector<float> w(n), v(n);", "raw(w) raw(v) c"),
        ("auto raw = [&](float* p) { float* q = p + n; return q; };", "raw(a) raw(b) c"),
        ("float* w; choose(&w, a, n);", "b w c"),
        ("std::vector<float*> all; all.push_back(a);", "all[0] b c"),
        ("Pool pool; float *w = pool.take(n), *v = pool.take(n);", "w v c"),
        ("Pool pool, other;", "pool.all() other.all() c"),
        ("int i = n % 2;", "slots[i] slots[1-i] c"),
        ("float *w = a, *v = b; std::swap(w, v);", "v w c"),
        ("float *w = a, *v = b; std::swap(w, v);", "w c d"),
        ("float *w = a, *v = b, *u = c; std::swap(w, v); std::swap(v, u);", "w u d"),
    ],
)
def test_other_pointers_stay_distinct(declared: str, passed: str) -> None:
    program = read_program(write_text(declared, passed), "gfx942")
    assert has_distinct_pointers(program, program.kernels[0])


@pytest.mark.parametrize(("declared", "joined"), [("float* w = same ? b : c;", False), ("float* w = c;", True)])
def test_launches_whose_arrays_may_be_one_are_not_joined(declared: str, joined: bool) -> None:
    program = read_program(write_text(declared, "a b w"), "gfx942")
    assert bool(list(find_fusions(program))) == joined


@pytest.mark.parametrize(
    ("calls", "distinct"),
    [("run(p, q, 1, 8);", True), ("run(p, q, 1, 8);\n  run(q, p, 1, 8);", True), ("run(p, p, 1, 8);", False),
     ("float* r = same ? p : q;\n  run(p, r, 1, 8);", False)],
)  # fmt: skip
def test_parameters_are_what_calls_pass(calls: str, distinct: bool) -> None:
    main = f"void go(float* p, float* q, int same) {{\n  {calls}\n}}\nint main()"
    program = read_program(write_text("", "first second c").replace("int main()", main), "gfx942")
    assert has_distinct_pointers(program, program.kernels[0]) == distinct


@pytest.mark.parametrize("declared", ["float* w = same ? a : b;", "float* w = pick(same, b, a);"])
def test_an_array_of_another_name_is_not_passed_alone(declared: str) -> None:
    program = read_program(write_text(declared, "w b c"), "gfx942")
    assert not is_passed_alone(program, program.kernels[0], "y")
    assert is_passed_alone(program, program.kernels[1], "y")


STRUCTURE = TEXT.replace("void scale(const float* x,", "void scale(Buffers with,").replace("2 * x[i]", "2 * with.in[i]")


@pytest.mark.parametrize(
    ("declared", "passed", "distinct"),
    [
        ("", "buffers", True),
        ("buffers.in = c;", "buffers", False),
        ("", "Buffers{a,b}", True),
        ("", "Buffers{a,c}", False),
        ("Buffers others{a, same ? b : c};", "others", False),
        ("auto others = Buffers{b, c};", "others", False),
    ],
)
def test_structures_have_pointers_as_members(declared: str, passed: str, distinct: bool) -> None:
    text = STRUCTURE.replace("DECLARED", declared).replace("(P, Q, n)", f"({passed}, c, n)").replace("(R, d,", "(a, d,")
    program = read_program(text, "gfx942")
    assert has_distinct_pointers(program, program.kernels[0]) == distinct
