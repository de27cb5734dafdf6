"""Bins in the LDS: which additions are understood, and that a group's copies leave the same memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.bins import find_bins
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
constexpr unsigned kBins = 48;
#define SHIFT 3
__global__ void count(const unsigned char* bytes, const unsigned* words, const int* numbers, TYPE* bins, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  BODY
}
int main() {
  const int n = 30011;
  std::vector<unsigned> host(n);
  for (int i = 0; i < n; ++i) host[i] = i * 2654435761u;
  unsigned* data;
  TYPE* bins;
  if (hipMalloc(&data, 4 * n) || hipMalloc(&bins, 65536 * 4)) return 1;
  (void)hipMemset(bins, 0, 65536 * 4);
  (void)hipMemcpy(data, host.data(), 4 * n, hipMemcpyHostToDevice);
  const unsigned char* bytes = reinterpret_cast<unsigned char*>(data);
  count<<<(n + 255) / 256, 256>>>(bytes, data, reinterpret_cast<int*>(data), bins, n);
  (void)hipMemcpy(host.data(), bins, 4096, hipMemcpyDeviceToHost);
  std::printf("%u\\n", host[3]);
  return 0;
}
"""
KNOWN = {
    "if (i < n) atomicAdd(&bins[bytes[i]], 1u);": 256,
    "if (i < n) atomicAdd(&bins[words[i] % kBins], 2u);": 48,
    "if (i >= n) return; const int at = numbers[i] & 0x7f; atomicAdd(&bins[2 * at + 1], 1);": 256,
    "if (i < n) { const unsigned char b = bytes[i]; atomicAdd(&bins[b >> SHIFT], 1u); }": 32,
    "if (i < n) atomicAdd(&bins[static_cast<int>(bytes[i])], 1u);": 256,
    "if (i < n) atomicAdd(&bins[min(max(numbers[i] / 65536, 0), 99)], 1);": 100,
    "if (i < n) atomicAdd(&bins[numbers[i] & 0x7fu], 1u);": 128,
    "if (i < n) { atomicAdd(&bins[words[i] >> 28], 1u); atomicAdd(&bins[16 + (int)(bytes[i] % 8)], 1u); }": 24,
}
OTHERS = [
    "if (i < n) atomicAdd(&bins[words[i] % n], 1u);",  # not known
    "if (i < n) atomicAdd(&bins[numbers[i] % 64], 1u);",  # may be negative
    "if (i < n) atomicAdd(&bins[words[i] & 0xffff], 1u);",  # more than the LDS should have
    f"if (i < n) atomicAdd(&bins[bytes[i]{' * 18446744073709551615u' * 20}], 1u);",  # far more than a place can be
    "int b = bytes[i]; b = n; if (i < n) atomicAdd(&bins[b], 1u);",
    "if (i >= n) return; const long unsigned at = n * 4294967296ul; atomicAdd(&bins[at >> 24], 1u);",
    "if (i < n) atomicMax(&bins[bytes[i]], 1u);",
    "if (i < n && atomicAdd(&bins[bytes[i]], 1u) == 0) bins[n] = 1;",
    "if (i < n) { atomicAdd(&bins[bytes[i]], 1u); bins[300] = 7; }",
    "if (i < n) atomicAdd(bins + bytes[i], 1u);",
    "if (i < n) atomicAdd(&bins[static_cast<signed char>(bytes[i])], 1u);",  # may be negative
    "if (i < n) atomicAdd(&bins[static_cast<short>(words[i] & 0x7f)], 1u);",  # not known
]


def write(body: str, kind: str = "unsigned") -> str:
    return TEXT.replace("BODY", body).replace("TYPE", kind)


@pytest.mark.parametrize("body", KNOWN)
def test_how_many_elements_are_changed(body: str) -> None:
    program = read_program(write(body), "gfx942")
    assert find_bins(program, program.kernels[0]) == ("bins", KNOWN[body])


@pytest.mark.parametrize("body", OTHERS)
def test_other_additions_stay(body: str) -> None:
    program = read_program(write(body), "gfx942")
    with pytest.raises(NotUnderstood):
        find_bins(program, program.kernels[0])


def test_a_parameter_is_no_constant_of_the_host() -> None:
    program = read_program(write(OTHERS[0]).replace("n = 30011", "n = 48"), "gfx942")
    with pytest.raises(NotUnderstood):
        find_bins(program, program.kernels[0])


@pytest.mark.parametrize("passed", ["(int*)bins, bins", "copy, bins"])
def test_additions_to_an_array_that_is_passed_twice_stay(passed: str) -> None:
    text = write("if (i < n) atomicAdd(&bins[bytes[i]], 1u);").replace("reinterpret_cast<int*>(data), bins", passed)
    program = read_program(text.replace("  count<<<", "  int* copy = (int*)bins;\n  count<<<"), "gfx942")
    with pytest.raises(NotUnderstood):
        find_bins(program, program.kernels[0])


PLAN = TransformationPlan(shape=(1024, 1, 1), coarsen=4)
NEIGHBOURS = replace(PLAN, shape=(256, 1, 1), jam=True, adjacent=True, restrict=True)


TURNS = replace(NEIGHBOURS, turns=3)  # of 3,072 work-items, which do not divide the number of them


@pytest.mark.parametrize("plan", [PLAN, NEIGHBOURS, TURNS], ids=["one by one", "together", "in turns"])
@pytest.mark.parametrize("body", KNOWN)
@pytest.mark.one_in(3)
def test_the_same_memory_is_left(body: str, plan: TransformationPlan) -> None:
    text = write(body)
    changed = emit(text, plan, KNOWN[body])
    assert f"const Bins<unsigned, {KNOWN[body]}> lane_bins{{bins, lane_counts}};" in changed
    before, after = (run_trial(one, target_of("gfx942"), Conditions(exact=True, races=True)) for one in (text, changed))
    comparison = compare_trials(before, after)
    assert comparison.equal and comparison.exact, comparison.reason
    assert not after.races
    atomics = [trial.kernels[0].counters["TCC_ATOMIC"] for trial in (before, after)]
    assert atomics[1] < atomics[0], "groups add to memory once"


def test_neighbouring_bytes_are_loaded_at_once() -> None:
    text = emit(write(next(iter(KNOWN))), replace(NEIGHBOURS, coarsen=16), 256)
    after = run_trial(text, target_of("gfx90a"), Conditions(exact=True))
    loads = after.kernels[0].counters["SQ_INSTS_VMEM_RD"]
    assert loads <= 29 + 16, "29 wavefronts load 1,024 bytes each, the last one loads its work-items' one by one"


def test_groups_take_turns() -> None:
    text = write(next(iter(KNOWN)))
    single, several = (emit(text, plan, 256) for plan in (NEIGHBOURS, TURNS))
    assert "for (unsigned turn = 0; turn < 3; ++turn) {" in several and "turn <" not in single
    runs = [run_trial(one, target_of("gfx942"), Conditions(exact=True)) for one in (single, several)]
    assert [run.kernels[0].grid[0] for run in runs] == [30, 10]
    assert runs[1].kernels[0].counters["TCC_ATOMIC"] < runs[0].kernels[0].counters["TCC_ATOMIC"] / 2


@pytest.mark.parametrize("plan", [replace(TURNS, coarsen=1), replace(TURNS, jam=False, split=64)])
def test_turns_of_other_lanes_are_refused(plan: TransformationPlan) -> None:
    with pytest.raises(NotUnderstood):
        emit(write(next(iter(KNOWN))), plan, 256)


def test_sums_of_floats() -> None:
    text = write("if (i < n) atomicAdd(&bins[bytes[i]], 1.0f);", "float")
    before, after = (
        run_trial(one, target_of("gfx90a"), Conditions(exact=True)) for one in (text, emit(text, PLAN, 256))
    )
    assert compare_trials(before, after).equal, "small whole numbers, in any order"


def emit(text: str, plan: TransformationPlan, bins: int) -> str:
    return emit_program(read_program(text, "gfx942"), {"count": replace(plan, bins=bins)}, {"count": (256, 1, 1)})
