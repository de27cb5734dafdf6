"""Loops that stride over their grid: which launches get fewer groups, that programs do the same, and what is left
alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.stride_groups import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
__global__ void k(const float* in, float* out, long long n) {
  BODY
}
int main() {
  const long long n = 70001;
  std::vector<float> host(n), back(n);
  for (long long i = 0; i < n; ++i) host[i] = i * 7 % 23;
  float *in, *out;
  if (hipMalloc(&in, n * sizeof(float)) || hipMalloc(&out, n * sizeof(float))) return 1;
  (void)hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  const int groups = (n + 255) / 256;
  const dim3 grid(groups);
  LAUNCH
  (void)hipMemcpy(back.data(), out, n * sizeof(float), hipMemcpyDeviceToHost);
  return 0;
}
"""
LOOP = """for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
    const float x = in[i];
    out[i] = x * x;
  }"""
NAMED = """const long long first = threadIdx.x + blockIdx.x * blockDim.x;
  const long long step = (long long)blockDim.x * gridDim.x;
  for (long long i = first; i < n; i += step) {
    if (in[i] > 20) continue;
    out[i] = in[i] + 1;
  }"""
OWN = """for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 2; i += blockDim.x * gridDim.x) {
    const long long at = 2 * i + 1;
    out[at] = in[at];
    out[at] += in[i];
    ++out[at];
  }"""
OPEN = """int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < n; i += (int64_t)blockDim.x * gridDim.x) out[i] = in[i] - 1;"""
PLAIN = "k<<<groups, 256>>>(in, out, n);"
LAUNCHES = {
    PLAIN: "k<<<std::min<unsigned>(groups, 256), 256>>>(in, out, n);",
    "k<<<dim3((n + 255) / 256), dim3(256)>>>(in, out, n);": (
        "k<<<dim3(std::min<unsigned>((n + 255) / 256, 256)), dim3(256)>>>(in, out, n);"
    ),
    "k<<<grid, dim3(256)>>>(in, out, n);": (
        "k<<<dim3(std::min<unsigned>(grid.x, 256), grid.y, grid.z), dim3(256)>>>(in, out, n);"
    ),
    "hipLaunchKernelGGL(k, dim3(groups), dim3(256), 0, 0, in, out, n);": (
        "hipLaunchKernelGGL(k, dim3(std::min<unsigned>(groups, 256)), dim3(256), 0, 0, in, out, n);"
    ),
}


def write(body: str, launch: str = PLAIN) -> str:
    return PROGRAM.replace("BODY", body).replace("LAUNCH", launch)


def change(text: str, groups: int = 274) -> str:
    kernel = KernelTime("k", 100.0, 1, "lds", "", (groups, 1, 1), (256, 1, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 100.0)  # type: ignore[arg-type]
    return "".join(each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET))


@pytest.mark.parametrize("body", [LOOP, NAMED, OPEN, OWN, f"{LOOP}\n  {NAMED}"])
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(body: str) -> None:
    needs.simulator()
    needs.compiler()
    text = write(body)
    changed = change(text)
    assert LAUNCHES[PLAIN] in changed
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (text, changed)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance()).equal


@pytest.mark.parametrize("launch", LAUNCHES)
def test_launches_are_changed_in_their_own_form(launch: str) -> None:
    assert LAUNCHES[launch] in change(write(LOOP, launch))


def test_fewer_groups_become_fewer_still() -> None:
    once = change(write(LOOP))
    assert "std::min<unsigned>(groups, 128), 256>>>" in change(once, 256)
    assert not change(once, 100), "a launch of few groups"


LEFT_ALONE = {
    "a kernel without a loop": "const int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n) out[i] = in[i];",
    "a store beside the loop": f"out[blockIdx.x] = 1;\n  {LOOP}",
    "a sum of the work-item": "float sum = 0;\n  " + LOOP.replace("out[i] = x * x;", "sum += x; out[i] = sum;"),
    "an iteration that knows its group": LOOP.replace("x * x", "x * blockIdx.x"),
    "an iteration that knows the stride": NAMED.replace("in[i] + 1", "in[i] + step"),
    "an iteration that ends the loop": LOOP.replace("const float x", "if (i > 9) break;\n    const float x"),
    "another stride": LOOP.replace("blockDim.x * gridDim.x", "blockDim.x"),
    "an end that the group decides": "const long long end = blockIdx.x % 8 == 7 ? n / 2 : n;\n  "
    + LOOP.replace("i < n", "i < end"),
    "an element of the work-item": LOOP.replace("out[i] = x * x;", "out[i % 65536] += x;"),
    "such an element by a name": LOOP.replace("out[i] = x * x;", "const int to = i & 65535; out[to] = out[to] + x;"),
    "such an element by an address": LOOP.replace("out[i] = x * x;", "*(out + i % 65536) += x;"),
    "an element of all": LOOP.replace("out[i] = x * x;", "*out += x;"),
    "another beginning": LOOP.replace("+ threadIdx.x", "+ 2 * threadIdx.x"),
    "another condition": LOOP.replace("i < n", "i != n"),
    "a parameter that moves": LOOP.replace("const float x", "out += 1;\n    const float x"),
    "a pointer that moves": "float* to = out;\n  " + LOOP.replace("out[i] = x * x;", "to[i] = x; to += 2;"),
    "an atomic": LOOP.replace("out[i] = x * x;", "atomicAdd(out, x);"),
    "another atomic": LOOP.replace("out[i] = x * x;", "unsafeAtomicAdd(out, x);"),
    "a vote": LOOP.replace("x * x", "x * __any(x > 0)"),
    "the time": LOOP.replace("x * x", "x * clock64()"),
}


@pytest.mark.parametrize("where", ["x * of()", "x + of()"])
def test_functions_that_know_their_group_are_left_alone(where: str) -> None:
    function = "__device__ float of() { return blockIdx.x; }\n__global__"
    text = write(LOOP.replace("x * x", where)).replace("__global__", function, 1)
    assert change(text) == ""


def test_functions_outside_of_the_loops_are_left_alone() -> None:
    function = "__device__ float mark(float* p) { return p[0] = 1; }\n__global__"
    text = write(f"const float y = mark(out);\n  {LOOP}").replace("__global__", function, 1)
    assert change(text) == ""


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_other_kernels_keep_their_groups(name: str) -> None:
    assert change(write(LEFT_ALONE[name])) == ""
