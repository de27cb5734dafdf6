"""Groups that add to one number: which take turns, that programs do the same, and what is left alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes import group_turns
from hipsynth.tuning.optimize.source_changes.group_turns import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
FUNCTION
__global__ void k(const TYPE* in, TYPE* out, TYPE* all, int n) {
  BODY
}
int main() {
  const int n = 700, rows = 37;
  std::vector<TYPE> host(n), back(rows);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 23;
  TYPE *in, *out, *all;
  if (hipMalloc(&in, n * sizeof(TYPE)) || hipMalloc(&out, rows * sizeof(TYPE)) || hipMalloc(&all, 64)) return 1;
  (void)hipMemcpy(in, host.data(), n * sizeof(TYPE), hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, rows * sizeof(TYPE));
  (void)hipMemset(all, 0, 64);
  LAUNCH
  (void)hipMemcpy(back.data(), out, rows * sizeof(TYPE), hipMemcpyDeviceToHost);
  (void)hipMemcpy(back.data(), all, 64, hipMemcpyDeviceToHost);
  return 0;
}
"""
LAUNCH = "k<<<rows, 128>>>(in, out, all, n);"
TREE = """__shared__ TYPE part[128];
  const int tid = threadIdx.x, row = blockIdx.x;
  if (row * 19 >= n) return;
  part[tid] = tid < 19 && row * 19 + tid < n ? in[row * 19 + tid] : 0;
  __syncthreads();
  for (int s = 64; s > 0; s /= 2) {
    if (tid < s) part[tid] += part[tid + s];
    __syncthreads();
  }
  out[blockIdx.x] = gridDim.x;
  ADD"""
BY_FIRST = TREE.replace("ADD", "if (tid == 0) {\n    atomicAdd(&all[2], part[0]);\n  }")
BY_ALL = """const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(all, in[i]);
  if (threadIdx.x == 0) atomicAdd(out, static_cast<TYPE>(blockIdx.x + 1));"""


def write(body: str, kind: str = "float", launch: str = LAUNCH, function: str = "") -> str:
    text = PROGRAM.replace("BODY", body).replace("LAUNCH", launch).replace("FUNCTION", function)
    return text.replace("TYPE", kind)


def change(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(group_turns, "GROUPS", (8,))
    kernel = KernelTime("k", 100.0, 1, "lds", "", (37, 1, 1), (128, 1, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 100.0)  # type: ignore[arg-type]
    return "".join(each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET))


@pytest.mark.parametrize("kind", ["float", "double", "int", "unsigned int"])
@pytest.mark.parametrize("body", [BY_FIRST, BY_ALL])
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(body: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.simulator()
    needs.compiler()
    text = write(body, kind)
    changed = change(text, monkeypatch)
    assert "k<<<std::min<unsigned>(rows, 8), 128>>>(in, out, all, n, rows);" in changed
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20, races=True)) for one in (text, changed)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert not runs[1].races
    assert compare_trials(*runs, Tolerance("float", 1e-5, "sums in another order")).equal


def test_the_diff_is_a_loop_around_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = change(write(BY_FIRST), monkeypatch)
    assert (
        "float* all, int n, unsigned groups) {\n"
        "  float group_sum = 0;\n"
        "  for (unsigned group = blockIdx.x; group < groups; group += gridDim.x) {\n"
        "    __syncthreads();  // the turn before has read what it left in the LDS\n"
        "    __shared__ float part[128];\n"
        "    const int tid = threadIdx.x, row = group;\n"
        "    if (row * 19 >= n) continue;\n"
    ) in changed
    assert "    out[group] = groups;\n    if (threadIdx.x == 0) group_sum += part[0];\n  }\n" in changed
    assert "  if (threadIdx.x == 0) atomicAdd(&all[2], group_sum);\n}\n" in changed


def test_grids_of_more_axes_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = "k<<<dim3((n + 18) / 19, 2), 128>>>(in, out, all, n);"
    changed = change(write(BY_FIRST, launch=launch), monkeypatch)
    assert "k<<<dim3(std::min<unsigned>((n + 18) / 19, 8), 2, 1), 128>>>(in, out, all, n, (n + 18) / 19);" in changed


LEFT_ALONE = {
    "an address for each group": BY_FIRST.replace("&all[2]", "&out[blockIdx.x]"),
    "a number that the kernel reads": BY_FIRST.replace("gridDim.x;", "all[1];"),
    "a result that is used": BY_FIRST.replace("    atomicAdd", "    out[1] = atomicAdd"),
    "an addition of another work-item": BY_FIRST.replace("tid == 0", "tid == 1"),
    "an addition in a loop": "for (int j = 0; j < 2; ++j) atomicAdd(all, in[j]);",
    "work-items that leave a group with barriers": BY_FIRST.replace("if (row * 19 >= n)", "if (row * 19 + tid >= n)"),
    "a return from a loop": BY_ALL.replace("if (i >= n)", "for (int j = 0; j < 3; ++j) if (i + j >= n)"),
    "a parameter that moves": BY_FIRST.replace("if (row * 19 >= n)", "in += row;\n  if (row * 19 >= n)"),
    "a parameter that moves as it is read": BY_FIRST.replace("part[tid] =", "part[tid] = *in++ +"),
    "a fence": BY_FIRST.replace("out[blockIdx.x] = gridDim.x;", "__threadfence();"),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_kernels_keep_their_groups(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert change(write(LEFT_ALONE[name]), monkeypatch) == ""


@pytest.mark.parametrize("groups", ["next_rows(n)", "next_rows (n) / 2", "left++", "n > 9 ? 2 : rows"])
def test_a_number_of_groups_that_changes_something_is_not_written_twice(
    groups: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = f"int left = rows;\n  k<<<{groups}, 128>>>(in, out, all, n);\n  (void)left;"
    function = "static int next_rows(int n) { static int calls = 0; return n / 19 + calls++; }"
    assert change(write(BY_FIRST, launch=launch, function=function), monkeypatch) == ""


@pytest.mark.parametrize("groups", ["dim3(host.size() / 19).x", "((n + 18) / 19)", "2 * (n / 38) + 1"])
def test_a_number_of_groups_without_calls_is_written_twice(groups: str, monkeypatch: pytest.MonkeyPatch) -> None:
    launch = f"k<<<{groups.removeprefix('dim3(').removesuffix(').x')}, 128>>>(in, out, all, n);"
    assert f"(in, out, all, n, {groups});" in change(write(BY_FIRST, launch=launch), monkeypatch)


def test_macros_that_know_their_group_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    macros = "#define BX blockIdx.x\n#define FIRST (BX * 19)"
    text = write(BY_FIRST.replace("row = blockIdx.x", "row = FIRST / 19"), function=macros)
    assert change(text, monkeypatch) == ""


@pytest.mark.parametrize(
    "head", ["__device__", "#define DEV __device__ __forceinline__\nDEV", "#define D __device__\n#define DEV D\nDEV"]
)
def test_functions_that_know_their_group_are_left_alone(head: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function = f"{head} int row_of() {{ return blockIdx.x; }}"
    text = write(BY_FIRST.replace("row = blockIdx.x", "row = row_of()"), function=function)
    assert change(text, monkeypatch) == ""
