"""One atomic addition for a wavefront: the same places in some order, and when an order may differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hipsynth.tuning.optimize.analysis.kernel_body import uses_atomic_results
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.trial import Conditions, UnorderedOutputs, compare_trials, differing_outputs, run_trial, target_of
from hipsynth.tuning.trial.run import Trial

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
__global__ void keep(const int* in, int* out, int* counts, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && in[i] % 3 == 0) out[i % 2 * n + atomicAdd(&counts[i % 2], 1)] = in[i];
}
int main() {
  const int n = 100000;
  std::vector<int> host(n), back(2 * n);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 1009;
  int *in, *out, *counts;
  if (hipMalloc(&in, 4 * n) || hipMalloc(&out, 8 * n) || hipMalloc(&counts, 8)) return 1;
  (void)hipMemset(out, 0, 8 * n);
  (void)hipMemset(counts, 0, 8);
  (void)hipMemcpy(in, host.data(), 4 * n, hipMemcpyHostToDevice);
  keep<<<(n + 255) / 256, 256>>>(in, out, counts, n);
  (void)hipMemcpy(back.data(), out, 8 * n, hipMemcpyDeviceToHost);
  long long sum = 0;
  for (int value : back) sum += value;
  std::printf("%lld\\n", sum);
  return 0;
}
"""
# Two levels of a search in one queue: behind the second one lies what the first one has left there, in some order.
QUEUE = """#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void push(int* queue, int* count, int* depth, int n, int level) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int place = atomicAdd(&count[level], 1);
  queue[place] = i + level;
  depth[i] = level;
}
int main() {
  const int n = 3000;
  int *queue, *count, *depth, host[n], sum = 0;
  if (hipMalloc(&queue, 4 * n) || hipMalloc(&count, 8) || hipMalloc(&depth, 4 * n)) return 1;
  (void)hipMemset(count, 0, 8);
  push<<<(n + 255) / 256, 256>>>(queue, count, depth, n, 0);
  push<<<(n / 2 + 255) / 256, 256>>>(queue, count, depth, n / 2, 1);
  (void)hipMemcpy(host, depth, 4 * n, hipMemcpyDeviceToHost);
  for (int level : host) sum += level;
  std::printf("%d\\n", sum);
  return 0;
}
"""
TARGET = target_of("gfx942")
EXACT = Conditions(exact=True, record_bytes=4 << 20)


@pytest.fixture(scope="module")
def program() -> ParsedProgram:
    return read_program(TEXT, "gfx942")


@pytest.fixture(scope="module")
def before() -> Trial:
    return run_trial(TEXT, TARGET, EXACT)


def changed(program: ParsedProgram, plan: TransformationPlan) -> str:
    return emit_program(program, {"keep": plan}, {"keep": (256, 1, 1)})


@pytest.mark.parametrize(
    "plan", [TransformationPlan(aggregate=True), TransformationPlan((128, 1, 1), coarsen=3, aggregate=True)]
)
def test_every_lane_gets_a_place_of_its_own(program: ParsedProgram, before: Trial, plan: TransformationPlan) -> None:
    after = run_trial(changed(program, plan), TARGET, EXACT)
    found = compare_trials(before, after, unordered=UnorderedOutputs(differing_outputs(before, after)))
    assert after.ok and after.stdout == before.stdout and found.equal, found.reason
    atomics = [sum(k.counters["TCC_ATOMIC"] for k in one.kernels) for one in (before, after)]
    assert atomics[1] < atomics[0] / 5


def test_an_order_that_the_original_fixes_must_stay(program: ParsedProgram) -> None:
    """Outputs are compared as sets of words only where the original's own order depends on that of its groups."""
    moved = TEXT.replace("out[i % 2 * n + atomicAdd(&counts[i % 2], 1)] = in[i]", "out[(i + 3) % n] = in[i]")
    fixed = TEXT.replace("out[i % 2 * n + atomicAdd(&counts[i % 2], 1)] = in[i]", "out[i] = in[i]")
    assert not uses_atomic_results(read_program(fixed, "gfx942"), read_program(fixed, "gfx942").kernels[0])
    verifier = Verifier(fixed, TARGET, [()], ordered_by_atomics=True)
    assert verifier.quick(fixed).passed is True and verifier.quick(moved).passed is False


@pytest.mark.parametrize(
    "helper",
    ["__device__ int push(int* count) { return atomicAdd(count, 1); }", "#define push(count) atomicAdd(count, 1)"],
)
def test_atomics_in_what_a_kernel_calls_fix_no_order(helper: str) -> None:
    text = TEXT.replace("__global__", f"{helper}\n__global__", 1)
    text = text.replace("atomicAdd(&counts[i % 2], 1)", "push(counts)")
    program = read_program(text, "gfx942")
    assert uses_atomic_results(program, program.kernels[0])


def test_what_an_order_has_left_behind_a_queue_is_not_compared() -> None:
    verifier = Verifier(QUEUE, TARGET, [()], prepare_verifier(read_program(QUEUE, "gfx942"), TARGET).tolerance)
    verifier.ordered_by_atomics = True
    in_larger_groups = QUEUE.replace("255", "1023").replace("256", "1024")
    assert verifier.quick(in_larger_groups).passed is True, verifier.quick(in_larger_groups)
    assert verifier.quick(in_larger_groups.replace("depth[i] = level", "depth[i] = 1")).passed is False
    verifier.ordered_by_atomics = False
    assert verifier.quick(in_larger_groups + "\n").passed is False


def test_the_order_of_a_queue_may_change_but_not_its_content(program: ParsedProgram) -> None:
    assert uses_atomic_results(program, program.kernels[0])
    verifier = Verifier(TEXT, TARGET, [()], ordered_by_atomics=True)
    passed = verifier.quick(changed(program, TransformationPlan((1024, 1, 1), coarsen=2)))
    assert passed.passed is True and passed.detail.endswith("leaves their order to its atomics")
    wrong = TEXT.replace("= in[i];", "= in[i] / 3 * 3 + (i == 96);")
    assert verifier.quick(wrong).passed is False
    strict = replace(verifier, ordered_by_atomics=False)
    assert strict.quick(changed(program, TransformationPlan((1024, 1, 1), coarsen=2))).passed is False
