"""Accesses to the LDS by flat instructions count, and race, like those of ds_* instructions."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from hip_programs import run

from hipsynth.tuning.trial.run import Conditions, run_trial, target_of

COUNTERS = (
    "SQ_LDS_BANK_CONFLICT", "SQ_LDS_IDX_ACTIVE", "EXACT_LDS_BYTES", "EXACT_READ_BYTES", "EXACT_WRITE_BYTES",
    "SQ_INSTS_LDS",
)  # fmt: skip
TILES, SIDE, WORD = 16, 32, 4
RACY = """#include <hip/hip_runtime.h>
#include <cstdio>

__global__ void turn(int* a, const int* next) {
  __shared__ STORAGE int s[256];
  const int t = threadIdx.x;
  s[t] = a[t];
  __syncthreads();
  int r = s[t ^ 64];
  for (int i = 0; i < 50; ++i) r = next[r & 255];
  BARRIER
  s[t] = r;
  __syncthreads();
  a[t] = s[t ^ 128];
}

int main() {
  int *a, *next, host[256];
  for (int i = 0; i < 256; ++i) host[i] = (i * 7 + 1) & 255;
  if (hipMalloc(&a, sizeof host) != hipSuccess || hipMalloc(&next, sizeof host) != hipSuccess) return 1;
  if (hipMemcpy(a, host, sizeof host, hipMemcpyHostToDevice) != hipSuccess) return 1;
  if (hipMemcpy(next, host, sizeof host, hipMemcpyHostToDevice) != hipSuccess) return 1;
  turn<<<1, 256>>>(a, next);
  if (hipMemcpy(host, a, sizeof host, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::printf("%d\\n", host[7]);
}
"""


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_flat_and_ds_instructions_count_the_same(tmp_path: Path, arch: str) -> None:
    done = run("generic_lds", tmp_path, arch=arch)
    assert (done.status, done.stdout.split()[-1]) == ("ok", "ok"), done.message
    kernels = {kernel.name: kernel for kernel in done.kernels}
    lds, flat = kernels["by_lds"], kernels["by_flat"]
    assert flat.counters["SQ_INSTS_FLAT"] > flat.counters["SQ_INSTS_LDS"] > 0
    for name in COUNTERS:
        assert flat.counters[name] == lds.counters[name], name
    assert lds.counters["EXACT_LDS_BYTES"] == 2 * TILES * SIDE * SIDE * WORD
    assert lds.counters["SQ_LDS_BANK_CONFLICT"] >= TILES * SIDE * (SIDE - 1), "every column lies in one bank"


def test_launches_that_differ_in_their_lds_have_records_of_their_own(tmp_path: Path) -> None:
    done = run("generic_lds", tmp_path)
    sized = [kernel for kernel in done.shapes if kernel.name == "sized"]
    assert [kernel.registers.lds_bytes for kernel in sized if kernel.registers] == [1024, 32768]
    assert not next(kernel for kernel in done.kernels if kernel.name == "sized").same_shape


@pytest.mark.parametrize("storage", ["", "volatile"])
def test_a_missing_barrier_is_a_race_however_the_lds_is_accessed(storage: str) -> None:
    needs.compiler()
    source = RACY.replace("STORAGE ", f"{storage} ")
    for barrier, racing in (("__syncthreads();", False), ("", True)):
        trial = run_trial(source.replace("BARRIER", barrier), target_of("gfx942"), Conditions(races=True))
        assert trial.ok and bool(trial.races) == racing
