"""Sums that a group adds up in the LDS first: of words, and of members of a structure."""

from __future__ import annotations

from dataclasses import replace

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import atomics
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TEXT = r"""
#include <hip/hip_runtime.h>
struct Moments { float sum, squares; int count; };
__global__ void add_moments(const float* x, Moments* m, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    atomicAdd(&m->sum, x[i]);
    atomicAdd(&(*m).squares, x[i] * x[i]);
    atomicAdd(&m[0].count, 1);
  }
}
int main() {
  const int n = 5000;
  float host[n], *x;
  for (int i = 0; i < n; ++i) host[i] = i % 17;
  Moments* m;
  if (hipMalloc(&x, sizeof host) || hipMalloc(&m, sizeof(Moments)) || hipMemset(m, 0, sizeof(Moments))) return 1;
  (void)hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice);
  add_moments<<<(n + 255) / 256, 256>>>(x, m, n);
  Moments result;
  return hipMemcpy(&result, m, sizeof result, hipMemcpyDeviceToHost) || result.count != n;
}
"""


def view_of(text: str) -> KernelView:
    program = read_program(text, "gfx942")
    return KernelView(program, program.kernels[0], TransformationPlan(), "atomics", (20, 1, 1), (256, 1, 1))


DOUBLES = TEXT.replace("float sum, squares; int count", "double sum, squares; unsigned long long count")
DOUBLES = DOUBLES.replace("count, 1)", "count, 1ull)")
ARRAY = DOUBLES.replace("Moments* m", "double* m").replace("&m->sum", "m").replace("&(*m).squares", "&m[1]")
ARRAY = ARRAY.replace("&m[0].count, 1ull", "m + 2, 1.0").replace("double* m;", "Moments* m;")
ARRAY = ARRAY.replace(">>>(x, m", ">>>(x, &m->sum").replace("unsigned long long count", "double count")
MIXED = DOUBLES.replace("&(*m).squares", "y").replace("int n) {", "int n, float* y) {").replace("m, n);", "m, n, x);")


@pytest.mark.parametrize(("text", "word"), [
    (TEXT, "unsigned"), (DOUBLES, "unsigned long long"), (ARRAY, "unsigned long long"),
    (MIXED, ""),
    (ARRAY.replace("&m[1]", "&m[static_cast<int>(x[i]) * 0 + 1]"), "unsigned long long"),
])  # fmt: skip
def test_the_words_that_are_added_to(text: str, word: str) -> None:
    view = view_of(text)
    assert atomics.find_word(view.program, view.kernel) == word
    assert bool(list(atomics.list_plans(view))) == bool(word)


ADD = "    atomicAdd(&m[0].count, 1);\n"
SUM = "atomicAdd(&m->sum, x[i]);"
OTHER_USES = {
    "a number that it reads": TEXT.replace(ADD, ADD + "    if (x[i] > 99) m[1].sum = 1;\n"),
    "a place from the array": TEXT.replace("&m[0].count", "&m[m[0].count].count"),
    "a number that depends on the array": TEXT.replace("&m->sum, x[i]", "&m->sum, m->squares"),
    "a local pointer that it reads": TEXT.replace(SUM, "Moments* p = m; atomicAdd(&p->sum, p->count);"),
    "a local pointer that moves": TEXT.replace(SUM, "Moments* p = m; ++p; atomicAdd(&p->sum, x[i]);"),
    "one array under two names": TEXT.replace("int n) {", "int n, Moments* o) {").replace("(x, m, n)", "(x, m, n, m)"),
    "a pointer that an address moves": TEXT.replace(SUM, "Moments* p = m; atomicAdd(&(p++)->sum, x[i]);"),
    "another function": TEXT.replace(ADD, ADD + "    look(m);\n").replace(
        "__global__", "__device__ void look(Moments* m) {}\n__global__"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHER_USES)
def test_an_array_that_is_used_otherwise_is_left_alone(what: str) -> None:
    assert not list(atomics.list_plans(view_of(OTHER_USES[what])))


SAME_USES = {
    "a local pointer": TEXT.replace(SUM, "Moments* const p = m + 0; atomicAdd(&p->sum, x[i]);"),
    "a reference": TEXT.replace(SUM, "Moments& r = m[i % 1]; atomicAdd(&r.sum, x[i]);"),
    "a variable of the device": TEXT.replace("&m->sum", "&total").replace(
        "__global__", "__device__ float total;\n__global__"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SAME_USES)
def test_arrays_are_known_by_other_names(what: str) -> None:
    assert list(atomics.list_plans(view_of(SAME_USES[what])))


LONGER = TEXT.replace("int main() {\n  const int n = 5000;", "int main() {\n  const int n = 5003;")
VARYING = TEXT.replace("&m->sum", "&m[i % 1].sum")
PROGRAMS = {
    "words": TEXT, "members of eight bytes": DOUBLES, "doubles": ARRAY, "groups in part": LONGER,
    "an address that a lane computes": VARYING,
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("factor", "jam"), [(1, False), (8, False), (8, True)], ids=["one", "eight", "eight jammed"])
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_a_group_adds_up_in_the_lds(name: str, factor: int, jam: bool, arch: str) -> None:
    needs.simulator()
    needs.compiler()
    text = PROGRAMS[name]
    plan = replace(next(atomics.list_plans(view_of(text))), coarsen=factor, jam=jam)
    changed = emit_program(read_program(text, arch), {"add_moments": plan}, {"add_moments": (256, 1, 1)})
    assert ("LaneSums<" in changed) == (name != "an address that a lane computes")
    runs = [run_trial(one, target_of(arch), Conditions(exact=True, record_bytes=64)) for one in (text, changed)]
    assert runs[0].exit_code == runs[1].exit_code == 0, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal
    assert runs[1].kernels[0].counters["TCC_ATOMIC"] * 5 < runs[0].kernels[0].counters["TCC_ATOMIC"]


@pytest.mark.parametrize(("text", "count"), [
    (TEXT, 3), (DOUBLES, 3), (ARRAY, 3), (VARYING, 0),
    (TEXT.replace("&(*m).squares", "&m[threadIdx.x].squares"), 0),
    (TEXT.replace("&(*m).squares", "&m[n].squares"), 3),
    (TEXT.replace("&(*m).squares", "&m[n].squares").replace("{\n    atomic", "{\n    n = i;\n    atomic"), 0),
    (TEXT.replace("&m[0].count", "&m[static_cast<int>(x[0])].count"), 0),
    (TEXT.replace("    atomicAdd(&m->sum, x[i]);\n", "    atomicAdd(&m->sum, x[i]);\n" * 3), 0),
])  # fmt: skip
def test_lanes_add_up_what_goes_to_the_same_few_addresses(text: str, count: int) -> None:
    view = view_of(text)
    assert atomics.count_fixed_addresses(view.program, view.kernel) == count
