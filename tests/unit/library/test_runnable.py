"""Kernels without main() as programs that the optimizer can run."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import hipsynth
from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.library.harness import read_runnable
from hipsynth.source.arguments import default_arguments
from hipsynth.tuning.optimize.optimize import OptimizeRequest
from hipsynth.tuning.optimize.verification.verify_change import VerifyRequest
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


BROKEN = KERNEL.replace("if (i < n)", "if (i < n") + "int main() {}\n"


@pytest.mark.parametrize("verb", ["optimize", "swizzle", "verify"])
def test_messages_name_the_file_and_the_line(tmp_path: Path, verb: str) -> None:
    path, header = tmp_path / "a.hip", tmp_path / "b.h"
    files = [str(path)] * (2 if verb == "verify" else 1)
    path.write_text(BROKEN)
    with pytest.raises(BadInput, match=r"a\.hip:3:53: .*expected '\)'"):
        CliRunner().invoke(cli, [verb, *files], standalone_mode=False, catch_exceptions=False)
    path.write_text('#include "gone.h"\n' + KERNEL + "int main() {}\n")
    with pytest.raises(BadInput, match=r"a\.hip:1:10: .*'gone\.h' file not found(.|\n)*-I FOLDER"):
        CliRunner().invoke(cli, [verb, *files], standalone_mode=False, catch_exceptions=False)
    path.write_text('#include "b.h"\nint main() {}\n')
    header.write_text("#pragma once\n" + BROKEN)
    with pytest.raises(BadInput, match=r"b\.h:4:53: .*expected '\)'"):
        CliRunner().invoke(cli, [verb, *files], standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize("verb", ["optimize", "verify"])
def test_functions_take_macros(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    class Asked(Exception):
        """Says with which flags."""

    def ask(request: OptimizeRequest | VerifyRequest, *_: object) -> None:
        raise Asked(request.target.flags)

    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.optimize_program", ask)
    monkeypatch.setattr("hipsynth.tuning.optimize.verification.verify_change.verify_change", ask)
    (tmp_path / "a.hip").write_text(KERNEL + "int main() {}\n")
    (tmp_path / "a.py").write_text("")
    for name, error, words in (("a.hip", Asked, "-O3 -DN=8 -DM"), ("a.py", UsageError, "defines: only for HIP")):
        with pytest.raises(error, match=words):
            getattr(hipsynth, verb)(*[tmp_path / name] * (2 if verb == "verify" else 1), defines=["N=8", "M"])


def test_headers_and_macros_are_given_as_to_a_compiler(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.hip", tmp_path / "common"
    folder.mkdir()
    (folder / "b.h").write_text("#define TWICE(x) ((x) * 2)\n")
    host = "int main() { float* x; (void)hipMalloc(&x, 1 << 20); scale<<<N / 256, 256>>>(N, x); return 0; }\n"
    path.write_text('  #include "b.h"\n' + KERNEL.replace("x[i] *= 2", "x[i] = TWICE(x[i])") + host)
    given = ["-I", str(folder), "-D", "N=65536"]
    swizzled = CliRunner().invoke(cli, ["swizzle", str(path), *given], standalone_mode=False, catch_exceptions=False)
    assert "scale: " in swizzled.stdout
    verified = CliRunner().invoke(cli, ["verify", str(path), str(path), *given], standalone_mode=False)
    assert "verified; 1.00 times as fast" in verified.stdout, verified.output
    arguments = ["optimize", str(path), *given, "--budget", "1s", "--out", str(tmp_path / "c.hip")]
    (tmp_path / "c.hip").write_text("// mine\n")
    optimized = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert optimized.return_value == 0 and "c.hip exists: what is found replaces it" in optimized.stderr


def test_the_verb_optimizes_a_kernel_alone(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    out = ["--out", str(tmp_path / "faster.hip"), "--budget", "2s"]
    ran = CliRunner().invoke(cli, ["optimize", str(path), *out], prog_name="synth", standalone_mode=False)
    assert ran.return_value == 0, ran.stderr
    assert "scale is launched with" in ran.stderr and "--grid" not in ran.stderr and "refused" not in ran.stdout
