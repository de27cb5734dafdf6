"""What removing a cause is worth, against handwritten steps that remove causes: none gains more than was promised."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import load_program
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.matrix.job import profile_program
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import WhatIfCause as Cause
from hipsynth.profiling.reports.what_if import WHAT_IFS, answer_what_if, duration_without, what_if_listing
from hipsynth.simulator.limits import RunLimits

CORPUS = Path(__file__).resolve().parents[2] / "corpus" / "handwritten"
DEVICE = "mi300x"
ROUNDING = 1e-9


@functools.cache
def profiled(name: str) -> TargetResult:
    program = load_program(CORPUS / f"{name}.hip")
    (result,) = profile_program(program, [Target("gfx942", "-O3", DEVICE)], "sim", RunLimits())
    assert result.status == "ok", result.message
    return result


def only_kernel(name: str) -> KernelRecord:
    (kernel,) = profiled(name).launches
    return kernel


@pytest.mark.parametrize(
    ("before", "after", "causes", "least"),
    [
        # The same tile, its rows one element longer: nothing else changes, so that the promise is nearly kept.
        ("transpose/transpose_lds", "transpose/transpose_padded", [Cause.LDS_CONFLICTS], 0.95),
        ("stencil2d/stencil2d_column_lanes", "stencil2d/stencil2d_row_lanes", [Cause.COALESCING], 0.8),
        # A sixteenth of the waves, too, whose loads overlap.
        (
            "transpose/transpose_naive",
            "transpose/transpose_padded",
            [Cause.COALESCING, Cause.WAVE_LAUNCH, Cause.LATENCY],
            0.8,
        ),
        # Addresses in structures take arithmetic, too.
        (
            "black_scholes/black_scholes_structs",
            "black_scholes/black_scholes_arrays",
            [Cause.COALESCING, Cause.VECTOR_ALU],
            0.4,
        ),
    ],
)
def test_a_step_gains_at_most_what_was_promised(before: str, after: str, causes: list[Cause], least: float) -> None:
    """`least`: the share of the promise that the step gains; a promise of everything would be kept, too."""
    kernel = only_kernel(before)
    gained = kernel.duration_ns - only_kernel(after).duration_ns
    promised = kernel.duration_ns - duration_without(kernel, DEVICE, causes)
    assert least * promised < gained <= promised


def test_what_a_kernel_does_not_have_is_worth_nothing() -> None:
    answers = {row.cause: row for row in answer_what_if(only_kernel("stencil2d/stencil2d_column_lanes"), DEVICE) or ()}
    assert set(answers) == set(WHAT_IFS)
    for cause in (Cause.LDS, Cause.LDS_CONFLICTS, Cause.ATOMICS, Cause.MATRIX_CORES, Cause.BARRIERS):
        assert abs(answers[cause].worth_percent) < ROUNDING
    assert answers[Cause.OCCUPANCY].worth_percent < ROUNDING, "all wave slots are taken"
    assert answers[Cause.COALESCING].worth_percent > 50


@pytest.mark.parametrize("name", ["transpose/transpose_lds", "stencil2d/stencil2d_column_lanes"])
def test_the_bounds_are_consistent(name: str) -> None:
    """Removing more is worth no less; a stronger assumption is worth no less than a weaker one."""
    kernel = only_kernel(name)
    answers = {row.cause: row.worth_ns for row in answer_what_if(kernel, DEVICE) or ()}
    assert all(0 <= worth < kernel.duration_ns for worth in answers.values())
    everything = kernel.duration_ns - duration_without(kernel, DEVICE, list(WHAT_IFS))
    assert max(answers.values()) <= everything + ROUNDING
    assert answers[Cause.L2_MISSES] <= answers[Cause.L1_MISSES] + ROUNDING <= answers[Cause.MEMORY] + 2 * ROUNDING
    assert answers[Cause.LDS_CONFLICTS] <= answers[Cause.LDS] + ROUNDING
    assert duration_without(kernel, DEVICE, []) == kernel.duration_ns


def test_document_and_text_list_the_causes() -> None:
    result = profiled("transpose/transpose_lds")
    (kernel,) = profile_document("p", "p.hip", [result], what_if=True).results[0].kernels
    assert kernel.what_if is not None
    worths = [row.worth_percent for row in kernel.what_if]
    assert worths == sorted(worths, reverse=True)
    text = what_if_listing([result])
    assert "lds conflicts" in text and text.index("lds conflicts") < text.index("nothing:")
    assert profile_document("p", "p.hip", [result]).results[0].kernels[0].what_if is None


CHASE = """#include <hip/hip_runtime.h>

__global__ void chase(int* out) {
  __shared__ int next[64];
  next[threadIdx.x] = (threadIdx.x + 1) & 63;
  __syncthreads();
  int at = threadIdx.x;
  for (int i = 0; i < 2000; ++i) at = next[at];
  out[threadIdx.x] = at;
}

int main() {
  int* out;
  if (hipMalloc(&out, 256) != hipSuccess) return 1;
  chase<<<1, 64>>>(out);
  return hipDeviceSynchronize();
}
"""


def test_waits_for_the_lds_are_no_waits_for_memory(tmp_path: Path) -> None:
    (tmp_path / "chase.hip").write_text(CHASE)
    program = load_program(tmp_path / "chase.hip")
    (result,) = profile_program(program, [Target("gfx942", "-O3", DEVICE)], "sim", RunLimits())
    (kernel,) = result.launches
    answers = {row.cause: row.worth_percent for row in answer_what_if(kernel, DEVICE) or ()}
    assert answers[Cause.MEMORY] < 10 < 50 < min(answers[Cause.LATENCY], answers[Cause.LDS])
