"""Do the passes that change how code is written keep the machine code, and is a change that does not left out?"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.core.program import Program
from hipsynth.source.config import frontend_config
from hipsynth.source.parse import ParseConfig, parse_source
from hipsynth.synth.frontend import sandboxed_copies
from hipsynth.synth.frontend.equivalence import same_code
from hipsynth.synth.frontend.make_copies import AugmentInput
from hipsynth.synth.frontend.pass_input import ProgramSource
from hipsynth.synth.frontend.passes import loops
from hipsynth.synth.frontend.pipeline import run_steps
from hipsynth.synth.frontend.sandboxed_copies import AugmentRequest, CopyRecipe

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#define WIDTH 64  // stays
// Adds numbers.
template <int N, typename T>
__global__ void add(T* y, const T* x, int n) {
  const int first = blockIdx.x * 256;
  const int own = threadIdx.x;  /* in the block */
  if (first + own >= n) return;
  T sum = 0;
  #pragma unroll
  for (int k = 0; k < N; ++k) sum += x[k];
  for (int k = 0; k < n; k += 48) {
    sum += x[k] * 0x20;
  }
  int left = n;
  while (left > 20) { left -= 17; sum += left; }
  y[first + own] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  int *x = nullptr, *y = nullptr;
  if (hipMalloc(&x, n * sizeof(int)) != hipSuccess) return 1;
  if (hipMalloc(&y, n * sizeof(int)) != hipSuccess) return 1;
  add<12, int><<<dim3((n + 255) / 256), 256>>>(y, x, n);
  hipLaunchKernelGGL(HIP_KERNEL_NAME(add<3, int>), dim3(16), dim3(256), 0, 0, y, x, n);
  std::printf("%d\\n", static_cast<int>(hipDeviceSynchronize()));
  return 0;
}
"""
# kind -> what a change of all its sites makes
CHANGES = {
    "comments": ["#define WIDTH 64"],
    "layout": ["const int own = threadIdx.x;  /* in the block */"],
    "launch": [
        "hipLaunchKernelGGL(HIP_KERNEL_NAME(add<12, int>), dim3((n + 255) / 256), 256, 0, 0, y, x, n);",
        "add<3, int><<<dim3(16), dim3(256)>>>(y, x, n);",
    ],
    "order": ["  const int own = threadIdx.x;"],
    "loops": ["{ int k = 0; while (k < n) {", " k += 48; } }", "for (; left > 20;) {", "for (int k = 0; k < N; ++k)"],
    "constants": ["std::atoi(argv[1]) : 4096;", "#define WIDTH 64"],
}


@pytest.fixture(scope="module")
def config() -> ParseConfig:
    try:
        return frontend_config()
    except MissingDependency as error:
        needs.missing(str(error))


@pytest.mark.parametrize("kind", CHANGES)
def test_a_pass_changes_the_text_and_keeps_the_machine_code(kind: str, config: ParseConfig) -> None:
    found = run_steps(ProgramSource(TEXT.encode()), [f"{kind}:1,1.0"], config)
    assert found.source is not None and found.applied == (f"{kind}:1,1.0",)
    text = found.source.text.decode()
    assert text != TEXT and same_code(TEXT, text)
    for part in CHANGES[kind]:
        assert part in text
    again = run_steps(ProgramSource(TEXT.encode()), [f"{kind}:1,1.0"], config)
    assert again.source == found.source, "the same seed gives the same bytes"


def test_lines_stay_where_code_depends_on_them(config: ParseConfig) -> None:
    text = TEXT.replace("return 0;\n}", "return __LINE__ ? 0 : 1;\n}")
    for kind in CHANGES:
        found = run_steps(ProgramSource(text.encode()), [f"{kind}:3,1.0"], config)
        assert found.source is not None and found.source.text.count(b"\n") == text.count("\n")
    styles = [run_steps(ProgramSource(TEXT.encode()), [f"layout:{seed}"], config).source for seed in range(8)]
    assert 0 < sum(source is not None and b")\n{" in source.text for source in styles) < 8


def test_branches_for_other_devices_stay(config: ParseConfig) -> None:
    """What no compilation of the unit reads may mean anything: here a `continue` that a macro hides."""
    kernel = """#include <hip/hip_runtime.h>
#define SKIP continue
__global__ void k(int* y, int n) {
#ifdef __gfx942__
  for (int i = 0; i < n; i++) { if (i % 20 == 3) SKIP; y[i] = i; }
#else
  for (int j = 0; j < n; j++) { y[j] = j; }
#endif
}
"""
    unit, _ = parse_source(kernel.encode(), config)
    assert unit is not None
    [site] = loops.plan_sites(unit, random.Random(1))
    assert site[0].start > kernel.index("#else")


def test_loops_that_a_pragma_joins_stay(config: ParseConfig) -> None:
    host = """#include <hip/hip_runtime.h>
int main() {
  int sum = 0;
#pragma omp parallel for collapse(2) \\
    reduction(+ : sum)
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 100; ++j) { sum += i * j; }
  }
#pragma omp parallel for collapse(2)
  for (int i = 0; i < 100; ++i)
    for (int j = 0; j < 100; ++j) { sum += i * j; }
  for (int k = 0; k < 100; ++k) { sum += k; }
  return sum;
}
"""
    unit, _ = parse_source(host.encode(), config)
    assert unit is not None
    [site] = loops.plan_sites(unit, random.Random(1))
    assert site[0].start == host.index("for (int k")


def test_the_proof_reads_openmp() -> None:
    needs.compiler()
    if not Path("/usr/lib/llvm-22/lib/libomp.so").exists():
        pytest.skip("needs libomp-22-dev")
    text = """#include <hip/hip_runtime.h>
__global__ void k(int* y) { y[0] = 3; }
int main(int n, char**) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < n; ++i) sum += i;
#ifndef _OPENMP
  sum += 2;
#endif
  return sum;
}
"""
    assert same_code(text, text.replace("sum += i;", "sum  += i;"))
    assert not same_code(text, text.replace("sum += 2;", "sum += 3;"))
    assert not same_code(text, text.replace(" reduction(+ : sum)", ""))


def test_a_program_for_one_device_is_compared_on_that() -> None:
    needs.compiler()
    text = """#include <hip/hip_runtime.h>
#if defined(__HIP_DEVICE_COMPILE__) && !defined(__gfx942__)
#error for gfx942
#endif
__global__ void k(int* y) { y[threadIdx.x] = 3; }
int main() { return 0; }
"""
    assert same_code(text, text.replace("{ y[", "{  y["))
    assert not same_code(text, text.replace("= 3", "= 4"))
    assert not same_code(text.replace("gfx942__", "gfx908__"), text.replace("gfx942__", "gfx908__"))


def test_the_proof_tells_programs_apart() -> None:
    needs.compiler()
    assert not same_code(TEXT, TEXT.replace("sum += left", "sum -= left")), "device code"
    assert not same_code(TEXT, TEXT.replace("%d\\n", "%d\\n\\n")), "host code"
    assert not same_code(TEXT, TEXT.replace("return 0;", "return")), "no code"


def test_a_change_that_is_not_proven_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parser answers, which an attacked one may choose."""
    base = Program(TEXT, "handwritten", "f")
    honest, false = TEXT.replace("0x20", "32"), TEXT.replace("0x20", "33")

    def passed(_request: AugmentRequest, program: Program, steps: list[str]) -> Program:
        bad = any(step.startswith("loops") for step in steps)
        return replace(program, text=false if bad else honest, derivation=(*program.derivation, *steps))

    monkeypatch.setattr(sandboxed_copies, "_apply_passes", passed)
    monkeypatch.setattr(
        sandboxed_copies, "same_code", lambda one, other: (one, other) in {(TEXT, honest), (honest, honest)}
    )
    request = AugmentRequest(AugmentInput("x", program=base), ParseConfig(()), CopyRecipe(kinds=("loops", "constants")))
    made = sandboxed_copies._reform_base(request, base, 1)
    assert made.text == honest and [step.partition(":")[0] for step in made.derivation] == ["constants"]


def test_passes_that_leave_no_parseable_text_are_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Program(TEXT, "handwritten", "f", name="x")
    changed = TEXT.replace("0x20", "32")

    def passed(_request: AugmentRequest, program: Program, steps: list[str]) -> Program | None:
        if any(step.startswith("loops") for step in steps):
            return None
        return replace(program, text=changed, derivation=(*program.derivation, *steps))

    monkeypatch.setattr(sandboxed_copies, "_apply_passes", passed)
    monkeypatch.setattr(sandboxed_copies, "same_code", lambda one, other: True)
    request = AugmentRequest(AugmentInput("x", program=base), ParseConfig(()), CopyRecipe(kinds=("loops", "constants")))
    made = sandboxed_copies._reform_base(request, base, 1)
    assert made.text == changed and [step.partition(":")[0] for step in made.derivation] == ["constants"]
