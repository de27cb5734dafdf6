"""The least time of a kernel: what its bytes or its arithmetic need, behind the launch."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path

import needs

import hipsynth
from studies.headroom import ProgramHeadroom, find_least_ns

STREAM = """#include <hip/hip_runtime.h>
__global__ void copy(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];
}
"""


def test_a_stream_needs_its_bytes_and_a_launch(tmp_path: Path) -> None:
    needs.simulator()
    needs.compiler()
    path = tmp_path / "copy.hip"
    path.write_text(STREAM)
    with warnings.catch_warnings(action="ignore"):
        (result,) = hipsynth.profile(path, arch="gfx942", values={"n": 1 << 24}).measured
    (kernel,) = result.kernels
    assert kernel.limits is not None
    bounds, least = kernel.limits.bounds, find_least_ns(kernel)
    assert math.isclose(least, bounds["launch"] + bounds["hbm"])
    assert kernel.duration_ns / 2 < least < kernel.duration_ns, "a stream is bound by its bytes"
    assert find_least_ns(replace(kernel, limits=None)) == kernel.duration_ns
    assert find_least_ns(replace(kernel, duration_ns=1.0)) == 1.0


def test_the_ratio_is_what_could_be_gained() -> None:
    assert ProgramHeadroom("a", 30.0, 10.0).ratio == 3.0
