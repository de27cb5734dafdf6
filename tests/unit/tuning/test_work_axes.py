"""Kernels that number their work-items in another form than tiles need: how they are renumbered, that tiled programs do
the same, and what is left alone."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.work_axes import flat_number, group_axes, list_changes
from hipsynth.tuning.optimize.source_changes.work_axes.flat_number import find_host_product
from hipsynth.tuning.optimize.source_changes.work_axes.loop_nest import merge_loops
from hipsynth.tuning.optimize.source_changes.work_axes.sum_start import move_starts
from hipsynth.tuning.optimize.transformation_plan import Shape
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
__global__ void k(const float* a, const float* b, const float* bias, float* c, int m, int n, int depth, int count) {
  BODY
}
int main() {
  const int m = 70, n = 52, depth = 18, batches = 3, count = batches * m * n;
  std::vector<float> host(16384);
  for (int i = 0; i < 16384; ++i) host[i] = 0.5f * (i * 7 % 23) - 3;
  float *a, *b, *bias, *c;
  if (hipMalloc(&a, 65536) || hipMalloc(&b, 65536) || hipMalloc(&bias, 65536) || hipMalloc(&c, 65536)) return 1;
  (void)hipMemcpy(a, host.data(), 65536, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, host.data(), 65536, hipMemcpyHostToDevice);
  (void)hipMemcpy(bias, host.data(), 65536, hipMemcpyHostToDevice);
  LAUNCH(a, b, bias, c, m, n, depth, count);
  (void)hipMemcpy(host.data(), c, 65536, hipMemcpyDeviceToHost);
  return 0;
}
"""
NUMBER = "int i = blockIdx.x * blockDim.x + threadIdx.x;\n  "
LOOP = "for (int t = 0; t < depth; ++t) sum += "
FLAT = ("k<<<(m * n + 255) / 256, 256>>>", (15, 1, 1), (256, 1, 1))
BATCHES = ("k<<<(count + 255) / 256, 256>>>", (43, 1, 1), (256, 1, 1))
ADD = f"{LOOP}a[row * depth + t] * b[t * n + col];\n  "
PRODUCT = f"float sum = 0;\n  {ADD}"
DIGITS = "int row = i / n, col = i % n;\n  "
CASES: dict[str, tuple[str, tuple[str, Shape, Shape]]] = {
    "a flat number": (f"{NUMBER}if (i >= m * n) return;\n  {DIGITS}{PRODUCT}c[i] = sum;", FLAT),
    "a flat number under a condition": (
        f"{NUMBER}if (i < (n * m)) {{\n  int col = i % n;\n  {PRODUCT.replace('row', '(i / n)')}c[i] = 2 * sum; }}"
        .replace("int col", "const int row = i / n, col").replace("(i / n)", "row"), FLAT),
    "a bound of the row": (
        f"{NUMBER}{DIGITS}if (row < m) {{ {PRODUCT}c[i] = sum; }}", FLAT),
    "bounds of the row and the column": (
        f"{NUMBER}{DIGITS}if (row >= m || col >= n) return;\n  {PRODUCT}c[i] = sum;", FLAT),
    "names for coordinates": (
        "int tx = threadIdx.x, ty = threadIdx.y;\n  const unsigned bx = blockIdx.x, by = blockIdx.y;\n  "
        f"int row = by * 16 + ty, col = bx * blockDim.x + tx;\n  if (row >= m || col >= n) return;\n  {PRODUCT}"
        "c[row * n + col] = sum;",
        ("k<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>", (4, 5, 1), (16, 16, 1))),
    "batches up to a number that the host multiplies": (
        f"{NUMBER}if (i >= count) return;\n  int col = i % n, row = (i / n) % m, batch = i / (m * n);\n  "
        f"float sum = 0;\n  {LOOP}a[(batch * m + row) * depth + t] * b[(batch * depth + t) * n + col];\n  c[i] = sum;",
        BATCHES),
    "digits of a remainder": (
        f"{NUMBER}const int area = m * n;\n  if (i >= 3 * area) return;\n  int rest = i % area, batch = i / area;\n  "
        f"int row = rest / n, col = rest % n;\n  {PRODUCT.replace('b[', 'b[batch * 8 + ').replace('a[', 'a[batch + ')}"
        "c[i] = sum;", BATCHES),
    "a convolution": (
        f"{NUMBER}int wide = n - 2, high = m - 2;\n  if (i >= 4 * high * wide) return;\n  int x = i % wide;\n  "
        "int y = i / wide % high, f = i / (wide * high);\n  float sum = bias[f];\n  for (int p = 0; p < 2; p++)\n"
        "    for (int u = 0; u < 3; u++) {\n      for (int v = 0; v < 3; v++)\n"
        "        sum += a[(p * m + y + u) * n + x + v] * b[((f * 2 + p) * 3 + u) * 3 + v];\n    }\n  c[i] = sum;",
        ("k<<<(4 * (m - 2) * (n - 2) + 255) / 256, 256>>>", (54, 1, 1), (256, 1, 1))),
    "three axes of the grid": (
        "int x = blockIdx.x * blockDim.x + threadIdx.x, f = blockIdx.z;\n  const int y = blockIdx.y * blockDim.y + "
        "threadIdx.y;\n  if (x < n - 2 && y < m - 2) {\n    float sum = 0;\n    for (int u = 0; u < 3; u++) "
        "for (int v = 0; v < 3; v++)\n      sum += a[(y + u) * n + x + v] * b[(f * 3 + u) * 3 + v];\n"
        "    c[(f * (m - 2) + y) * (n - 2) + x] = sum; }",
        ("k<<<dim3((n + 13) / 16, (m + 13) / 16, 4), dim3(16, 16)>>>", (4, 5, 4), (16, 16, 1))),
    "a row for each group": (
        f"const int row = blockIdx.x, col = threadIdx.x;\n  {PRODUCT}c[row * n + col] = sum + bias[col];",
        ("k<<<m, n>>>", (70, 1, 1), (52, 1, 1))),
    "a row in strides of the group": (
        f"int row = blockIdx.x;\n  for (int col = threadIdx.x; col < n; col += blockDim.x) {{\n  "
        f"float sum = bias[col];\n  {ADD}"
        "c[row * n + col] = sum;\n  }", ("k<<<m, 32>>>", (70, 1, 1), (32, 1, 1))),
    "axes exchanged": (
        "int row = blockIdx.x * blockDim.y + threadIdx.y;\n  int col = threadIdx.x + blockIdx.y * 16;\n  "
        f"if (row >= m || col >= n) return;\n  float sum = bias[row];\n  {ADD}c[row * n + col] = sum;",
        ("dim3 grid((m + 7) / 8, (n + 15) / 16);\n  k<<<grid, dim3(16, 8)>>>", (9, 4, 1), (16, 8, 1))),
}  # fmt: skip


def write_case(name: str) -> tuple[str, Shape, Shape]:
    body, (launch, grid, block) = CASES[name]
    return PROGRAM.replace("BODY", body).replace("LAUNCH", launch), grid, block


def change(text: str, grid: Shape, block: Shape) -> list[str]:
    kernel = KernelTime("k", 100.0, 1, "vl1d", "", grid, block, True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    return [each.text for each in list_changes(read_program(text, "gfx942"), timed, TARGET)]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.one_in(3)
def test_tiled_programs_do_the_same(name: str) -> None:
    needs.simulator()
    needs.compiler()
    text, grid, block = write_case(name)
    texts = change(text, grid, block)
    assert texts and "mfma" in texts[0] and "mfma" not in texts[-1] and "__shared__" in texts[-1]
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    before = run_trial(text, TARGET, conditions)
    for tiled in (texts[0], texts[-1]):
        after = run_trial(tiled, TARGET, conditions)
        assert before.ok and after.ok, after.message
        assert compare_trials(before, after, Tolerance("float", 1e-5, "sums in another order")).equal


def test_digits_become_coordinates() -> None:
    text, grid, block = write_case("batches up to a number that the host multiplies")
    program = read_program(text, "gfx942")
    (numbered,) = flat_number.list_numbered(program, program.kernels[0], grid, block)
    assert "int item_x = blockIdx.x * blockDim.x + threadIdx.x, item_y = blockIdx.y * blockDim.y" in numbered.text
    assert "if (item_x >= n || item_y >= m) return;" in numbered.text
    assert "int col = item_x, row = item_y, batch = blockIdx.z;" in numbered.text
    assert "c[(batch * m + row) * n + col] = sum;" in numbered.text
    assert "k<<<dim3((n + 15) / 16, (m + 15) / 16, batches), dim3(16, 16)>>>(a, b," in numbered.text


def test_a_nest_of_loops_becomes_one() -> None:
    text, _, _ = write_case("a convolution")
    program = read_program(text, "gfx942")
    merged = merge_loops(program, program.kernels[0]) or ""
    assert "for (int term = 0; term < 2 * 3 * 3; ++term) {" in merged
    assert "const int p = term / (3 * 3), u = term / 3 % 3, v = term % 3;" in merged
    begun = read_program(merged, "gfx942")
    moved = move_starts(begun, begun.kernels[0]) or ""
    assert "float sum = 0;" in moved and "}\n  sum += bias[f];" in moved


def test_what_the_host_multiplies_is_read_from_its_only_value() -> None:
    text = "const int n = 3; int all = a * b*3;\nlong sum = a + b; int twice = a * b; twice = 2;"
    assert find_host_product(text, "all") == ["a", "b", "3"]
    assert find_host_product(text, "(rows * width)") == ["rows", "width"]
    assert [find_host_product(text, name) for name in ("n", "sum", "twice", "other")] == [[], [], [], []]


STRIDED = CASES["a row in strides of the group"][0]
LEFT_ALONE = {
    "no bound": CASES["a flat number"][0].replace("if (i >= m * n) return;", ""),
    "a bound that is no product of the extents": CASES["a flat number"][0].replace("m * n)", "m * m)"),
    "a bound that the host does not multiply": CASES["a flat number"][0].replace("m * n)", "depth)"),
    "a bound of the column alone": CASES["a bound of the row"][0].replace("row < m", "col < n"),
    "a bound of a part of the columns": CASES["a bound of the row"][0].replace("row < m", "row < m && col < n - 1"),
    "a coordinate of another use": CASES["names for coordinates"][0].replace(
        "c[row * n + col]", "c[row * n + col + 0 * tx]"
    ),
    "the number used before": CASES["a flat number"][0].replace("int row", "float old = c[i]; int row"),
    "a number that changes": CASES["a flat number"][0].replace("int row", "i += 1; int row"),
    "another digit": CASES["a flat number"][0].replace("i % n", "i % m"),
    "loads along one digit": CASES["a flat number"][0].replace("t * n + col", "t * n + row"),
    "a loop in strides that is left": CASES["a row in strides of the group"][0].replace(
        "c[row", "if (sum > 9) break; c[row"
    ),
    "a loop in strides that is not the last": CASES["a row in strides of the group"][0] + " c[0] = 1;",
    "loops that depend on each other": CASES["a convolution"][0].replace("v < 3", "v < u"),
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_kernels_are_left_alone(what: str) -> None:
    text = PROGRAM.replace("BODY", LEFT_ALONE[what]).replace("LAUNCH", FLAT[0])
    assert change(text, FLAT[1], FLAT[2]) == []


def test_one_place_in_two_sums_is_left_alone() -> None:
    body = "int col = blockIdx.x * blockDim.x + threadIdx.x;\n  c[col] = a[threadIdx.x];"
    text = PROGRAM.replace("BODY", body).replace("LAUNCH", FLAT[0])
    program = read_program(text, "gfx942")
    with pytest.raises(NotUnderstood):
        list(group_axes.list_numbered(program, program.kernels[0], FLAT[1], FLAT[2]))


def test_an_extent_that_is_declared_behind_the_coordinates_is_left_alone() -> None:
    body, (launch, grid, block) = CASES["three axes of the grid"]
    late = body.replace("if (x < n - 2", "const int wide = n - 2;\n  if (x < wide")
    text = PROGRAM.replace("BODY", late).replace("LAUNCH", launch)
    assert change(text, grid, block) == []


UNUSED_AXES = {
    "digits of a flat number": (
        f"int batch = blockIdx.z;\n  {CASES['a flat number'][0].replace('c[i]', 'c[batch * m * n + i]')}",
        *FLAT, "k<<<dim3((m * n + 255) / 256, 1, 3), 256>>>"),
    "a row in strides of the group": (
        STRIDED, *CASES["a row in strides of the group"][1], "k<<<dim3(m, 3), 32>>>"),
    "a row for each group": (
        CASES["a row for each group"][0], *CASES["a row for each group"][1], "k<<<dim3(m, 3), n>>>"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED_AXES)
def test_an_axis_that_another_launch_has_is_not_left_out(name: str) -> None:
    body, launch, grid, block, second = UNUSED_AXES[name]
    once = PROGRAM.replace("BODY", body).replace("LAUNCH", launch)
    passed = "(a, b, bias, c, m, n, depth, count);"
    twice = once.replace(f"{launch}{passed}", f"{launch}{passed}\n  {second}{passed}")
    assert change(once, grid, block) and twice != once
    assert change(twice, grid, block) == []
