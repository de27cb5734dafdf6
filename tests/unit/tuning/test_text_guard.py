"""Kernels whose source was changed, and that are launched for some sizes alone."""

from __future__ import annotations

import re

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard
from hipsynth.tuning.optimize.source_changes import SOURCE_CHANGES
from hipsynth.tuning.optimize.text_guard import find_changed_kernel
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
GUARD = SizeGuard("n", ">=", 64)
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
#define SIDE 16
__global__ void work(const float* a, const float* b, float* c, int n) {
  const int col = blockIdx.x * SIDE + threadIdx.x, row = blockIdx.y * SIDE + threadIdx.y;
  BODY
}
__global__ void twice(float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] *= 2;
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 64;
  std::vector<float> host(n * n);
  for (int i = 0; i < n * n; ++i) host[i] = 0.05f * (i * 7 % 23) - 0.3f;
  float *a, *b, *c;
  if (hipMalloc(&a, n * n * 4) || hipMalloc(&b, n * n * 4) || hipMalloc(&c, n * n * 4)) return 1;
  (void)hipMemcpy(a, host.data(), n * n * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, host.data(), n * n * 4, hipMemcpyHostToDevice);
  work<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(SIDE, SIDE)>>>(a, b, c, n);
  twice<<<(n * n + 63) / 64, 64>>>(c, n * n);
  work<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(SIDE, SIDE)>>>(c, b, a, n);
  (void)hipMemcpy(host.data(), a, n * n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
BODIES = {
    "split_k": "if (row >= n || col >= n) return;\n  float sum = 0;\n"
    "  for (int i = 0; i < n; ++i) sum += a[row * n + i] * b[i * n + col];\n  c[row * n + col] = sum;",
    "one_pass": "const int me = row * n + col;\n  if (me >= n) return;\n  float most = a[me * n];\n"
    "  for (int i = 0; i < n; ++i) most = fmaxf(most, a[me * n + i]);\n  float sum = 0;\n"
    "  for (int i = 0; i < n; ++i) sum += expf(a[me * n + i] - most);\n"
    "  for (int i = 0; i < n; ++i) c[me * n + i] = expf(a[me * n + i] - most) / sum;",
    "retile": "__shared__ float x[SIDE][SIDE], y[SIDE][SIDE];\n  float sum = 0;\n"
    "  for (int t = 0; t < n; t += SIDE) {\n    x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];\n"
    "    y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];\n    __syncthreads();\n"
    "    for (int i = 0; i < SIDE; ++i) sum += x[threadIdx.y][i] * y[i][threadIdx.x];\n    __syncthreads();\n  }\n"
    "  c[row * n + col] = sum;",
}


def change(kind: str) -> tuple[str, str]:
    """A program, and it with its source changed; of a template where the kind says so."""
    text = PROGRAM.replace("BODY", BODIES[kind.removesuffix(" of a template")])
    if kind.endswith(" of a template"):
        text = text.replace("__global__ void work", "template <int SIDE>\n__global__ void work")
        text = (
            text.replace("#define SIDE 16\n", "").replace("work<<<", "work<16><<<").replace("(SIDE, SIDE)", "(16, 16)")
        )
    kind = kind.removesuffix(" of a template")
    kernel = KernelTime("work", 100.0, 2, "lds", "", (4, 4, 1), (16, 16, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    changes = SOURCE_CHANGES[kind].list_changes(read_program(text, "gfx942"), timed, TARGET)
    return text, list(changes)[-1].text


@pytest.mark.parametrize("kind", [*BODIES, "retile of a template"])
def test_the_original_kernel_is_launched_for_other_sizes(kind: str) -> None:
    needs.simulator()
    needs.compiler()
    text, changed = change(kind)
    program = read_program(text, "gfx942")
    found = find_changed_kernel(program, read_program(changed, "gfx942"))
    assert found.kernel.name == "work"
    guarded = found.write_guarded(program, GUARD)
    assert guarded.count("if (n >= 64) {  // for other sizes, the first kernel is faster") == 2
    start = "template" if kind.endswith("template") else "__global__ void work"
    definition = text[text.index(start) : text.index("__global__ void twice")]
    assert guarded.count(definition.rstrip()) == 1 and guarded.count("__global__ void work(") == 1
    launched = []
    for size in ("48", "64"):
        conditions = Conditions((size,), exact=True, record_bytes=1 << 20)
        before, after = (run_trial(one, TARGET, conditions) for one in (text, guarded))
        assert compare_trials(before, after, Tolerance("float", 1e-5, "sums in another order")).equal, after.message
        launched.append({re.split("[(<]", kernel.name)[0] for kernel in after.kernels} - {"twice"})
    assert launched[0] == {"work"} and "work" not in launched[1] and launched[1]


def test_other_host_code_has_no_guard() -> None:
    text, changed = change("split_k")
    program = read_program(text, "gfx942")
    for other in (changed.replace("return 1;", "return 2;"), changed.replace("c[i] *= 2", "c[i] *= 3"), text):
        with pytest.raises(NotUnderstood):
            find_changed_kernel(program, read_program(other, "gfx942"))
