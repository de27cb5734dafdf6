"""Additions of a group to one address: what becomes the sum of a wavefront, that programs do the same, and what is left
alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.wave_sums import list_changes
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
__global__ void k(const TYPE* in, TYPE* out, TYPE* all, int n) {
  BODY
}
int main() {
  const int groups = 3, n = 700;
  std::vector<TYPE> host(n + 2000), back(8);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 23;
  TYPE *in, *out, *all;
  if (hipMalloc(&in, host.size() * sizeof(TYPE)) || hipMalloc(&out, 8 * sizeof(TYPE)) || hipMalloc(&all, 64)) return 1;
  (void)hipMemcpy(in, host.data(), host.size() * sizeof(TYPE), hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, 8 * sizeof(TYPE));
  (void)hipMemset(all, 0, 64);
  k<<<groups, SIZE>>>(in, out, all, n);
  (void)hipMemcpy(back.data(), out, 8 * sizeof(TYPE), hipMemcpyDeviceToHost);
  (void)hipMemcpy(back.data(), all, 8, hipMemcpyDeviceToHost);
  return 0;
}
"""
LDS = "__shared__ TYPE total, parts[4];\n  if (threadIdx.x < 4) total = parts[threadIdx.x] = 0;\n  __syncthreads();\n  "
INDEX = "const int i = blockIdx.x * blockDim.x + threadIdx.x;\n  "
STORE = "\n  __syncthreads();\n  if (threadIdx.x == 0) out[blockIdx.x] = total + parts[2];"
SAME = {
    "a variable of the LDS": f"{LDS}{INDEX}atomicAdd(&total, in[i]);{STORE}",
    "an element, under a condition": f"{LDS}{INDEX}const int at = 2;\n  if (i < n - 3) {{\n    "
    f"atomicAdd(&parts[at], in[i] + 1);\n  }}{STORE}",
    "memory": f"{INDEX}atomicAdd(all, in[i]);\n  atomicAdd(out + blockIdx.x, static_cast<TYPE>(2));",
}


def write(body: str, kind: str = "float", size: int = 192) -> str:
    return PROGRAM.replace("BODY", body).replace("TYPE", kind).replace("SIZE", str(size))


def change(text: str) -> str:
    kernel = KernelTime("k", 100.0, 1, "lds", "", (3, 1, 1), (192, 1, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    return "".join(each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET))


@pytest.mark.parametrize("kind", ["float", "double", "int", "unsigned int"])
@pytest.mark.parametrize("name", SAME)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(name: str, kind: str) -> None:
    needs.simulator()
    needs.compiler()
    text = write(SAME[name], kind)
    changed = change(text)
    assert changed.count("__shfl_xor") == SAME[name].count("atomicAdd")
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (text, changed)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal


def test_a_wavefront_adds_once() -> None:
    changed = change(write(SAME["an element, under a condition"]))
    assert (
        "  {\n    const bool adds = i < n - 3;\n    float wave_sum = 0;\n    if (adds) wave_sum = in[i] + 1;\n"
        "    for (int distance = 32; distance > 0; distance /= 2) wave_sum += __shfl_xor(wave_sum, distance);\n"
        "    if (__any(adds) && threadIdx.x % 64 == 0) atomicAdd(&parts[at], wave_sum);\n  }\n" in changed
    )


LEFT_ALONE = {
    "an address for each work-item": f"{LDS}{INDEX}atomicAdd(&parts[threadIdx.x % 4], in[i]);{STORE}",
    "an address by a number of the work-item": f"{LDS}{INDEX}atomicAdd(&out[i], in[i]);{STORE}",
    "behind a return": f"{LDS}{INDEX}if (i >= n) return;\n  atomicAdd(&total, in[i]);",
    "in a loop": f"{LDS}{INDEX}for (int j = 0; j < i; ++j) atomicAdd(&total, in[j]);{STORE}",
    "with a result": f"{LDS}{INDEX}out[i % 8] = atomicAdd(&total, in[i]);",
    "one of two branches": f"{LDS}{INDEX}if (i < n) atomicAdd(&total, in[i]); else atomicAdd(&total, 1);{STORE}",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_additions_are_left_alone(what: str) -> None:
    assert not change(write(LEFT_ALONE[what]))


def test_parts_of_wavefronts_and_other_types_are_left_alone() -> None:
    body = SAME["a variable of the LDS"]
    assert not change(write(body, size=96)) and not change(write(body, kind="unsigned long long"))
