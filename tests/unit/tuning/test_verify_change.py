"""`synth verify`: does the verb answer as its contract says, and with which exit code?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.cli.main import main
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification import verify
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.tools import ToolSession, run_tool
from hipsynth.tuning.trial import Conditions, Trial, search_clock, target_of
from hipsynth.tuning.trial.search_clock import LEAST_RUN_S, Clock

PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void twice(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + in[i];
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<float> host(n, 3.0f), back(n);
  float *in, *out;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  twice<<<(n + 63) / 64, 64>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  return back[0] < 0;
}
"""
SAME = PROGRAM.replace("in[i] + in[i]", "2.0f * in[i]")
OTHER = PROGRAM.replace("in[i] + in[i]", "6.0f")


def run_verify(tmp_path: Path, original: str, changed: str, *words: str) -> int:
    for name, text in (("a.hip", original), ("b.hip", changed)):
        (tmp_path / name).write_text(text)
    with pytest.raises(SystemExit) as caught:
        main(["verify", str(tmp_path / "a.hip"), str(tmp_path / "b.hip"), *words, "--json"])
    return int(caught.value.code or 0)


def test_a_program_that_does_the_same_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verify(tmp_path, PROGRAM, SAME, "--check-args", "100", "--check-args", "70") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verified"] is True and answer["speedup"] == pytest.approx(1.0, abs=0.1)
    assert {check["name"] for check in answer["checks"]} > {"outputs_equal", "other_inputs", "other_sizes"}
    assert all(check["passed"] is not False and "detail" in check for check in answer["checks"])


@pytest.mark.parametrize(
    ("changed", "reason"),
    [(OTHER, "differs"), (PROGRAM.replace("= in[i]", "= ins[i]"), "b.hip:7:"), ("", "no_kernel: b.hip")],
)
def test_a_refused_program_exits_with_5_and_the_reason(
    changed: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verify(tmp_path, PROGRAM, changed, "--check-args", "100") == 5
    answer = json.loads(capsys.readouterr().out)
    assert answer["verified"] is False and answer["speedup"] is None
    assert reason in next(check["detail"] for check in answer["checks"] if check["passed"] is False)


@pytest.mark.parametrize(
    ("original", "words", "code"),
    [
        ("int main() { return 0; }", (), 3),
        ("int main( {", (), 3),
        (PROGRAM.replace("return back[0] < 0", "abort()"), (), 3),
        (PROGRAM, ("--check-args", "'100"), 2),
        (PROGRAM, ("--check-args", "-1"), 3),
    ],
)
def test_an_original_that_is_no_reference_is_bad_input(
    original: str, words: tuple[str, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verify(tmp_path, original, SAME, *words) == code
    assert set(json.loads(capsys.readouterr().out)) >= {"error", "message", "cause", "remedy"}


KERNEL = """#include "two.h"
__global__ void twice(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = TWO * in[i];
}
"""


@pytest.mark.parametrize(
    ("changed", "code", "detail"),
    [
        (KERNEL.replace("TWO * in[i]", "in[i] * TWO"), 0, ""),
        (KERNEL.replace("TWO", "3.0f"), 5, "differs"),
        (KERNEL.replace("float* out", "float* out, float* more"), 5, "b.hip:"),
        (SAME, 3, ""),
    ],
)
def test_kernels_without_main_are_launched_as_the_original_is(
    changed: str, code: int, detail: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/two.h").write_text("#define TWO 2.0f\n")
    assert run_verify(tmp_path, KERNEL, changed, f"-I{tmp_path / 'own'}") == code
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    if code == 3:
        assert answer["error"] == "no_main"
        return
    assert "note: no main(): twice is launched with" in printed.err
    assert answer["verified"] is (code == 0)
    assert detail in "".join(check["detail"] for check in answer["checks"] if check["passed"] is False)


def test_the_tool_compares_any_two_programs() -> None:
    session = ToolSession(target_of("gfx942"), sizes=(("100",),))
    for text in (PROGRAM, SAME, OTHER):
        session.add(text)
    assert run_tool(session, "verify", {"original": "v0", "changed": "v1"}).document["passed"]
    assert not run_tool(session, "verify", {"original": "v0", "changed": "v2"}).document["passed"]
    assert run_tool(session, "verify", {"original": "v0", "changed": "v9"}).document["error"] == "unknown_program"


def test_a_size_at_which_the_original_never_ends_takes_a_small_part_of_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As a hash table's probing at sizes that are no power of two: the other sizes are left for the search."""
    endless = PROGRAM.replace("  const int i =", "  for (int at = 0; n % 64; ++at) out[at % n] = 0;\n  const int i =")
    for module in (verify, search_clock):
        monkeypatch.setattr(module, "LEAST_RUN_S", 0.5)
    clock = Clock(10.0)
    sizes = [("64",), ("65",), ("128",)]
    verifier = prepare_verifier(read_program(endless, "gfx942"), target_of("gfx942"), sizes, clock=clock)
    assert verifier.sizes == [("64",), ("128",)] or (verifier.sizes == [("64",)] and clock.hurry)
    assert not verifier.try_size(("66",)) and clock.reserve_s < 7.5


def test_a_check_after_the_end_of_the_clock_lasts_as_long_as_the_original_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine, a changed program is not refused because time ran out: no check ends before 2 s, or five times
    the original's time, if that is more."""
    limits: dict[str, float] = {}

    def run(text: str, target: Target, conditions: Conditions) -> Trial:
        limits[text] = conditions.time_s
        kernel = KernelRecord("twice", 1, (1, 1, 1), (64, 1, 1), 1.0, {}, {})
        return Trial("ok", exit_code=0, kernels=(kernel,), cpu_s=1.5)

    monkeypatch.setattr("hipsynth.tuning.optimize.verification.verify.run_trial", run)
    now = [0.0]
    clock = Clock(60.0, now=lambda: now[0])
    program = read_program(PROGRAM, "gfx942")
    verifier = prepare_verifier(program, target_of("gfx942"), [("64",)], clock=clock)
    now[0] = 100.0
    assert clock.late and verifier.quick(SAME).passed
    assert limits[SAME] == 5 * 1.5 and clock.run_s(20.0) == LEAST_RUN_S < limits[SAME]


def test_an_original_that_launches_nothing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    idle = PROGRAM.replace("  twice<<<", "  if (n < 0) twice<<<")
    assert run_verify(tmp_path, idle, idle, "--check-args", "64") == 3
    assert "the original launches no kernel" in capsys.readouterr().err


def test_sizes_at_which_the_original_fails_are_named_with_their_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = PROGRAM.replace("  twice<<<", "  if (n == 64) return 7;\n  twice<<<")
    assert run_verify(tmp_path, failing, failing, "--check-args", "64") == 3
    assert "at each size that was tried: 64 (exit code 7)" in capsys.readouterr().err


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, None)])
def test_a_failed_size_is_not_hidden_by_another_one(order: tuple[bool | None, bool | None]) -> None:
    sizes = tuple(VerificationCheck("other_sizes", passed) for passed in order)
    verification = Verification((VerificationCheck("outputs_equal", True), *sizes))
    assert not verification.passed and verification.document().other_sizes is False


def test_a_size_that_says_nothing_leaves_the_others_result() -> None:
    checks = [("outputs_equal", True), ("other_sizes", True), ("other_sizes", None), ("precision", None)]
    verification = Verification(tuple(VerificationCheck(name, passed) for name, passed in checks))
    assert verification.passed and verification.document().other_sizes is True
    assert verification.document().precision is None
