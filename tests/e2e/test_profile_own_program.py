"""`synth profile` of somebody's own program: its includes, its arguments, its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from profiling import toolchain
from synth.errors import Missing

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include "kernel.h"
#include "size.h"
int main(int argc, char** argv) {
  FILE* file = argc == 3 ? std::fopen(argv[2], "r") : nullptr;
  int factor = 0, n = argc == 3 ? std::atoi(argv[1]) : 0;
  if (!file || std::fscanf(file, "%d", &factor) != 1) return 9;
  int* p;
  if (hipMalloc(&p, n * BLOCK * sizeof(int)) != hipSuccess) return 8;
  scale<<<n, BLOCK>>>(p, factor);
  return hipDeviceSynchronize();
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    try:
        toolchain.find()
    except Missing as error:
        pytest.skip(f"no compiler: {error.what}")
    files = {
        "src/main.hip": SOURCE,
        "src/kernel.h": "__global__ void scale(int* p, int f) { p[blockIdx.x * blockDim.x + threadIdx.x] *= f; }\n",
        "include/size.h": "constexpr int BLOCK = 128;\n",
        "data/factor.txt": "3\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def profile(*words: str, cwd: Path) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, "-m", "synth.cli.main", "profile", "--json", "--arch", "gfx942", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False)
    return done.returncode, json.loads(done.stdout)


def test_a_program_of_several_files_with_arguments(project: Path) -> None:
    words = ("src/main.hip", "--flags=-O3 -Iinclude", "--", "5", "data/factor.txt")
    code, document = profile(*words, cwd=project)
    (result,) = document["results"]
    assert (code, result["status"], result["flags"]) == (0, "ok", "-O3 -Iinclude")
    assert document["program"]["arguments"] == ["5", "data/factor.txt"]
    (kernel,) = result["kernels"]
    assert (kernel["name"], kernel["grid"], kernel["block"]) == ("scale", [5, 1, 1], [128, 1, 1])
    assert sorted(path.name for path in project.rglob("*")) == sorted(
        ["src", "include", "data", "main.hip", "kernel.h", "size.h", "factor.txt"]
    )


def test_without_its_arguments_it_ends_as_it_would_elsewhere(project: Path) -> None:
    code, document = profile("src/main.hip", "--flags=-O3 -Iinclude", cwd=project)
    (result,) = document["results"]
    assert (code, result["status"], result["exit_code"]) == (3, "failed", 9)
