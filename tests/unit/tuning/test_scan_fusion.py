"""Scans by doubling distances: which loops of launches are understood, and that two launches compute the same."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.scan_passes import find_scans
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

STEP = "if (i < n) to[i] = i >= distance ? from[i] + from[i - distance] : from[i];"
LOOP = """for (int distance = 1; distance < n; distance *= 2) {
    step<<<(n + 255) / 256, 256>>>(a, b, distance, n);
    std::swap(a, b);
  }"""
TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>
__global__ void step(const int* from, int* to, int distance, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  STEP
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 5000;
  std::vector<int> host(n), want(n);
  for (int i = 0; i < n; ++i) host[i] = i * 7 % 31 - 9;
  int *a, *b;
  if (hipMalloc(&a, n * sizeof(int)) || hipMalloc(&b, n * sizeof(int))) return 1;
  (void)hipMemcpy(a, host.data(), n * sizeof(int), hipMemcpyHostToDevice);
  LOOP
  (void)hipMemcpy(host.data(), a, n * sizeof(int), hipMemcpyDeviceToHost);
  std::printf("%d %d\\n", host[n / 2], host[n - 1]);
  (void)hipFree(a);
  (void)hipFree(b);
  return 0;
}
"""


def write_program(step: str = STEP, loop: str = LOOP, kind: str = "int") -> str:
    text = TEXT.replace("STEP", step).replace("LOOP", loop)
    for old in ("vector<int>", "const int* from", "int* to", "int *a", "sizeof(int)"):
        text = text.replace(old, old.replace("int", kind))
    return text


def fused(text: str) -> str:
    """The changed program, "" if nothing is joined."""
    return next((found.text for found in find_scans(read_program(text, "gfx942"))), "")


FORMS = [
    (
        "if (i >= n) return;\n if (i < distance) { to[i] = from[i]; } else { to[i] = from[i] + from[i - distance]; }",
        LOOP,
    ),
    ("if (n > i) { int v = from[i]; if (i >= distance) v += from[i - distance]; to[i] = v; }", LOOP),
    ("if (i < n) { const int j = i - distance; to[i] = from[i] + (i < distance ? 0 : from[j]); }", LOOP),
    ("if (i < n) to[i] = i >= distance ? max(from[i - distance], from[i]) : from[i];", LOOP),
    (
        STEP,
        LOOP.replace("distance *= 2", "distance <<= 1").replace("std::swap(a, b);", "int* t = a;\n a = b;\n b = t;"),
    ),
    (
        STEP,
        """const int block = 128, blocks = (n + block - 1) / block;
  for (int k = 0; (1 << k) < n; ++k) {
    step<<<dim3(blocks), block>>>(a, b, 1 << k, n);
    (void)hipDeviceSynchronize();
    std::swap(a, b);
  }""",
    ),
]


@pytest.mark.parametrize(("step", "loop"), FORMS)
def test_scans_are_understood_in_many_forms(step: str, loop: str) -> None:
    changed = fused(write_program(step, loop))
    assert "step_sums<<<chunks, 256>>>(a, b, chunk, n);" in changed and "hipMalloc(&b, 1024 * sizeof(int))" in changed
    assert "step_scan<<<chunks, 256>>>(a, b, chunk, n);" in changed and "swap" not in changed
    assert "void step(" not in changed, "the kernel that is launched no more"


OTHERS = [
    (STEP, STEP.replace("+ from[i - distance]", "- from[i - distance]")),  # no scan
    (STEP, STEP.replace("+ from[i - distance]", "+ from[i - distance + 1]")),
    (STEP, STEP.replace("i >= distance", "i > distance")),
    (STEP, STEP.replace(": from[i]", ": 2 * from[i]")),
    (STEP, STEP + " if (i < distance) to[i] = 0;"),
    (STEP, STEP.replace("to[i] =", "to[i] +=")),
    ("distance *= 2", "distance *= 3"),
    ("distance < n;", "distance < n / 2;"),
    ("int distance = 1;", "int distance = 2;"),
    ("(n + 255) / 256, 256", "n / 256, 256"),  # the last elements are left out
    ("(n + 255) / 256, 256", "(n + 255) / 256, 128"),
    ("std::swap(a, b);", "std::swap(a, b);\n    std::printf(\"%d\\n\", distance);"),
    ("std::swap(a, b);", ""),
    ("  (void)hipFree(b);", "  (void)hipMemcpy(want.data(), b, n * sizeof(int), hipMemcpyDeviceToHost);"),
    ("  (void)hipFree(a);", "  int* kept = a;\n  (void)hipFree(kept);"),
    ("  int *a, *b;", "  int *a, *b;\n  std::vector<int*> all;\n  if (n < 0) all.push_back(a);"),
    ("std::swap(a, b);\n  }", "std::swap(a, b);\n  }\n  int* kept = n > 9 ? a : nullptr;"),
    ("hipMalloc(&b, n * sizeof(int))", "hipMallocManaged(&b, n * sizeof(int))"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_other_loops_are_left_alone(old: str, new: str) -> None:
    text = write_program()
    assert text.count(old) == 1 and fused(text)
    assert not fused(text.replace(old, new))


RUNS = [
    ("gfx942", "int", STEP, ("5000",), 0),
    ("gfx942", "int", STEP, ("1",), 0),
    ("gfx90a", "int", FORMS[3][0], ("4099",), 0),
    ("gfx90a", "double", STEP, ("3000",), 0),
    ("gfx942", "int", STEP, ("1050000",), 2),  # chunks of two tiles
]


@pytest.mark.parametrize(("arch", "kind", "step", "arguments", "launches"), RUNS)
@pytest.mark.one_in(3)
def test_two_launches_leave_the_same_results(
    arch: str, kind: str, step: str, arguments: tuple[str, ...], launches: int
) -> None:
    text = write_program(step, kind=kind)
    if kind == "double":
        text = text.replace("%d %d", "%g %g")
    conditions = Conditions(arguments, exact=True, count=not launches)
    before, after = (run_trial(one, target_of(arch), conditions) for one in (text, fused(text)))
    found = compare_trials(before, after)
    assert found.equal, found.reason
    assert [o.kind for o in before.outputs].count("copy") == 1
    if not launches and before.kernels:
        assert sum(kernel.dispatches for kernel in after.kernels) == 2 < before.kernels[0].dispatches


def test_its_waves_do_not_race() -> None:
    after = run_trial(fused(write_program()), target_of("gfx942"), Conditions(exact=True, races=True))
    assert after.ok and not after.races, after.races
