"""Races are found between work-groups of every dimension, none where each group uses an LDS of its own; barriers need
waits for loads to the LDS, and what groups tell each other through memory needs fences."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.verification.checks import check_races
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
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


RAW_BARRIER = """#include <hip/hip_runtime.h>

__global__ void turn(unsigned* in, unsigned* out) {{
  __shared__ unsigned tile[256], other[256];
  const int i = threadIdx.x;
  {stores}
  {before}
  __builtin_amdgcn_s_barrier();
  {after}
  out[i] = {load};
}}

int main() {{
  unsigned *in, *out;
  if (hipMalloc(&in, 2048) || hipMalloc(&out, 1024) || hipMemset(in, 1, 2048)) return 1;
  turn<<<1, 256>>>(in, out);
  return hipDeviceSynchronize() != hipSuccess;
}}
"""
STORE, LOAD = "tile[i] = in[i];", "tile[255 - i]"
ARRIVE = "__builtin_amdgcn_global_load_lds(in + i, tile + (i & ~63), 4, 0, 0);"
ARRIVE_TWICE = f"{ARRIVE} __builtin_amdgcn_global_load_lds(in + 256 + i, other + (i & ~63), 4, 0, 0);"
# Until no vector memory instruction is in flight, or one.
NONE, ONE = (f"__builtin_amdgcn_s_waitcnt({count});" for count in ("0xf70", "0xf71"))


@pytest.mark.parametrize(
    ("stores", "load", "before", "after", "racing"),
    [
        (STORE, LOAD, "", "", False),
        (ARRIVE, LOAD, "", "", True),
        (ARRIVE, LOAD, "", NONE, True),
        (ARRIVE, LOAD, NONE, "", False),
        (ARRIVE_TWICE, LOAD, ONE, "", False),
        (ARRIVE_TWICE, "other[255 - i]", ONE, "", True),
    ],
)
def test_a_barrier_orders_loads_to_the_lds_that_were_waited_for(
    stores: str, load: str, before: str, after: str, racing: bool
) -> None:
    needs.compiler()
    text = RAW_BARRIER.format(stores=stores, load=load, before=before, after=after)
    trial = run_trial(text, target_of("gfx942"), Conditions(races=True))
    assert trial.ok and bool(trial.races) == racing, trial.message
    assert all("a barrier between, but no wait for the load before it" in race for race in trial.races)


LAST_GROUP = """#include <hip/hip_runtime.h>

__device__ unsigned arrived = 0;
__global__ void sum(const int* in, int* part, int* out) {{
  __shared__ bool last;
  if (threadIdx.x == 0) {{
    part[blockIdx.x] = in[blockIdx.x];
    {before}
    last = atomicAdd(&arrived, 1) == gridDim.x - 1;
  }}
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  {after}
  int total = 0;
  for (int i = 0; i < gridDim.x; ++i) total += part[i];
  *out = total;
}}

int main() {{
  int *in, *part, *out;
  if (hipMalloc(&in, 64) || hipMalloc(&part, 64) || hipMalloc(&out, 4)) return 1;
  sum<<<16, 64>>>(in, part, out);
  return hipDeviceSynchronize() != hipSuccess;
}}
"""
FENCE = "__threadfence();"


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_what_the_last_group_reads_needs_a_fence(arch: str) -> None:
    needs.compiler()
    source, target = LAST_GROUP.format(before=FENCE, after=FENCE), target_of(arch)
    trial = run_trial(source, target, Conditions(races=True))
    assert trial.ok and not trial.races and not trial.unfenced
    bare = LAST_GROUP.format(before="", after="")
    trial = run_trial(bare, target, Conditions(races=True))
    assert trial.ok and not trial.races
    (text,) = trial.unfenced
    assert "two work-groups, one word: one writes, the other reads (`global_load" in text and "no fence" in text
    verifier = prepare_verifier(read_program(source, target.arch, target.flags), target, [()])
    assert check_races(verifier, source).passed
    assert check_races(verifier, bare).passed is False


def test_a_fence_that_the_original_lacks_is_not_asked_for() -> None:
    needs.compiler()
    bare, target = LAST_GROUP.format(before="", after=""), target_of("gfx942")
    verifier = prepare_verifier(read_program(bare, target.arch, target.flags), target, [()])
    assert check_races(verifier, bare).passed
