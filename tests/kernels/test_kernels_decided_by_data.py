"""Kernels whose addresses and loops follow from arrays, as those of sparse matrices: previews and samples of them."""

from __future__ import annotations

import math
from pathlib import Path

import needs
import pytest

import hipsynth
from hipsynth.training.models.documents import KernelPrediction, SimulatedKernel

SEGMENTS = """#include <hip/hip_runtime.h>
#include <vector>
__global__ void sum_segments(const int* first, const float* x, float* sums) {
  float sum = 0;  // the bounds are the same for a wave: scalar loads
  for (int i = first[blockIdx.x] + threadIdx.x; i < first[blockIdx.x + 1]; i += 64) sum += x[i];
  atomicAdd(&sums[blockIdx.x], sum);
}
struct Sizes { const float* from; int count; };
__global__ void copy(Sizes sizes, float* to) {
  for (int i = blockIdx.x * 64 + threadIdx.x; i < sizes.count; i += gridDim.x * 64) to[i] = sizes.from[i];
}
int main() {
  const int segments = 20000;
  std::vector<int> first(segments + 1);
  for (int i = 0; i < segments; ++i) first[i + 1] = first[i] + (i % 7) * 30;
  const int count = first[segments];
  int* places;
  float *x, *sums;
  hipMalloc(&places, first.size() * 4);
  hipMalloc(&x, count * 4);
  hipMalloc(&sums, count * 4);
  hipMemcpy(places, first.data(), first.size() * 4, hipMemcpyHostToDevice);
  sum_segments<<<segments, 64>>>(places, x, sums);
  copy<<<256, 64>>>(Sizes{x, count}, sums);
  return hipDeviceSynchronize();
}
"""
SPARSE = """#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void csr(const int* first, const int* column, const float* value, const float* x, float* y, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int k = first[row]; k < first[row + 1]; ++k) sum += value[k] * x[column[k]];
  y[row] = sum;
}
int main(int argc, char** argv) {
  const int rows = argc > 1 ? atoi(argv[1]) : 50000;
  std::vector<int> first(rows + 1), column;
  for (int row = 0; row < rows; ++row) {
    for (int k = 0; k < 4 + row * 31 % 60; ++k) column.push_back((row * 17ll + k * 991) % rows);
    first[row + 1] = column.size();
  }
  int *places, *columns;
  float *value, *x, *y;
  hipMalloc(&places, first.size() * 4);
  hipMalloc(&columns, column.size() * 4);
  hipMalloc(&value, column.size() * 4);
  hipMalloc(&x, rows * 4);
  hipMalloc(&y, rows * 4);
  hipMemcpy(places, first.data(), first.size() * 4, hipMemcpyHostToDevice);
  hipMemcpy(columns, column.data(), column.size() * 4, hipMemcpyHostToDevice);
  csr<<<(rows + 255) / 256, 256>>>(places, columns, value, x, y, rows);
  return hipDeviceSynchronize();
}
"""


def predicted(folder: Path, text: str, *, check: bool = True) -> list[tuple[KernelPrediction, SimulatedKernel | None]]:
    """The prediction of each kernel, and what an execution gives."""
    needs.simulator()
    (folder / "p.hip").write_text(text)
    (result,) = hipsynth.predict(folder / "p.hip", arch="gfx942", check=check).results
    executed = result.executed or [None] * len(result.kernels)
    return [(k, e if isinstance(e, SimulatedKernel) else None) for k, e in zip(result.kernels, executed, strict=True)]


def test_bounds_that_scalar_loads_read_are_those_that_the_host_wrote(tmp_path: Path) -> None:
    (segments, executed), (copy, _) = predicted(tmp_path, SEGMENTS)
    assert executed is not None and segments.duration_ns == pytest.approx(executed.duration_ns, rel=0.01)
    for metric in ("L2_Cache_Hit_Rate", "L1_Cache_Hit_Rate", "HBM_Arithmetic_Intensity"):
        assert segments.metrics[metric] == pytest.approx(executed.metrics[metric], rel=0.02), metric
    assert any("depend on data that was recorded" in line for line in segments.why)
    assert not any("depend on data" in line for line in copy.why), "its arguments are no data"


def test_a_sparse_product_whose_sample_says_nothing_runs_in_full(tmp_path: Path) -> None:
    ((kernel, executed),) = predicted(tmp_path, SPARSE)
    assert executed is not None and kernel.duration_ns == pytest.approx(executed.duration_ns, rel=0.05)
    assert not kernel.abstained
    (sampled,) = hipsynth.profile(tmp_path / "p.hip", arch="gfx942", args=["200000"]).results[0].kernels
    (exact,) = hipsynth.profile(tmp_path / "p.hip", arch="gfx942", args=["200000"], exact=True).results[0].kernels
    assert sampled.sampled and not exact.sampled
    assert sampled.duration_ns == pytest.approx(exact.duration_ns, rel=0.02)
    assert sampled.counters["TCC_MISS"] == pytest.approx(exact.counters["TCC_MISS"], rel=0.02)


def test_a_sample_that_says_little_has_a_wide_interval(tmp_path: Path) -> None:
    ((kernel, _),) = predicted(tmp_path, SPARSE.replace(": 50000", ": 20000"), check=False)
    low, high = kernel.intervals["duration_ns"]
    assert math.log(high / low) > 1 and kernel.abstained and "does not tell how long" in kernel.reason


OUTSIDE = """#include <hip/hip_runtime.h>
__global__ void fill(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = i;
}
int main() {
  float* x;
  hipMalloc(&x, 4000);
  fill<<<4, 256>>>(x, 1000);
  return hipDeviceSynchronize();
}
"""


def test_accesses_outside_of_arrays_are_said(tmp_path: Path) -> None:
    ((kernel, _),) = predicted(tmp_path, OUTSIDE, check=False)
    assert kernel.out_of_bounds == 24 and not kernel.abstained
    (result,) = hipsynth.predict(tmp_path / "p.hip", arch="gfx942").results
    assert any(note.startswith("fill: 24 accesses lie outside") for note in result.notes)


def test_kernels_without_main_get_larger_buffers_where_they_leave_theirs(tmp_path: Path) -> None:
    text = """__global__ void sums(const float* in, float* out, int cols) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int c = 0; c < cols; ++c) sum += in[(size_t)row * cols + c];
  out[row] = sum;
}
"""
    ((kernel, _),) = predicted(tmp_path, text, check=False)
    (profiled,) = hipsynth.profile(tmp_path / "p.hip", arch="gfx942").results[0].kernels
    assert kernel.grid == profiled.grid and not kernel.out_of_bounds
    assert kernel.duration_ns == pytest.approx(profiled.duration_ns, rel=0.02)
