"""Kernels without a main(), profiled through the verb."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from hipsynth.cli.main import cli
from hipsynth.core.errors import UsageError
from hipsynth.serving.handlers import profile
from hipsynth.serving.requests import ProgramRequest

TEXT = """#include <hip/hip_runtime.h>
struct Pair { float a, b; };
__global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void gather(const int* index, const double* in, Pair* out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i].a = in[index[i]];
}
"""


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["profile", *words], prog_name="synth", standalone_mode=False)


def test_kernels_without_main_are_profiled_with_the_chosen_sizes(tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text(TEXT)
    finished = run(str(path), "--arch", "gfx942", "--value", "n=65536", "--lines", "--json")
    assert finished.return_value == 0, finished.stderr
    document = json.loads(finished.stdout)
    saxpy, gather = document["results"][0]["kernels"]
    assert document["program"]["path"] == str(path)
    assert (saxpy["name"], saxpy["grid"], gather["name"]) == ("saxpy", [256, 1, 1], "gather")
    assert saxpy["counters"]["EXACT_READ_BYTES"] == 65536 * 8, "x and y, all of n"
    assert {line["file"] for line in saxpy["lines"]} <= {str(path), ""}
    assert {line["line"] for line in saxpy["lines"]} <= {0, 3, 4, 5, 6}
    assert (
        "note: no main(): saxpy is launched with 256 x 1 x 1 work-groups of 256 x 1 x 1; n = 65536" in finished.stderr
    )


def test_choices_are_for_kernels_without_main_alone(tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text(TEXT + "int main() { return 0; }\n")
    assert isinstance(run(str(path), "--value", "n=3").exception, UsageError)


BROKEN = """__global__ void wild(float** rows) { rows[threadIdx.x][0] = undeclared; }
"""


def test_kernels_that_are_not_chosen_hide_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text(TEXT + BROKEN)
    finished = run(str(path), "--arch", "gfx942", "--kernel", "SAX", "--json", "--", "4096")
    assert finished.return_value == 0, finished.stderr
    assert [kernel["name"] for kernel in json.loads(finished.stdout)["results"][0]["kernels"]] == ["saxpy"]
    assert "16 x 1 x 1 work-groups of 256 x 1 x 1; n = 4096; x, y of 4,096 elements" in finished.stderr
    assert "wild" not in finished.stderr and "choose with" not in finished.stderr, "its size is chosen"


PRODUCTS = """#include <hip/hip_runtime.h>
__global__ void scale_rows(int batch, int rows, int columns, const float* x, float* y) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch || row >= rows) return;
  for (int j = 0; j < columns; ++j) y[(i * rows + row) * columns + j] = 2 * x[(i * rows + row) * columns + j];
}
"""


def test_sizes_that_leave_the_buffers_become_smaller(tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text(PRODUCTS)
    finished = run(str(path), "--arch", "gfx942", "--json")
    assert finished.return_value == 0, finished.stderr
    document = json.loads(finished.stdout)
    [kernel] = document["results"][0]["kernels"]
    assert kernel["counters"]["EXACT_READ_BYTES"] == 4 * 128**3
    assert "memory that it does not own; with small sizes and large buffers:" in finished.stderr
    assert "batch = 128; rows = 128; columns = 128" in document["assumed"][0]
    served = profile(ProgramRequest(arch="gfx942", source=PRODUCTS))
    assert served.results[0].kernels[0].counters == kernel["counters"] and served.assumed == tuple(document["assumed"])
    chosen = run(str(path), "--arch", "gfx942", "--value", "columns=2048", "--json")
    assert "illegal_access" in chosen.stdout, "what a user chose stays"
