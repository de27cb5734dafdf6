"""Predictions of files that include headers of their folder: device code and host code are compiled with them."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner

import hipsynth
from hipsynth.cli.predict import command
from hipsynth.cli.profile import command as profile
from hipsynth.core.program import Project, SourceFile
from hipsynth.profiling.preview.programs import add_include_folder
from hipsynth.training.models.documents import SimulatedKernel

SOURCE = """#include <hip/hip_runtime.h>
#include "sizes.h"
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= FACTOR;
}
int main() {
  float* x;
  hipMalloc(&x, GROUPS * 256 * 4);
  scale<<<GROUPS, 256>>>(x, GROUPS * 256);
  hipDeviceSynchronize();
  return 0;
}
"""


def write_program(folder: Path, groups: int) -> Path:
    (folder / "sizes.h").write_text(f"#pragma once\n#define GROUPS {groups}\n#define FACTOR 3.0f\n")
    path = folder / "scale.hip"
    path.write_text(SOURCE)
    return path


def test_headers_of_the_folder_are_found_and_their_changes_seen(tmp_path: Path) -> None:
    needs.simulator()
    for groups in (512, 64):
        (result,) = hipsynth.predict(write_program(tmp_path, groups), arch="gfx942").results
        assert result.source == "program" and not result.notes
        assert [kernel.grid for kernel in result.kernels] == [(groups, 1, 1)]


def test_kernels_in_a_header_of_the_folder_are_predicted(tmp_path: Path) -> None:
    """As many programs have them: `main.cpp` and `kernels.h`."""
    needs.simulator()
    path = write_program(tmp_path, 64)
    includes, kernel_and_main = SOURCE[: SOURCE.index("__global__")], SOURCE[SOURCE.index("__global__") :]
    kernel, main = kernel_and_main.split("int main")
    (tmp_path / "kernels.h").write_text(f"#pragma once\n{kernel}")
    path.write_text(f'{includes}#include "kernels.h"\nint main{main}')
    (result,) = hipsynth.predict(path, arch="gfx942").results
    assert result.source == "program" and [kernel.name for kernel in result.kernels] == ["scale"]


def test_headers_of_other_folders_and_macros_are_given_as_to_a_compiler(tmp_path: Path) -> None:
    needs.simulator()
    (tmp_path / "include").mkdir()
    write_program(tmp_path / "include", 512)
    program = tmp_path / "scale.hip"
    program.write_text(SOURCE.replace("FACTOR", "SCALE"))
    (result,) = hipsynth.predict(program, arch="gfx942", includes=[str(tmp_path / "include")]).results
    assert result.source != "program", "SCALE has no value"
    run = CliRunner().invoke(command, [str(program), "--arch", "gfx942", f"-I{tmp_path / 'include'}", "-DSCALE=3.0f"])
    assert run.exit_code == 0 and "scale  grid 512x1x1" in run.output and "note:" not in run.output, run.output


@pytest.mark.parametrize(
    ("folder", "text", "added"),
    [
        ("/home/me/my code", SOURCE, " -iquote '/home/me/my code'"),
        ("/home/me/code", SOURCE.replace('#include "sizes.h"', ""), ""),
        ("/", SOURCE, ""),
    ],
)
def test_a_folder_is_named_only_where_the_text_includes_of_it(folder: str, text: str, added: str) -> None:
    project = Project((SourceFile(Path(folder) / "scale.hip"),), Path(folder))
    assert add_include_folder("-O3", text, project) == f"-O3{added}"
    assert add_include_folder("-O3", text, None) == "-O3"


def test_a_check_executes_the_program_in_its_folder(tmp_path: Path) -> None:
    needs.simulator()
    path = write_program(tmp_path, 64)
    (tmp_path / "input.txt").write_text("32\n")
    read = 'FILE* f = fopen("input.txt", "r");\n  int groups = 0;\n  if (!f || fscanf(f, "%d", &groups) != 1) return 3;'
    path.write_text(SOURCE.replace("float* x;", f"{read}\n  float* x;").replace("<<<GROUPS", "<<<groups"))
    (result,) = hipsynth.predict(path, arch="gfx942", check=True).results
    assert result.executed is not None
    (kernel,) = result.executed
    assert isinstance(kernel, SimulatedKernel) and kernel.grid == (32, 1, 1) == result.kernels[0].grid
    path.write_text(SOURCE[: SOURCE.index("int main")])
    (result,) = hipsynth.predict(path, arch="gfx942", check=True).results
    assert result.executed is not None and isinstance(result.executed[0], SimulatedKernel), (
        "with a main() that was made"
    )


def test_the_preview_backend_finds_headers_beside_and_elsewhere(tmp_path: Path) -> None:
    needs.simulator()
    path = write_program(tmp_path, 64)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "factor.h").write_text("#define FACTOR 3.0f\n")
    (tmp_path / "sizes.h").write_text("#include <factor.h>\n#define GROUPS 64\n")
    words = [str(path), f"-I{tmp_path / 'more'}", "--backend", "preview", "--arch", "gfx942", "--json"]
    done = CliRunner().invoke(profile, words)
    assert done.exit_code == 0, done.output
    (result,) = json.loads(done.stdout)["results"]
    assert [kernel["grid"] for kernel in result["kernels"]] == [[64, 1, 1]]
