"""Loops whose parts have work-groups of their own: the source that is written, and that programs do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange
from hipsynth.tuning.optimize.source_changes.split_k import list_changes
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
#define SIDE 16
__global__ void multiply(const float* a, const float* b, float* c, int n, int k) {
  const int col = blockIdx.x * SIDE + threadIdx.x, row = blockIdx.y * SIDE + threadIdx.y;
  BODY
}
int main() {
  const int n = 40, k = 123;
  std::vector<float> host(n * k);
  for (int i = 0; i < n * k; ++i) host[i] = 0.5f * (i * 7 % 23) - 3;
  float *a, *b, *c;
  if (hipMalloc(&a, n * k * 4) || hipMalloc(&b, n * k * 4) || hipMalloc(&c, n * n * 4)) return 1;
  (void)hipMemcpy(a, host.data(), n * k * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, host.data(), n * k * 4, hipMemcpyHostToDevice);
  (void)hipMemset(c, 1, n * n * 4);
  LAUNCH;
  (void)hipMemcpy(host.data(), c, n * n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
LAUNCH = "multiply<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(SIDE, SIDE)>>>(a, b, c, n, k)"
BODIES = {
    "a loop behind a return": "if (row >= n || col >= n) return;\n  float sum = 0;\n"
    "  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];\n  c[row * n + col] = 2 * sum;",
    "in a condition, from a value": "if (row < n && col < n) {\n    float sum = c[row * n + col], more = 1;\n"
    "#pragma unroll 2\n    for (int i = 3; i < k; i += 2) {\n      sum = fmaf(a[row * k + i], b[i * n + col], sum);\n"
    "      more = more + a[row * k + i];\n    }\n"
    "    c[row * n + col] = sum / more;\n  }",
    "through the LDS": "__shared__ float x[SIDE][SIDE], y[SIDE][SIDE];\n"
    "  const int tx = threadIdx.x, ty = threadIdx.y;\n  float sum = 0.0f;\n"
    "  for (int t = 0; t < k; t += SIDE) {\n    x[ty][tx] = row < n && t + tx < k ? a[row * k + t + tx] : 0;\n"
    "    y[ty][tx] = col < n && t + ty < k ? b[(t + ty) * n + col] : 0;\n    __syncthreads();\n"
    "    for (int i = 0; i < SIDE; ++i) sum += x[ty][i] * y[i][tx];\n    __syncthreads();\n  }\n"
    "  if (row < n && col < n) c[row * n + col] = sum;",
}  # fmt: skip


def write(body: str) -> str:
    return PROGRAM.replace("BODY", body).replace("LAUNCH", LAUNCH)


def split(text: str, grid: Shape = (3, 3, 1)) -> list[SourceChange]:
    kernel = KernelTime("multiply", 100.0, 1, "latency", "", grid, (16, 16, 1), True)
    timed = CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]
    return list(list_changes(read_program(text, "gfx942"), timed, TARGET))


@pytest.mark.parametrize("name", [*BODIES, "tiles of registers"])
@pytest.mark.one_in(3)
def test_split_programs_do_the_same(name: str) -> None:
    needs.simulator()
    needs.compiler()
    original = write(BODIES.get(name, BODIES["a loop behind a return"]))
    whole = original
    if name not in BODIES:
        plan = {"multiply": TransformationPlan(tile=(4, 4, 16))}
        blocked = original.replace("SIDE + thread", "blockDim.x + thread").replace("y * blockDim.x", "y * blockDim.y")
        whole = emit_program(read_program(blocked, "gfx942"), plan, {"multiply": (16, 16, 1)})
    changed = split(whole)[-1].text
    assert changed
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (original, changed)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-5, "sums in another order")).equal
    assert {kernel.name.partition("(")[0] for kernel in runs[1].kernels} == {"multiply_parts", "multiply_sum"}


def test_as_many_parts_as_fill_the_device() -> None:
    text = write(BODIES["a loop behind a return"])
    most, fewer = split(text)
    assert "dim3(parts_grid.x, parts_grid.y, 64)" in most.text and "parts_grid.y, 16)" in fewer.text
    assert "9 groups do not fill 304 CUs" in most.why
    assert not split(text, (20, 20, 1)) and not split(text, (3, 3, 2))


def test_kernels_behind_their_launches_are_declared() -> None:
    text = write(BODIES["a loop behind a return"])
    kernel = text[text.index("__global__") : text.index("int main")]
    head = kernel.partition(" {")[0]
    declared = text.replace(kernel, f"{head};\n") + kernel
    changed = split(declared)[0].text
    added = "__global__ void multiply_parts(const float* a, const float* b, float* c, int n, int k, float* parts);\n"
    assert f"{head};\n{added}" in changed and changed.index(added) < changed.index("int main")


def test_ends_that_bind_less_than_a_sum_get_brackets() -> None:
    body = BODIES["a loop behind a return"].replace("int i = 0; i < k;", "int i = k & 3; i < (k >> 1);")
    text = split(write(body))[1].text
    assert "  const int part_steps = (((k >> 1)) - (k & 3) + 15) / 16;\n" in text
    assert "part_first = (k & 3) + static_cast<int>(blockIdx.z) * part_steps" in text


def test_both_kernels_are_read_from_the_original() -> None:
    text = split(write(BODIES["a loop behind a return"]))[1].text
    assert "  const int part_steps = (k + 15) / 16;\n" in text
    assert "  for (int i = part_first; i < part_end; ++i) sum += a[row * k + i] * b[i * n + col];\n" in text
    assert "  parts[blockIdx.z * part_lanes + part_lane] = sum;\n}" in text
    assert "    sum += parts[part * part_lanes + part_lane];\n  }\n  c[row * n + col] = 2 * sum;\n}" in text
    assert text.count(write(BODIES["a loop behind a return"]).partition("int main")[0].rstrip()) == 1, (
        "the original stays"
    )
    assert f"  {LAUNCH.split('<<<')[0]}<<<parts_grid, parts_block>>>(a, b, c, n, k);" in text


def test_sums_that_begin_elsewhere_do_so_once() -> None:
    text = split(write(BODIES["in a condition, from a value"]))[1].text
    parts, _, rest = text.partition("multiply_sum")
    assert "    sum = 0;\n    more = 0;\n" in parts and "sum = 0;" not in rest
    assert "parts[(blockIdx.z * 2 + 1) * part_lanes + part_lane] = more;" in parts


START = "if (row >= n || col >= n) return;\n  float sum = 0;\n  "
LOOP = "for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];\n  "
LEFT_ALONE = {
    "a store through a pointer": START
    + LOOP.replace("sum +=", "{ if (i > 3) *c = 1; sum +=").replace("];", "]; }")
    + "c[row * n + col] = sum;",
    "nothing after it": START + LOOP,
    "a product": START + LOOP.replace("+=", "*=") + "c[row * n + col] = sum;",
    "a least element": START + LOOP.replace("sum +=", "if (sum > a[i]) sum =") + "c[row * n + col] = sum;",
    "a store in the loop": START + LOOP.replace("sum +=", "sum += c[i] =") + "c[row * n + col] = sum;",
    "a store before": START + "c[0] = 1; " + LOOP + "c[row * n + col] = sum;",
    "a sum that is read": START + LOOP.replace("+= a", "+= sum > 9 ? 1 : a") + "c[row * n + col] = sum;",
    "a pointer that moves": START + LOOP.replace("sum +=", "a += 1, sum +=") + "c[row * n + col] = sum;",
    "an end": START + "for (int i = 0; i < k; ++i) { if (a[i] > 9) break; sum += a[i]; }\n  c[row * n + col] = sum;",
    "groups along z": START + LOOP + "c[row * n + col] = sum + blockIdx.z;",
    "inside a loop": START + "for (int j = 0; j < 2; ++j) {" + LOOP + "c[row * n + col] = sum; }",
    "a name that is used": START + LOOP + "const float part = sum; c[row * n + col] = part;",
    "a variable that the body steps": START
    + LOOP.replace("sum +=", "{ ++i; sum +=").replace("];", "]; }")
    + "c[row * n + col] = sum;",
    "an integer to which floats are added": START.replace("float", "int") + LOOP + "c[row * n + col] = sum;",
    "two types": START + "int count = 0; for (int i = 0; i < k; ++i) { sum += a[i]; count += a[i] > 3; }\n"
    "  c[row * n + col] = sum / count;",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_kernels_are_left_alone(what: str) -> None:
    assert split(write(LEFT_ALONE[what])) == []


@pytest.mark.parametrize("added", ["i * row", "x[i % 4] > row", "order[i]", "blockIdx.x + (i & 3)"])
def test_sums_of_integers_are_split(added: str) -> None:
    sums = f"for (int i = 0; i < k; ++i) sum += {added};\n  c[row * n + col] = sum;"
    body = f"const int x[4] = {{0, 1, 2, 3}};\n  int sum = 0;\n  {sums}"
    text = write(body).replace("const float* b", "const int* order").replace("(a, b, c", "(a, (const int*)b, c")
    assert split(text)


def test_a_file_may_end_with_its_kernel() -> None:
    assert split(write(BODIES["through the LDS"]).partition("int main")[0].rstrip()) == []


def test_a_launch_on_a_stream_is_left_alone() -> None:
    text = write(BODIES["a loop behind a return"]).replace(
        "dim3(SIDE, SIDE)>>>", "dim3(SIDE, SIDE), 0, (hipStream_t)1>>>"
    )
    assert split(text) == []
