"""Programs that do not wait for work of streams: each is refused, and those that wait otherwise are let pass."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from hipsynth.simulator.observation import Deferral
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.optimize.verification.waiting import check_waiting
from hipsynth.tuning.trial import Conditions, run_trial, target_of

TARGET = target_of("gfx942")
API_PROGRAMS = Path(__file__).parents[2] / "kernels" / "programs"
ORDERS = [order for order in Deferral if order]
PIPELINE = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void halve(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[i];
}
__global__ void increment(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1.0f;
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096, groups = (n + 63) / 64;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = 1.0f + i % 77;
  float *in, *halves, *out, *pinned;
  if (hipMalloc(&in, n * 4) || hipMalloc(&halves, n * 4) || hipMalloc(&out, n * 4)) return 1;
  hipStream_t producer, consumer;
  hipEvent_t halved;
  if (hipHostMalloc(&pinned, n * 4, 0) || hipEventCreate(&halved)) return 1;
  if (hipStreamCreateWithFlags(&producer, hipStreamNonBlocking)) return 1;
  if (hipStreamCreateWithFlags(&consumer, hipStreamNonBlocking)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  halve<<<groups, 64, 0, producer>>>(in, halves, n);
  (void)hipEventRecord(halved, producer);
  (void)hipStreamWaitEvent(consumer, halved, 0);
  increment<<<groups, 64, 0, consumer>>>(halves, out, n);
  (void)hipMemcpyAsync(pinned, out, n * 4, hipMemcpyDeviceToHost, consumer);
  (void)hipStreamSynchronize(consumer);
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += pinned[i];
  std::printf("%g\n", sum);
  return 0;
}
"""
WAITS_FOR_EVENT = "  (void)hipStreamWaitEvent(consumer, halved, 0);\n"
WAITS_FOR_COPY = "  (void)hipStreamSynchronize(consumer);\n"
MANAGED = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* out) { out[threadIdx.x] = threadIdx.x; }
int main() {
  int* out;
  if (hipMallocManaged(&out, 256)) return 1;
  fill<<<1, 64>>>(out);
  (void)hipDeviceSynchronize();
  std::printf("%d\n", out[63]);
  return 0;
}
"""
WAITS_FOR_DEVICE = "  (void)hipDeviceSynchronize();\n"
WAITS_FOR_NODES = "waited_for, 2"
GRAPH = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void fill(int* out, int from) { out[threadIdx.x] = from + threadIdx.x; }
__global__ void add(const int* a, const int* b, int* out) { out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
int main() {
  int *a, *b, *out, host[64], one = 1, two = 2;
  if (hipMalloc(&a, 256) || hipMalloc(&b, 256) || hipMalloc(&out, 256)) return 1;
  hipGraph_t graph;
  hipGraphExec_t executable;
  hipGraphNode_t waited_for[2], last;
  if (hipGraphCreate(&graph, 0)) return 1;
  void *first[] = {&a, &one}, *second[] = {&b, &two}, *both[] = {&a, &b, &out};
  hipKernelNodeParams node = {};
  node.gridDim = dim3(1), node.blockDim = dim3(64), node.func = (void*)fill;
  node.kernelParams = first;
  if (hipGraphAddKernelNode(&waited_for[1], graph, nullptr, 0, &node)) return 1;
  node.kernelParams = second;
  if (hipGraphAddKernelNode(&waited_for[0], graph, nullptr, 0, &node)) return 1;
  node.func = (void*)add, node.kernelParams = both;
  if (hipGraphAddKernelNode(&last, graph, waited_for, 2, &node)) return 1;
  if (hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0) || hipGraphLaunch(executable, nullptr)) return 1;
  (void)hipMemcpy(host, out, 256, hipMemcpyDeviceToHost);
  std::printf("%d\\n", host[63]);
  return 0;
}
"""


@functools.cache
def verifier_of(text: str) -> Verifier:
    return prepare_verifier(read_program(text, TARGET.arch), TARGET, [("200",), ("333",)] if text == PIPELINE else [()])


@pytest.mark.parametrize(
    ("program", "waits", "hurries"),
    [
        (PIPELINE, WAITS_FOR_EVENT, ""),
        (PIPELINE, WAITS_FOR_COPY, ""),
        (PIPELINE, WAITS_FOR_COPY, "  (void)hipStreamQuery(consumer);\n"),
        (MANAGED, WAITS_FOR_DEVICE, ""),
        (GRAPH, WAITS_FOR_NODES, "waited_for, 1"),
    ],
    ids=["a stream for another", "the host for a copy", "a query", "the host for the device", "a node for another"],
)
def test_a_program_that_does_not_wait_is_refused(program: str, waits: str, hurries: str) -> None:
    verifier, changed = verifier_of(program), program.replace(waits, hurries)
    assert verifier.quick(changed).passed, "it does the same where the work comes early"
    check = check_waiting(verifier, changed)
    assert check.passed is False and "work that nothing waits for comes late" in check.detail


def test_waiting_is_checked_in_a_verification() -> None:
    verification = verifier_of(PIPELINE).full(PIPELINE.replace(WAITS_FOR_EVENT, ""))
    [failed] = [check for check in verification.checks if check.passed is False]
    assert failed.name == "waiting" and "work that nothing waits for comes late" in failed.detail, verification
    waits = PIPELINE.replace(WAITS_FOR_EVENT, "  (void)hipStreamSynchronize(producer);\n")
    verification = verifier_of(PIPELINE).full(waits)
    assert verification.passed and verification.document().waiting is True, verification


@pytest.mark.parametrize(
    ("line", "other"),
    [
        (WAITS_FOR_EVENT, "  (void)hipStreamSynchronize(producer);\n"),
        (WAITS_FOR_COPY, WAITS_FOR_DEVICE),
        (WAITS_FOR_COPY, "  while (hipStreamQuery(consumer) != hipSuccess) {}\n"),
        (WAITS_FOR_EVENT, "  while (hipEventQuery(halved) == hipErrorNotReady) {}\n"),
    ],
    ids=["the host for a stream", "the host for the device", "queries of a stream", "queries of an event"],
)
def test_another_way_to_wait_passes(line: str, other: str) -> None:
    verifier, changed = verifier_of(PIPELINE), PIPELINE.replace(line, other)
    assert verifier.quick(changed).passed and check_waiting(verifier, changed).passed


def test_nothing_is_said_of_an_original_that_does_not_wait() -> None:
    hasty = MANAGED.replace(WAITS_FOR_DEVICE, "")
    [check] = [check for check in verifier_of(hasty).full(hasty + "\n").checks if check.name == "waiting"]
    assert check.passed is None and "the original itself does not wait" in check.detail


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "name",
    [
        "streams",
        "overlap",
        "captures",
        "graph_memory",
        "graph_nodes",
        "graphs",
        "callbacks",
        "game_of_life",
        "exit_code",
    ],
)
def test_programs_that_wait_do_the_same_whenever_their_work_is_done(name: str, order: Deferral) -> None:
    """They check their own results."""
    text = (API_PROGRAMS / f"{name}.hip").read_text()
    text = text.replace('#include "check.h"', (API_PROGRAMS / "check.h").read_text())
    plain, deferred = (
        run_trial(text, target_of("gfx90a"), Conditions(exact=True, deferral=deferral))
        for deferral in (Deferral.NONE, order)
    )
    assert deferred.ok and deferred.exit_code == 0, deferred.message or deferred.stdout
    outputs = [{(output.kind, output.index): output.digest for output in trial.outputs} for trial in (plain, deferred)]
    assert outputs[0] == outputs[1]
