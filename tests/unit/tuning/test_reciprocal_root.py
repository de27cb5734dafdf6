"""Quotients by square roots: reciprocal roots that are as near to the exact number."""

from __future__ import annotations

import needs
import numpy as np
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes import reciprocal_root
from hipsynth.tuning.trial import Conditions, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <cmath>
#include <vector>
__host__ float on_host(float x) { return 1.0f / sqrtf(x); }
#define HD __host__ __device__
HD float on_both(float x) { return 1.0f / sqrtf(x); }
__device__ float length(float x) { return 2.0f * x / sqrtf(x); }
__global__ void roots(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = BODY;
}
int main() {
  const float special[] = {0.0f, -0.0f, INFINITY, -1.0f, 1e-42f, 3e38f, 1.0f, 0.25f};
  const int n = 4096;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = i < 8 ? special[i] : std::exp2(0.061f * i - 124.0f);
  float *in, *out;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  roots<<<n / 64, 64>>>(in, out, n);
  (void)hipMemcpy(host.data(), in, n * 4, hipMemcpyDeviceToHost);
  (void)hipMemcpy(host.data(), out, n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""


def change(body: str, text: str = PROGRAM) -> str:
    """The program with its roots changed, "" if it has none."""
    kernel = KernelTime("roots", 100.0, 1, "valu", "", (64, 1, 1), (64, 1, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    program = read_program(text.replace("BODY", body), "gfx942")
    return "".join(found.text for found in reciprocal_root.list_changes(program, timed, TARGET))


WRITTEN = {
    "1.0f / sqrtf(in[i])": "rsqrtf(in[i])",
    "-1.f / __fsqrt_rn(in[i] + 1) + 2": "-rsqrtf(in[i] + 1) + 2",
    "in[i] * 3 / sqrtf(in[i])": "in[i] * 3 * rsqrtf(in[i])",
    "2.0f / 1 / sqrtf(in[i])": "2.0f / 1 * rsqrtf(in[i])",
    "(1 / sqrtf(1 / sqrtf(in[i])))": "(rsqrtf(rsqrtf(in[i])))",
}


@pytest.mark.parametrize("body", WRITTEN)
def test_quotients_become_products(body: str) -> None:
    changed = change(body)
    assert f"  out[i] = {WRITTEN[body]};" in changed
    assert "float length(float x) { return 2.0f * x * rsqrtf(x); }" in changed
    assert changed.count("{ return 1.0f / sqrtf(x); }") == 2, "the host's functions stay"


@pytest.mark.parametrize("body", ["sqrtf(in[i]) / 2", "1.0 / sqrt(in[i])", "1.0f / (sqrtf(in[i]) + 1)"])
def test_other_roots_are_left_alone(body: str) -> None:
    assert not change(body, PROGRAM.replace("/ sqrtf(x)", "* sqrtf(x)"))


# What is known of the operand of rsqrtf, or of a root that is divided by.
NORMAL = {
    "1.0f / sqrtf(in[i] * in[i] + 0.01f)": "__frsqrt_rn(in[i] * in[i] + 0.01f)",
    "in[i] / sqrtf(kLeast + fabsf(in[i]))": "in[i] * __frsqrt_rn(kLeast + fabsf(in[i]))",
    "rsqrtf(fmaf(in[i], in[i], EPSILON))": "__frsqrt_rn(fmaf(in[i], in[i], EPSILON))",
    "rsqrtf(fmaxf(in[i], 1e-12f))": "__frsqrt_rn(fmaxf(in[i], 1e-12f))",
    "rsqrtf((in[i] - 1) * 2.0f * (in[i] - 1) / 3 + (1.f + expf(in[i])))": (
        "__frsqrt_rn((in[i] - 1) * 2.0f * (in[i] - 1) / 3 + (1.f + expf(in[i])))"
    ),
    "0; const float d = in[i], r2 = d * d + 1e-9f; out[i] = rsqrtf(r2)": (
        "0; const float d = in[i], r2 = d * d + 1e-9f; out[i] = __frsqrt_rn(r2)"
    ),
}
CONSTANTS = (
    "#define EPSILON 1e-6f  // not less\n#ifndef OTHER\n#define OTHER 1e-6f\n#endif\nconstexpr float kLeast = 0.5f;\n"
)


def change_named(body: str, others: str = "") -> str:
    return change(body, PROGRAM.replace("#include <vector>\n", f"#include <vector>\n{CONSTANTS}{others}"))


@pytest.mark.parametrize("body", NORMAL)
def test_roots_of_normal_numbers_are_one_instruction(body: str) -> None:
    note = "  // Never subnormal: __frsqrt_rn is one instruction.\n"
    assert f"{note}  out[i] = {NORMAL[body]};" in change_named(body)


@pytest.mark.parametrize(
    "body",
    [
        "rsqrtf(in[i] + 0.01f)",  # the element may be -0.01f and a little more
        "rsqrtf(in[i] * in[i + 1] + 0.01f)",
        "rsqrtf(in[i] * in[i])",
        "rsqrtf(in[i] * in[i] - 0.01f)",
        "rsqrtf(in[i] * in[i] + 1e-40f)",
        "rsqrtf(in[i] * in[i] + OTHER)",  # a flag may define it
        "rsqrtf(in[i] * in[i] + n)",
        "rsqrtf(fmaxf(in[i] * in[i] + 1, in[i]))",  # the latter where the former is NaN
        "rsqrtf(fabsf(in[i]) * length(in[i]) + 1)",
        "rsqrtf(in[i] * in[i] + static_cast<int>(0.5f))",
        "0; const int r2 = in[i] * in[i] + 0.5f; out[i] = rsqrtf(r2)",
        "0; float r2 = in[i] * in[i] + 0.5f; r2 *= 1e-38f; out[i] = rsqrtf(r2)",
    ],
)
def test_other_reciprocal_roots_scale_subnormal_numbers(body: str) -> None:
    assert "__frsqrt_rn" not in change_named(body)


def test_operators_of_the_program_prove_nothing() -> None:
    vector = "struct Odd { float x; };\n__device__ float operator*(Odd a, Odd b) { return -a.x * b.x; }\n"
    assert "__frsqrt_rn" not in change_named("rsqrtf(in[i] * in[i] + 1)", vector)


def test_roots_of_normal_numbers_have_the_same_bits() -> None:
    needs.simulator()
    needs.compiler()
    body = "rsqrtf(in[i] * in[i] + 1e-37f)"
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    before, after = (run_trial(one, TARGET, conditions) for one in (PROGRAM.replace("BODY", body), change(body)))
    assert before.recorded is not None and after.recorded is not None, after.message
    assert before.recorded[1] == after.recorded[1]
    vector, scalar = (
        [run.kernels[0].counters[name] for run in (before, after)] for name in ("SQ_INSTS_VALU", "SQ_INSTS_SALU")
    )
    assert vector[1] < vector[0] and scalar[1] <= scalar[0]


def test_results_are_as_near_to_the_exact_ones() -> None:
    needs.simulator()
    needs.compiler()
    body = "1.0f / sqrtf(in[i])"
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    before, after = (run_trial(one, TARGET, conditions) for one in (PROGRAM.replace("BODY", body), change(body)))
    assert before.recorded is not None and after.recorded is not None, after.message
    given, old, new = (np.frombuffer(data, np.float32) for data in (
        before.recorded[0], before.recorded[1], after.recorded[1]))  # fmt: skip
    assert np.array_equal(old[:5][~np.isnan(old[:5])], new[:5][~np.isnan(new[:5])]) and np.isnan(new[3])
    with np.errstate(all="ignore"):
        exact = 1 / np.sqrt(given.astype(np.float64))
    ulp = np.spacing(new[4:].astype(np.float64).astype(np.float32)).astype(np.float64)
    assert (np.abs(new[4:] - exact[4:]) <= 1.0 * ulp)[np.isfinite(exact[4:])].all()
    assert (np.abs(old[4:] - exact[4:]) > 0.5 * ulp).any(), "two roundings are not correct rounding either"
    instructions = [run.kernels[0].counters["SQ_INSTS_VALU"] for run in (before, after)]
    assert instructions[1] < 0.7 * instructions[0]
