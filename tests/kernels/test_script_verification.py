"""`synth verify ORIGINAL.py CHANGED.py`: what passes, and what each kind of cheat is refused for."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.library.verify import verify
from hipsynth.tuning.optimize.documents import VerifyDocument

needs.package("triton")

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


def verify_texts(folder: Path, changed: str, name: str = "changed.py") -> VerifyDocument:
    (folder / "original.py").write_text(SCALE)
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


def test_two_languages_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="two Python scripts"):
        verify_texts(tmp_path, "__global__ void f() {}\n", "changed.hip")
    with pytest.raises(UsageError):
        verify(tmp_path / "original.py", tmp_path / "original.py", arch="gfx942", flags="-O2")
