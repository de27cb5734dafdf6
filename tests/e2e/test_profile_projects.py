"""`synth profile FOLDER --out CORPUS` on projects: several source files, Makefiles, arguments from build files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hipsynth.core.store import Corpus

KERNEL = """#include <hip/hip_runtime.h>
#include "scale.h"
__global__ void scale(float* x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] *= FACTOR; }
void run(int n) {
  float* x;
  if (hipMalloc(&x, n * sizeof(float)) != hipSuccess) return;
  scale<<<(n + 63) / 64, 64>>>(x, n);
  (void)hipDeviceSynchronize();
  (void)hipFree(x);
}
"""
MAIN = """#include <cstdlib>
#include "scale.h"
int main(int argc, char** argv) { run(argc > 1 ? std::atoi(argv[1]) : 64); }
"""
ALONE = """#include <hip/hip_runtime.h>
__global__ void alone(int* out) { out[threadIdx.x] = 1; }
int main() {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  alone<<<1, 64>>>(p);
  return hipDeviceSynchronize();
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project = tmp_path / "programs/project"
    (project / "src").mkdir(parents=True)
    (project / "include").mkdir()
    (project / "include/scale.h").write_text("#pragma once\nvoid run(int n);\n")
    (project / "src/scale.cpp").write_text(KERNEL)
    (project / "src/main.cpp").write_text(MAIN)
    (project / "Makefile").write_text(
        "app: src/main.cpp src/scale.cpp\n\thipcc -Iinclude -DFACTOR=3.0f $^ -o $@\nrun: app\n\t./app 640\n"
    )
    (tmp_path / "programs/alone.hip").write_text(ALONE)
    return tmp_path / "programs"


def profile(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile", *arguments, "--arch", "gfx90a"]
    return subprocess.run([*command, "--flags=-O3"], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.usefixtures("sandboxed", "with_make")
def test_projects_and_single_files_are_measured_together(folder: Path, tmp_path: Path) -> None:
    done = profile(str(folder), "--out", str(tmp_path / "corpus"))
    assert done.returncode == 0, done.stderr
    rows = Corpus.open(tmp_path / "corpus").measurements().select(["kernel", "arguments", "grid"]).to_pylist()
    found = {row["kernel"]: (row["arguments"], row["grid"][0]) for row in rows}
    assert found == {"scale": ("640", 10), "alone": ("", 1)}
    again = profile(str(folder), "--out", str(tmp_path / "corpus"))
    assert "0 measured, 2 done before" in again.stdout, again.stdout


@pytest.mark.usefixtures("sandboxed", "with_make")
@pytest.mark.full
def test_a_project_that_does_not_build_is_a_failure(folder: Path, tmp_path: Path) -> None:
    (folder / "project/src/scale.cpp").write_text(KERNEL.replace("FACTOR", "NOWHERE"))
    done = profile(str(folder), "--out", str(tmp_path / "corpus"))
    assert done.returncode == 5 and "1 x compile_failed" in done.stdout, done.stdout
    assert Corpus.open(tmp_path / "corpus").failures().num_rows == 1


@pytest.mark.usefixtures("sandboxed", "with_make")
def test_macros_of_the_command_line_are_there_while_a_project_is_looked_for(folder: Path) -> None:
    project = folder / "project"
    (project / "Makefile").write_text("app: src/main.cpp src/scale.cpp\n\thipcc -Iinclude $^ -o $@\n")
    done = profile(str(project), "-DFACTOR=2.0f", "-D", "OTHER")
    assert done.returncode == 0 and "scale" in done.stdout, done.stderr
