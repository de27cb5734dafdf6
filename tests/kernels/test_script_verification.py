"""`synth verify ORIGINAL.py CHANGED.py`: what passes, and what each kind of cheat is refused for."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.library.scripts import open_script_trials
from hipsynth.library.verify import verify
from hipsynth.tuning.optimize.documents import VerifyDocument
from hipsynth.tuning.optimize.scripts.verify_script import ScriptVerifier
from hipsynth.tuning.optimize.verification.checks import check_races
from hipsynth.tuning.trial import target_of

needs.installed("triton")

SCALE = """
import torch, triton, triton.language as tl

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, 3 * tl.load(x_ptr + at, mask=at < n), mask=at < n)

n = 1 << 18
x = torch.randn(n, device="cuda")
y = torch.empty_like(x)
scale[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
"""
FASTER = SCALE.replace("(n, 64)", "(n, 1024)").replace("BLOCK=64", "BLOCK=1024")
# What is wrong with a changed script -> its text, the check that fails, and words of it.
CHEATS = {
    "another factor": (FASTER.replace("3 * tl", "2 * tl"), "outputs_equal", ""),
    "a part of the grid": (FASTER.replace("(n, 1024)", "(n // 2, 1024)"), "outputs_equal", ""),
    "PyTorch does the work": (
        FASTER.replace("y = torch.empty_like(x)", "y = torch.empty_like(x); x = x * 3").replace("3 * tl", "tl"),
        "outside_kernels",
        "1 x mul",
    ),
    "the device is changed": (FASTER + "import hipsynth_device\n", "outside_kernels", "virtual device"),
    "it ends early": (FASTER + "raise SystemExit(1)\n", "outputs_equal", "exit code 1"),
}

TOTAL = """
import torch, triton, triton.language as tl

@triton.jit
def total(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0), 0))

n = 1 << 14
x = torch.randint(0, 100, (n,), device="cuda", dtype=torch.int32)
y = torch.zeros(1, device="cuda", dtype=torch.int32)
total[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
"""
SOFTMAX = """
import torch, triton, triton.language as tl

@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * columns + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + tl.program_id(0) * columns + at, e / tl.sum(e, 0), mask=at < columns)

x = torch.randn(64, 200, device="cuda")
y = torch.empty_like(x)
softmax[(64,)](x, y, 200, BLOCK=256)
"""
REPEATED = SCALE.replace("1 << 18", "1 << 14").replace("scale[(", "for step in range(10):\n    scale[(")
TUNED = REPEATED.replace(
    "@triton.jit", '@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 1024)], ["n"])\n@triton.jit'
)
# What is wrong with a changed script -> the original, its changed text, the check that fails, and words of it.
CHEATS_OF_OTHERS = {
    "a sum without atomics": (
        TOTAL,
        TOTAL.replace("tl.atomic_add(y_ptr, tl", "tl.store(y_ptr, tl.load(y_ptr) + tl"),
        "races",
        "two work-groups, one word",
    ),
    "softmax without its maximum": (SOFTMAX, SOFTMAX.replace("x - tl.max(x, 0)", "x"), "other_inputs", "family large"),
    "another file": (
        SOFTMAX + "open('rows.txt', 'w').write(str(len(y)))\n", SOFTMAX + "open('rows.txt', 'w').write('none')\n",
        "outputs_equal", "writes other files",
    ),
    "launches left out": (
        REPEATED, REPEATED.replace("    scale[", "    if step == 0: scale["), "repeated_launches", "1 in 10 rounds"
    ),
    "later launches that do nothing": (
        REPEATED, REPEATED.replace("(triton.cdiv(n, 64),)", "(triton.cdiv(n, 64) if step == 0 else 1,)"),
        "repeated_launches", "differs",
    ),
}  # fmt: skip


def verify_texts(folder: Path, changed: str, name: str = "changed.py", original: str = SCALE) -> VerifyDocument:
    (folder / "original.py").write_text(original)
    (folder / name).write_text(changed)
    return verify(folder / "original.py", folder / name, arch="gfx942")


@pytest.mark.full
def test_larger_blocks_are_verified_and_faster(tmp_path: Path) -> None:
    document = verify_texts(tmp_path, FASTER)
    checks = {check.name: check.passed for check in document.checks}
    assert document.verified and document.speedup is not None and document.speedup > 1.2, document
    assert checks["outputs_equal"] and checks["other_inputs"] and checks["stale_memory"] and checks["timed_size"]
    assert document.flags == ""


@pytest.mark.parametrize(
    "cheat", [pytest.param(name, marks=() if number == 2 else pytest.mark.full) for number, name in enumerate(CHEATS)]
)
def test_cheats_are_refused(cheat: str, tmp_path: Path) -> None:
    text, check, words = CHEATS[cheat]
    document = verify_texts(tmp_path, text)
    failed = {check.name: check.detail for check in document.checks if check.passed is False}
    assert not document.verified and document.speedup is None
    assert words in failed[check], document.checks


def test_a_sum_without_atomics_is_a_race(tmp_path: Path) -> None:
    original, changed, name, words = CHEATS_OF_OTHERS["a sum without atomics"]
    (tmp_path / "original.py").write_text(original)
    with open_script_trials(tmp_path / "original.py", (), "gfx942") as trials:
        verifier = ScriptVerifier(trials, target_of("gfx942"), [()])
        check = check_races(verifier, changed)
    assert (check.name, check.passed) == (name, False) and words in check.detail


@pytest.mark.full
@pytest.mark.parametrize("cheat", CHEATS_OF_OTHERS)
def test_what_only_changed_runs_show_is_refused(cheat: str, tmp_path: Path) -> None:
    original, changed, check, words = CHEATS_OF_OTHERS[cheat]
    document = verify_texts(tmp_path, changed, original=original)
    failed = {check.name: check.detail for check in document.checks if check.passed is False}
    assert list(failed) == [check] and words in failed[check], document.checks


@pytest.mark.full
def test_launches_that_tune_are_not_missed(tmp_path: Path) -> None:
    document = verify_texts(tmp_path, REPEATED.replace("64", "1024"), original=TUNED.replace(", BLOCK=64)", ")"))
    checks = {check.name: check.passed for check in document.checks}
    assert document.verified and checks["repeated_launches"] is None, document.checks


def test_two_languages_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two Python scripts"):
        verify_texts(tmp_path, "__global__ void f() {}\n", "changed.hip")
    with pytest.raises(UsageError):
        verify(tmp_path / "original.py", tmp_path / "original.py", arch="gfx942", flags="-O2")
