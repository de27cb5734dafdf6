"""Places that a group takes by one atomic addition: which kernels are understood, and that each place is taken once."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.group_atomics import find_addition
from hipsynth.tuning.trial import Conditions, UnorderedOutputs, compare_trials, differing_outputs, run_trial, target_of

KEEP = "if (i < n && in[i] % 3 == 0) out[i % LISTS * n + atomicAdd(&counts[i % LISTS], 1)] = in[i];"
TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__device__ bool wanted(int value) { return value % 3 == 0; }
__device__ void mark(int* to) { *to = 1; }
__global__ void keep(const int* in, int* out, int* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  BODY
}
int main() {
  const int n = 20000;
  std::vector<int> host(n), back(LISTS * n);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 1009;
  int *in, *out, *counts;
  if (hipMalloc(&in, 4 * n) || hipMalloc(&out, 4 * LISTS * n) || hipMalloc(&counts, 4 * LISTS)) return 1;
  (void)hipMemset(out, 0, 4 * LISTS * n);
  (void)hipMemset(counts, 0, 4 * LISTS);
  (void)hipMemcpy(in, host.data(), 4 * n, hipMemcpyHostToDevice);
  keep<<<(n + 255) / 256, 256>>>(in, out, counts, n);
  (void)hipMemcpy(back.data(), out, 4 * LISTS * n, hipMemcpyDeviceToHost);
  for (int list = 0; list < LISTS; ++list) {
    long long sum = 0;
    for (int i = 0; i < n; ++i) sum += (back[list * n + i] != 0) * 10000ll + back[list * n + i];
    std::printf("%lld\\n", sum);
  }
  return 0;
}
"""
BODIES = {
    "a store": (KEEP, 1),
    "a few lists": (KEEP, 3),
    "more lists than slots": (KEEP, 300),
    "a variable": (
        "if (i >= n) return;\n  const int value = in[i];\n  if (wanted(value)) {\n"
        "    const int at = atomicAdd(counts, 2);\n    out[at] = value;\n    if (at + 1 < n) out[at + 1] = i;\n  }",
        1,
    ),
    "statements around it": (
        "int last = 7, at = -1; float half = 0.5f;\n  if (i < n) {\n    const int value = in[i];\n"
        "    if (value % 3 == 0)\n      at = atomicAdd(&counts[i % LISTS], 1);\n    else\n      last = 0;\n"
        "    if (at >= 0) { float last = 2 * half; out[i % LISTS * n + at] = value + (int)last; }\n  }\n"
        "  if (last == 0 && i == 1) out[n - 1] = last + 3;",
        2,
    ),
    "elements that conditions load": (
        "if (i < n && in[i] % 3 == 0) { if (in[i] > 8) out[atomicAdd(counts, 3)] = in[i] + in[n - 1 - i]; }",
        1,
    ),
    "a loop before it": ("int s = 0; for (int k = 0; k < i % 5; ++k) s += k; " + KEEP.replace("= in[i];", "= s;"), 2),
}  # fmt: skip


def write_text(body: str, lists: int = 1) -> str:
    count = "4000" if lists > 100 else "20000"
    return TEXT.replace("BODY", body).replace("LISTS", str(lists)).replace("20000", count)


def change(text: str, lanes: int = 256, per_lane: int = 4) -> str:
    plan = TransformationPlan((lanes, 1, 1), coarsen=per_lane, places=True)
    return emit_program(read_program(text, "gfx942"), {"keep": plan}, {"keep": (256, 1, 1)})


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("arch", ["gfx942", "gfx90a"])
def test_every_place_is_taken_once(name: str, arch: str) -> None:
    text = write_text(*BODIES[name])
    conditions = Conditions(exact=True, record_bytes=64 << 20)
    before, after = (run_trial(one, target_of(arch), conditions) for one in (text, change(text)))
    assert after.ok, after.message
    unordered = frozenset({("buffer", 1), ("copy", 0)})
    assert differing_outputs(before, after) <= unordered, "the numbers of those taken are the same"
    found = compare_trials(before, after, unordered=UnorderedOutputs(unordered))
    assert found.equal and after.stdout == before.stdout, found.reason
    atomics = [sum(k.counters["TCC_ATOMIC"] for k in one.kernels) for one in (before, after)]
    assert "lists" in name or atomics[1] < atomics[0] / 10


def test_a_group_adds_once() -> None:
    after = run_trial(change(write_text(KEEP), 1024, 8), target_of("gfx942"), Conditions(exact=True, races=True))
    assert sum(k.counters["TCC_ATOMIC"] for k in after.kernels) == 3, "20,000 work-items in groups of 8,192"
    assert not after.races, after.races


def test_elements_before_the_array_are_counted_in_memory() -> None:
    text = write_text(KEEP.replace("&counts[i % LISTS]", "&counts[i % LISTS - 2]"), 3)
    launch = "keep<<<(n + 255) / 256, 256>>>(in, out, counts, n);"
    text = text.replace(launch, "int* middle = counts + 2;\n  " + launch.replace("counts", "middle"))
    before, after = (run_trial(one, target_of("gfx942"), Conditions(exact=True)) for one in (text, change(text)))
    assert after.ok and after.stdout == before.stdout, "two of three lists have a negative subscript"


def test_a_work_item_goes_on_where_it_has_its_place() -> None:
    text = change(write_text(BODIES["elements that conditions load"][0]))
    assert "lane_in_element = in[i];" in text
    assert "{\n  out[lane_places.find(counts, lane_place, 3)] = in_element + in[n - 1 - i];\n}" in text


@pytest.mark.parametrize("condition", ["i < n && (i % 2 || in[i] > 3)", "!(i < n && in[i] > 3)) {} else if (i < n"])
def test_elements_that_need_not_be_loaded_do_not_pass(condition: str) -> None:
    text = change(write_text(f"if ({condition}) out[atomicAdd(counts, 1)] = in[i];"))
    assert "in_element" not in text and "= in[i];" in text


OTHERS = {
    "no use of the result": "if (i < n) atomicAdd(counts, 1);",
    "two additions": KEEP + " if (i < n) out[atomicAdd(counts, 1)] = 0;",
    "another number": KEEP.replace(", 1)", ", in[i])"),
    "a loop": "for (int k = i; k < n; k += 4096) out[atomicAdd(counts, 1)] = in[k];",
    "a condition": "if (i < n && atomicAdd(counts, 1) < 10) out[i] = 1;",
    "a choice": "if (i < n) out[i] = in[i] % 3 ? atomicAdd(counts, 1) : 0;",
    "a store before it": "if (i < n) { out[i] = 2; out[atomicAdd(counts, 1)] = in[i]; }",
    "an array that is read and stored to": "if (i < n && out[i] == 0) out[atomicAdd(counts, 1)] = in[i];",
    "a store after it to what is read": "if (i < n && !out[i]) { const int at = atomicAdd(counts, 1); out[i] = at; }",
    "the number is read": "if (i < n && counts[0] < 50) out[atomicAdd(counts, 1)] = in[i];",
    "a local pointer": "int* p = out; if (i < n) p[atomicAdd(counts, 1)] = in[i];",
    "a type without a name": "if (i >= n) return; const auto value = in[i]; out[atomicAdd(counts, 1)] = value;",
    "a reference": "if (i >= n) return; const int& value = in[i]; out[atomicAdd(counts, 1)] = value;",
    "a function that stores": "if (i < n) { mark(out + i); out[atomicAdd(counts, 1)] = in[i]; }",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_are_left_alone(name: str) -> None:
    with pytest.raises(NotUnderstood):
        change(write_text(OTHERS[name]))


@pytest.mark.parametrize("passed", ["(in, in, counts, n)", "(in, in + 1, counts, n)", "(in, out, out, n)"])
def test_arrays_that_may_overlap_are_left_alone(passed: str) -> None:
    program = read_program(write_text(KEEP).replace("(in, out, counts, n);", f"{passed};"), "gfx942")
    with pytest.raises(NotUnderstood, match="overlap"):
        find_addition(program, program.kernels[0])


def test_other_decisions_about_lanes_are_refused() -> None:
    program = read_program(write_text(KEEP), "gfx942")
    for plan in (
        TransformationPlan((256, 1, 1), coarsen=4, places=True, jam=True),
        TransformationPlan((256, 1, 1), coarsen=4, places=True, aggregate=True),
        TransformationPlan((256, 1, 1), coarsen=4, places=True, split=64),
        TransformationPlan((256, 1, 1), axis=1, coarsen=4, places=True),
    ):
        with pytest.raises(NotUnderstood):
            emit_program(program, {"keep": plan}, {"keep": (256, 1, 1)})
