"""Races are found between work-groups of every dimension, and none where each group uses an LDS of its own."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.trial.run import Conditions, run_trial, target_of

PROGRAM = """#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void fill(float* out) {{
  __shared__ float tile[64];
  tile[threadIdx.x] = 1.0f + blockIdx.x + blockIdx.y * 2 + blockIdx.z * 8;
  __syncthreads();
  const int group = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[{index}] = tile[63 - threadIdx.x];
}}

int main() {{
  float *out, host[1024];
  if (hipMalloc(&out, sizeof host) != hipSuccess) return 1;
  fill<<<dim3({grid}), 64>>>(out);
  if (hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%g\\n", host[0]);
}}
"""


@pytest.mark.parametrize("grid", ["4, 1, 1", "1, 4, 1", "1, 1, 4", "2, 2, 2"])
@pytest.mark.parametrize(("index", "racing"), [("group * 64 + threadIdx.x", False), ("threadIdx.x", True)])
def test_a_race_between_work_groups_is_one_of_memory(grid: str, index: str, racing: bool) -> None:
    needs.compiler()
    trial = run_trial(PROGRAM.format(index=index, grid=grid), target_of("gfx942"), Conditions(races=True))
    assert trial.ok
    races = list(trial.races)
    assert bool(races) == racing
    assert all("two work-groups, one word: both write (`global_store" in text for text in races)
