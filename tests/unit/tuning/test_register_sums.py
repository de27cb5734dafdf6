"""Elements that loops change, in local variables: what is changed or left alone, and that programs do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.register_sums import keep_sums_in_registers
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

PROGRAM = r"""#include <hip/hip_runtime.h>
#include <vector>
__device__ void wait() { __syncthreads(); }
__global__ void k(const float* a, const float* b, float* c, float* d, int n) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n || col >= n) return;
  BODY
}
int main() {
  const int n = 40;
  std::vector<float> host(n * n);
  for (int i = 0; i < n * n; ++i) host[i] = 0.5f * (i * 7 % 23) - 3;
  float* p[4];
  for (float*& one : p) {
    if (hipMalloc(&one, n * n * 4)) return 1;
    (void)hipMemcpy(one, host.data(), n * n * 4, hipMemcpyHostToDevice);
  }
  k<<<dim3(3, 3), dim3(16, 16)>>>(p[0], p[1], p[2], p[3], n);
  for (float* one : p) (void)hipMemcpy(host.data(), one, n * n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
PRODUCT = "for (int i = 0; i < n; ++i) c[row * n + col] += a[row * n + i] * b[i * n + col];"
FIRST = "c[row * n + col] = 0;\n  "


def change(body: str) -> str:
    sums = keep_sums_in_registers(read_program(PROGRAM.replace("BODY", body), "gfx942"))
    return sums.text if sums else ""


def test_a_sum_in_memory_moves_to_a_local_variable() -> None:
    text = change(PRODUCT)
    assert "float c_sum = c[row * n + col];\n  for" in text and "c_sum += a[row * n + i] * b[i * n + col];" in text
    assert "\n  c[row * n + col] = c_sum;" in text
    assert "float c_sum = 0;\n" in change(FIRST + PRODUCT) and "c[row * n + col];\n" not in change(FIRST + PRODUCT)
    assert keep_sums_in_registers(read_program(text, "gfx942")) is None


def test_a_first_value_that_is_read_before_the_loop_stays_in_memory() -> None:
    text = change(f"{FIRST}d[row] = c[row * n + col] + 1;\n  {PRODUCT}")
    assert "c[row * n + col] = 0;" in text and "float c_sum = c[row * n + col];" in text


GUARDED = {
    "a place from memory": "const int to = (int)d[row]; for (int i = 0; i < col; ++i) c[to] += a[i];",
    "a place of the row": "if (col == 0) { for (int i = 0; i < col; ++i) { c[row] += a[i]; if (i) b[i]; } }",
    "a place that two have": "const int to = (row * n + col) / 2; for (int i = 0; i < col; i += 2) c[to] += a[i];",
}


@pytest.mark.parametrize("what", GUARDED)
def test_an_element_of_another_work_item_is_left_alone_without_an_iteration(what: str) -> None:
    text = change(GUARDED[what])
    assert "if (0 < col) {" in text and text.index("if (0 < col) {") < text.index("float c_sum = c[")
    assert "] = c_sum;\n" in text


def test_an_element_is_not_guarded_where_the_loop_has_iterations() -> None:
    text = change("const int to = (int)d[row]; for (int i = 0; i < 4; ++i) c[to] += a[i];")
    assert "c_sum = c[to];" in text and "if (" not in text.partition("to =")[2].partition("c[to] =")[0]
    text = change("const int to = (int)d[row]; for (int i = 8; i < 010; ++i) c[to] += a[i];")
    assert "if (8 < 010) {" in text
    text = change("const int to = (int)d[row]; for (int i = to; i < n; ++i) c[to] += a[i];")
    assert "if (static_cast<int>(to) < n) {" in text


def test_atomic_additions_of_a_loop_become_one() -> None:
    text = change("for (int j = 0; j < 3; ++j)\n    for (int i = 0; i < n; ++i) atomicAdd(&c[j], a[i]);")
    assert (
        "  for (int j = 0; j < 3; ++j) {\n    float c_sum = 0;\n    for (int i = 0; i < n; ++i) c_sum += a[i];\n"
        "    if (c_sum != 0) atomicAdd(&c[j], c_sum);\n  }\n" in text
    )
    assert keep_sums_in_registers(read_program(text, "gfx942")) is None


def test_then_the_product_is_tiled() -> None:
    found = read_program(change(FIRST + PRODUCT), "gfx942")
    assert "__shared__" in emit_program(found, {"k": TransformationPlan(tile=(4, 4, 16))}, {"k": (16, 16, 1)})


SAME = {
    "a sum": PRODUCT,
    "its first value": FIRST + PRODUCT,
    "two sums": FIRST
    + "d[col * n + row] = 2;\n  for (int i = 0; i < n; ++i) { c[row * n + col] = c[row * n + col] + a[row * n + i]; "
    "d[col * n + row] *= 0.5f + b[i]; if (c[row * n + col] > 90) break; }",
    "nested loops": "for (int j = 0; j < n; ++j) for (int i = 0; i < 3; ++i) c[row * n + col] -= a[j * n + i];",
    "a loop inside another one": "if (row > 3) { for (int j = 0; j < 4; ++j) { const int to = (row * n + col); "
    "d[to] = 1; "
    "for (int i = 0; i < n; ++i) d[to] += a[i * n + j]; } }",
    "a product in LDS tiles": "__shared__ float x[16][16]; for (int t = 0; t + 15 < n; t += 16) {\n"
    "x[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];\n__syncthreads();\n"
    "for (int i = 0; i < 16; ++i) c[row * n + col] += x[threadIdx.y][i] * b[(t + i) * n + col];\n__syncthreads(); }",
    "atomic additions": "for (int i = 0; i < n; ++i) { if (a[i] > 0) atomicAdd(&c[row * n + col % 8], a[i * n + col]); "
    "else if (i % 2) atomicAdd(&c[row * n + col % 8], b[i] < 1 ? 2.0f : b[i]); atomicAdd(c + 3 + row, 1.0f); }",
    "atomic additions in an inner loop": "for (int j = 0; j < 3; ++j)\n  for (int i = 0; i < n; ++i) "
    "atomicAdd(&c[row * n + j], a[i] * 0.25f);",
    "a barrier between stores": "for (int i = 0; i < n; ++i) { c[row * n + col] += a[i]; __syncthreads(); }",
}


@pytest.mark.parametrize("name", SAME)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(name: str) -> None:
    needs.simulator()
    needs.compiler()
    original, text = PROGRAM.replace("BODY", SAME[name]), change(SAME[name])
    assert text
    runs = [
        run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (original, text)
    ]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "fused multiply-adds")).equal


def test_one_array_under_two_names_is_left_alone() -> None:
    text = PROGRAM.replace("BODY", PRODUCT).replace("p[2], p[3]", "p[2], p[2]")
    assert keep_sums_in_registers(read_program(text, "gfx942")) is None


LEFT_ALONE = {
    "another place in each iteration": "for (int i = 0; i < n; ++i) c[row * n + i] += a[i];",
    "two places": "for (int i = 0; i < n; ++i) c[row * n + col] += c[row * n + i];",
    "an atomic addition to other places": "for (int i = 0; i < n; ++i) atomicAdd(&c[row * n + i], a[i]);",
    "an atomic addition to a place from memory": "for (int i = 0; i < n; ++i) atomicAdd(&c[(int)d[row]], a[i]);",
    "an atomic addition behind another pointer": "for (int i = 0; i < n; ++i) atomicAdd(&c[*(int*)a], a[i]);",
    "an atomic addition that is looked at": "for (int i = 0; i < n; ++i) atomicAdd(&c[row], a[i]);\n  d[col] = c[col];",
    "an atomic addition whose result is used": "for (int i = 0; i < n; ++i) d[row * n + i] = atomicAdd(&c[row], 1.0f);",
    "an atomic addition before a return": "for (int i = 0; i < n; ++i) { atomicAdd(&c[row], a[i]); if (i) return; }",
    "an atomic addition without a loop": "atomicAdd(&c[row], a[col]);",
    "a return": "for (int i = 0; i < n; ++i) { if (a[i] > 3) return; c[row * n + col] += a[i]; }",
    "a place from memory": "for (int i = 0; i < n; ++i) c[(int)d[row]] += a[i];",
    "a place from memory, under a condition": "const int to = (int)d[row]; "
    "for (int i = 0; i < n; ++i) if (a[i] > 0) c[to] += a[i];",
    "a place from memory, behind a jump": "const int to = (int)d[row]; "
    "for (int i = 0; i < n; ++i) { if (a[i] > 0) continue; c[to] += a[i]; }",
    "a row's place, under a condition": "for (int i = 0; i < n; ++i) { if (a[i] > 0) c[row] += a[i]; }",
    "a pointer elsewhere": "float* e = c + 1; for (int i = 0; i < n; ++i) { c[row * n + col] += a[i]; e[0] = 2; }",
    "a barrier, and a row's place": "for (int i = 0; i < n; ++i) { c[row] += a[i]; __syncthreads(); }",
    "a barrier, and others' places": "for (int i = 0; i < n; ++i) { c[row * n + col] += a[i]; __syncthreads(); } "
    "c[col] += c[row];",
    "a barrier in a function": "for (int i = 0; i < n; ++i) { c[row] += a[i]; wait(); }",
    "a name that is used": "float c_sum = 0; for (int i = 0; i < n; ++i) c[row * n + col] += a[i]; d[col] = c_sum;",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_loops_are_left_alone(what: str) -> None:
    assert not change(LEFT_ALONE[what])
