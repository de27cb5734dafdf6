"""Sums that a group adds up in the LDS first: of words, and of members of a structure."""

from __future__ import annotations

import needs

from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.program_model import read_program
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


def test_members_of_structures_may_be_words() -> None:
    doubles = TEXT.replace("Moments*", "double*").replace("&m->sum", "m").replace("&(*m).squares", "m + 1")
    assert list(atomics.list_plans(view_of(TEXT)))
    assert not list(atomics.list_plans(view_of(doubles.replace("&m[0].count", "m + 2"))))


def test_members_are_added_up_in_the_lds() -> None:
    needs.simulator()
    needs.compiler()
    plan = next(atomics.list_plans(view_of(TEXT)))
    text = emit_program(read_program(TEXT, "gfx942"), {"add_moments": plan}, {"add_moments": (256, 1, 1)})
    runs = [run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=64)) for one in (TEXT, text)]
    assert runs[1].exit_code == 0, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal
    assert runs[1].kernels[0].counters["TCC_ATOMIC"] * 5 < runs[0].kernels[0].counters["TCC_ATOMIC"]
