"""Kernels without main() as programs that the optimizer can run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput
from hipsynth.library.harness import read_runnable
from hipsynth.source.arguments import default_arguments
from hipsynth.tuning.trial import target_of

TARGET = target_of("gfx942")

KERNEL = """#include <hip/hip_runtime.h>
__global__ void scale(int n, float* x) {
  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] *= 2;
}
"""


def test_a_kernel_alone_gets_a_main_and_says_what_was_assumed(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    text, notes = read_runnable(path, TARGET)
    assert text.startswith(KERNEL.rstrip()) and "int main(int argc" in text
    assert any("scale" in note for note in notes)
    assert default_arguments(text) == (1 << 20,), "its sizes are arguments, so that checks can take others"


def test_a_program_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "program.hip"
    path.write_text(KERNEL + "int main() {}\n")
    assert read_runnable(path, TARGET) == (KERNEL + "int main() {}\n", ())


def test_a_template_alone_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "template.hip"
    path.write_text("template <class... T> __global__ void fill(float* x) { x[0] = 1; }\n")
    with pytest.raises(BadInput, match="is a template"):
        read_runnable(path, TARGET)


def test_the_verb_optimizes_a_kernel_alone(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    out = ["--out", str(tmp_path / "faster.hip"), "--budget", "2s"]
    ran = CliRunner().invoke(cli, ["optimize", str(path), *out], prog_name="synth", standalone_mode=False)
    assert ran.return_value == 0, ran.stderr
    assert "scale is launched with" in ran.stderr and "--grid" not in ran.stderr and "refused" not in ran.stdout
