"""Kernels that stage tiles of their own: the source without these, and that programs with larger ones do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.program_model import read_program
from hipsynth.tuning.optimize.source_changes.retile import list_changes, write_untiled
from hipsynth.tuning.optimize.statements import NotUnderstood
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
#define SIDE 16
__global__ void multiply(const float* a, const float* b, float* c, int n, int k) {
  BODY
}
int main() {
  const int n = 144, k = 48;
  std::vector<float> host(n * n);
  for (int i = 0; i < n * n; ++i) host[i] = 0.5f * (i * 7 % 23) - 3;
  float *a, *b, *c;
  if (hipMalloc(&a, n * k * 4) || hipMalloc(&b, n * k * 4) || hipMalloc(&c, n * n * 4)) return 1;
  (void)hipMemcpy(a, host.data(), n * k * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, host.data(), n * k * 4, hipMemcpyHostToDevice);
  multiply<<<dim3(n / SIDE, n / SIDE), dim3(SIDE, SIDE)>>>(a, b, c, n, k);
  (void)hipMemcpy(host.data(), c, n * n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
NAMES = "const int tx = threadIdx.x, ty = threadIdx.y;\n  "
BEGIN = (
    "__shared__ float x[SIDE][SIDE], y[SIDE][SIDE];\n"
    "  const int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;\n  float sum = 0;\n  "
)
PRODUCT = (
    "    for (int i = 0; i < SIDE; ++i) sum += x[threadIdx.y][i] * y[i][threadIdx.x];\n    __syncthreads();\n  }\n"
)
PLAIN = (
    BEGIN + "for (int t = 0; t < k; t += SIDE) {\n    x[threadIdx.y][threadIdx.x] = a[row * k + t + threadIdx.x];\n"
    "    y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];\n    __syncthreads();\n"
    + PRODUCT
    + "  c[row * n + col] = sum;"
)
GUARDED = (
    NAMES + BEGIN + "for (int t = 0; t < (k + SIDE - 1) / SIDE; t++) {\n"
    "    const int across = t * SIDE + tx;\n    int down = t * SIDE + ty;\n"
    "    x[ty][tx] = (row < n && across < k) ? a[row * k + across] : 0.0f;\n"
    "    y[tx][ty] = col < n && down < k ? b[down * n + col] : 0;\n    __syncthreads();\n"
    + PRODUCT.replace("y[i][threadIdx.x]", "y[tx][i]")
    + "  if (row < n && col < n) c[row * n + col] = sum;"
)
COUNTED = NAMES + PLAIN.replace("threadIdx.x]", "tx]").replace("t < k; t += SIDE", "t < k / SIDE; ++t").replace(
    "k + t + tx", "k + t * SIDE + tx"
).replace("(t + threadIdx.y)", "(SIDE * t + threadIdx.y)")  # fmt: skip


def untile(body: str) -> str:
    program = read_program(PROGRAM.replace("BODY", body), "gfx942")
    text = write_untiled(program, program.kernels[0])
    return text.partition("int k) {\n")[2].partition("\n}\n")[0]


def retile(body: str) -> list[str]:
    text = PROGRAM.replace("BODY", body)
    kernel = KernelTime("multiply", 100.0, 1, "lds", "", (9, 9, 1), (16, 16, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    return [change.text for change in list_changes(read_program(text, "gfx942"), timed, TARGET)]


@pytest.mark.parametrize("body", [PLAIN, COUNTED], ids=["by elements", "by tiles"])
def test_a_tile_is_read_as_what_is_stored_in_it(body: str) -> None:
    text = untile(body)
    assert "sum += a[row * k + i] * b[i * n + col];" in text and "for (int i = 0; i < k; ++i) {" in text
    assert "__shared__" not in text and "__syncthreads" not in text and "tx" not in text
    assert "row = blockIdx.y * blockDim.y + threadIdx.y" in text


def test_conditions_of_loads_become_those_of_the_work_item() -> None:
    text = untile(GUARDED)
    assert "if (row < n && col < n) {\n    float sum = 0;\n" in text
    assert "sum += a[row * k + i] * b[i * n + col];" in text and "? " not in text


@pytest.mark.parametrize("body", [PLAIN, GUARDED], ids=["plain", "guarded"])
def test_programs_with_larger_tiles_do_the_same(body: str) -> None:
    needs.simulator()
    needs.compiler()
    texts = retile(body)
    assert "mfma" in texts[0] and "mfma" not in texts[-1] and "__shared__" in texts[-1]
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    before = run_trial(PROGRAM.replace("BODY", body), TARGET, conditions)
    for text in (texts[0], texts[-1]):
        after = run_trial(text, TARGET, conditions)
        assert before.ok and after.ok, after.message
        assert compare_trials(before, after, Tolerance("float", 1e-5, "sums in another order")).equal


LEFT_ALONE = {
    "a place that others store": PLAIN.replace("x[threadIdx.y][i]", "x[threadIdx.x][i]"),
    "a tile of sums": PLAIN.replace("sum += x", "x[0][0] += x"),
    "a value that depends on the place": PLAIN.replace("a[row * k + t + threadIdx.x]", "a[col * k + t + threadIdx.x]"),
    "another place of the loop": PLAIN.replace("(t + threadIdx.y) * n", "(2 * t + threadIdx.y) * n"),
    "a condition of a load alone": GUARDED.replace("col < n && down", "col < 7 && down"),
    "another value outside": GUARDED.replace(": 0.0f", ": 1.0f"),
    "one tile": PLAIN.replace("y[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];", ""),
    "two loops": PLAIN + "\n  for (int j = 0; j < 2; ++j) c[j] = sum;",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_kernels_are_left_alone(what: str) -> None:
    with pytest.raises(NotUnderstood):
        untile(LEFT_ALONE[what])
    assert retile(LEFT_ALONE[what]) == []
