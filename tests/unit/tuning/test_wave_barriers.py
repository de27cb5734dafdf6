"""Barriers of trees in the LDS: which become barriers of a wavefront, that programs do the same, and what is left
alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.wave_barriers import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
#define EDGE 32
// Adds two elements.
__device__ void join(float* sums, int a, int b) { sums[a] += sums[b]; }
// Sums of groups.
template <unsigned int size>
__global__ void k(const float* in, float* out, int n) {
  __shared__ float sums[256];
  const int tid = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * size + tid; i < n; i += gridDim.x * size) sum += in[i];
  sums[tid] = sum;
  __syncthreads();
  BODY
  const float total = sums[0];
  if (tid == 0) out[blockIdx.x] = total;
  if (tid == size - 1) out[3 + blockIdx.x] = total;
}
int main() {
  const int groups = 3, n = 5000;
  std::vector<float> host(n), back(6);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 23;
  float *in, *out;
  if (hipMalloc(&in, n * sizeof(float)) || hipMalloc(&out, 6 * sizeof(float))) return 1;
  (void)hipMemcpy(in, host.data(), n * sizeof(float), hipMemcpyHostToDevice);
  k<SIZE><<<groups, BLOCK>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, 6 * sizeof(float), hipMemcpyDeviceToHost);
  return 0;
}
"""


def step(distance: str, barrier: str = "__syncthreads();") -> str:
    return f"if (tid < {distance}) join(sums, tid, tid + {distance});\n  {barrier}\n  "


DISTANCES = (128, 64, 32, 16, 8, 4, 2, 1)
STEPS = "".join(step(str(distance)) for distance in DISTANCES)
UNDER_SIZES = "".join(f"if (size >= {2 * distance}) {{\n    {step(str(distance))}}}\n  " for distance in DISTANCES)
LOOP = """for (int s = size / 2; s > 0; s >>= 1) {
    if (tid < s) sums[tid] += sums[tid + s];
    __syncthreads();
  }"""
SAME = {
    "steps": (STEPS, 6),
    "steps of sizes": (UNDER_SIZES, 6),
    "a constant's steps": (STEPS.replace("(tid < 32)", "(threadIdx.x < EDGE)").replace("(tid < 1)", "(tid == 0)"), 6),
    "a loop": (LOOP, 1),
    "a loop of another form": (LOOP.replace("s >>= 1", "s = s / 2").replace("s > 0", "s >= 1"), 1),
}


def write(body: str, size: int = 256, block: str = "256") -> str:
    return PROGRAM.replace("BODY", body).replace("SIZE", str(size)).replace("BLOCK", block)


def change(text: str, block: tuple[int, int, int] = (256, 1, 1)) -> str:
    kernel = KernelTime("k", 100.0, 1, "lds", "", (3, 1, 1), block, True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 100.0)  # type: ignore[arg-type]
    return "".join(each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET))


@pytest.mark.parametrize("size", [256, 64])
@pytest.mark.parametrize("name", SAME)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(name: str, size: int) -> None:
    needs.simulator()
    needs.compiler()
    body, count = SAME[name]
    if size < 256:
        body = body.replace(step("128"), "").replace(step("64"), "")
        count -= count == len(DISTANCES) - 2
    text = write(body, size, str(size))
    changed = change(text)
    assert changed.count("sync_wavefront();") == count
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20, races=True)) for one in (text, changed)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert not runs[1].races
    assert compare_trials(*runs, Tolerance()).equal


def test_the_last_barrier_of_a_loop_stands_behind_it() -> None:
    changed = change(write(LOOP))
    assert "    if (s > 64) __syncthreads(); else sync_wavefront();\n  }\n  __syncthreads();\n" in changed
    assert '"wavefront");\n}\n\n// Sums of groups.\ntemplate <unsigned int size>\n' in changed, "above the comment"


LEFT_ALONE = {
    "steps of two wavefronts": step("128") + step("128"),
    "a step that all work-items follow": step("32") + "sums[tid] += sums[0] * 0;\n  __syncthreads();",
    "a step that follows one of all": "sums[tid] *= 2;\n  " + step("32"),
    "a step after which other work-items read": step("32"),
    "a barrier of its own in a step": "if (tid < 32) { __syncthreads(); }\n  __syncthreads();\n  " + step("16"),
    "sizes that leave the next step out": f"if (size >= 64) {{\n    {step('32')}}}\n  if (size >= 128) {{\n    "
    f"{step('16')}}}",
    "another index": step("32").replace("(tid <", "(tid / 2 <") + step("16").replace("(tid <", "(tid / 2 <"),
    "a loop that ends early": LOOP.replace("s > 0", "s > 1"),
    "a loop over a third": LOOP.replace("s >>= 1", "s /= 3"),
    "a loop with another statement": LOOP.replace("__syncthreads();", "__syncthreads();\n    sums[tid] += 0;"),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_barriers_that_others_need_stay(name: str) -> None:
    assert change(write(LEFT_ALONE[name])) == ""


def test_groups_of_two_dimensions_keep_their_barriers() -> None:
    assert change(write(STEPS, block="dim3(32, 8)"), (32, 8, 1)) == ""
    assert change(write(STEPS, block="dim3(32, 8)")) == "", "another launch than the one that was timed"
    assert change(write(STEPS, block="dim3(256)")) != ""
