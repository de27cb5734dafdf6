"""Kernels that stage tiles of their own: the source without these, and that programs with larger ones do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.retile import list_changes
from hipsynth.tuning.optimize.source_changes.retile.plain_product import write_plain_product
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
    text = write_plain_product(program, program.kernels[0], (16, 16, 1))
    return text.partition(") {\n")[2].partition("\n}\nint main")[0]


def retile(body: str) -> list[str]:
    text = PROGRAM.replace("BODY", body)
    kernel = KernelTime("multiply", 100.0, 1, "lds", "", (9, 9, 1), (16, 16, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    return [change.text for change in list_changes(read_program(text, "gfx942"), timed, TARGET)]


@pytest.mark.parametrize("body", [PLAIN, COUNTED], ids=["by elements", "by tiles"])
def test_a_tile_is_read_as_what_is_stored_in_it(body: str) -> None:
    text = untile(body)
    length = "(k / SIDE) * SIDE" if body is COUNTED else "k"
    assert f"i < {length}; ++i) {{\nsum += a[row * k + i] * b[i * n + col];" in text
    assert "__shared__" not in text and "__syncthreads" not in text and "tx" not in text
    assert "row = blockIdx.y * blockDim.y + threadIdx.y" in text


def test_conditions_of_loads_become_those_of_the_work_item() -> None:
    text = untile(GUARDED)
    assert "if (row < n && col < n) {\nfloat sum = 0;\n" in text
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


OTHER_FORMS = {
    "by a group's first element": PLAIN.replace(
        "for (int t", "const int first = SIDE * (k * blockIdx.y);\n  for (int t"
    ).replace("a[row * k + t + threadIdx.x]", "a[first + t + k * threadIdx.y + threadIdx.x]"),
    "two numbers of a tile": PLAIN.replace(
        "for (int t = 0; t < k; t += SIDE)",
        "const int begin = k * SIDE * blockIdx.y, end = begin + k - 1, down = SIDE * n;\n"
        "  for (int t = begin, u = SIDE * blockIdx.x; t <= end; t += SIDE, u += down)",
    )
    .replace("a[row * k + t + threadIdx.x]", "a[t + k * threadIdx.y + threadIdx.x]")
    .replace("b[(t + threadIdx.y) * n + col]", "b[u + n * threadIdx.y + threadIdx.x]"),
    "a width from the launch": PLAIN.replace("int row", "int width = blockDim.x * gridDim.x, row").replace(
        "* n + col] = sum", "* width + col] = sum"
    ),
    "by branches": GUARDED.replace(
        "x[ty][tx] = (row < n && across < k) ? a[row * k + across] : 0.0f;",
        "if (row < n && across < k) x[ty][tx] = a[(size_t)row * k + across];\n    else { x[ty][tx] = 0.0f; }",
    ),
    "flat tiles": PLAIN.replace("[SIDE][SIDE]", "[SIDE * SIDE]")
    .replace("][threadIdx.x]", " * SIDE + threadIdx.x]")
    .replace("[threadIdx.y][i]", "[threadIdx.y * SIDE + i]"),
    "batches": PLAIN.replace(
        "float sum", "const int batch = blockIdx.z;\n  const float* own = a + batch * n * k;\n  float sum"
    ).replace("= a[row", "= own[row"),
    "conditions without a value": GUARDED.replace(
        "x[ty][tx] = (row < n && across < k) ? a[row * k + across] : 0.0f;",
        "if (row < n) {\n      const int at = across;\n      if (tx < SIDE && at < k) x[ty][tx] = a[row * k + at];\n"
        "    }",
    ).replace("sum += x", "if (row < n && t * SIDE + i < k) sum += x"),
    "a number for the width": PLAIN.replace("t += SIDE", "t += 16"),
    "a count rounded up otherwise": GUARDED.replace("(k + SIDE - 1) / SIDE", "(k - 1) / SIDE + 1"),
}


@pytest.mark.parametrize("what", OTHER_FORMS)
def test_other_forms_of_subscripts_mean_the_same(what: str) -> None:
    assert OTHER_FORMS[what] not in (PLAIN, COUNTED, GUARDED)
    text = untile(OTHER_FORMS[what])
    assert "sum += a[row * k + i] * b[i * n + col];" in text.replace("(size_t)", "").replace("own", "a")
    assert ("const float* own = a + batch * n * k;" in text) == (what == "batches")
    assert "for (int i = 0; i < k; ++i) {" in text and "__shared__" not in text and "threadIdx" in text


def test_tiles_need_not_be_square_by_value() -> None:
    body = (
        PLAIN.replace("x[SIDE][SIDE], y[SIDE]", "x[16][8], y[8]")
        .replace("t += SIDE", "t += 8")
        .replace("i < SIDE", "i < 8")
    )
    body = body.replace("x[threadIdx.y][threadIdx.x] =", "if (threadIdx.x < 8) x[threadIdx.y][threadIdx.x] = 2 *")
    body = body.replace("y[threadIdx.y][threadIdx.x] =", "if (threadIdx.y < 8) y[threadIdx.y][threadIdx.x] =")
    assert "sum += (2 * a[row * k + i]) * b[i * n + col];" in untile(body)
    with pytest.raises(NotUnderstood):
        untile(body.replace("threadIdx.y < 8", "threadIdx.y < 7"))


def test_the_width_of_a_launch_becomes_a_parameter() -> None:
    needs.simulator()
    needs.compiler()
    body = OTHER_FORMS["a width from the launch"]
    assert "c[row * width + col] = sum;" in untile(body)
    texts = retile(body)
    assert "(a, b, c, n, k, (n / SIDE) * SIDE" in texts[-1]
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    before, after = (run_trial(text, TARGET, conditions) for text in (PROGRAM.replace("BODY", body), texts[-1]))
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
    "tiles that are not side by side": COUNTED.replace("k + t * SIDE + tx", "k + t * SIDE * 2 + tx"),
    "a row of another group": PLAIN.replace("a[row * k", "a[(row + blockIdx.y) * k"),
    "a condition of a step alone": GUARDED.replace("sum += x", "if (i < 7) sum += x"),
    "a name that is used otherwise": PLAIN.replace("= sum;", "= sum + row;"),
    "two loops": PLAIN + "\n  for (int j = 0; j < 2; ++j) c[j] = sum;",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_kernels_are_left_alone(what: str) -> None:
    with pytest.raises(NotUnderstood):
        untile(LEFT_ALONE[what])
    assert retile(LEFT_ALONE[what]) == []
