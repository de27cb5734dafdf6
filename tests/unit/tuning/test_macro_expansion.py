"""Macros in kernels: written out where they have one meaning, and put back where nothing else changed."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.macro_expansion import expand_macros, names_numbers_alone
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TEXT = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
#define WIDTH 40
#define HERE                                                        \\
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y; \\
  if (x >= WIDTH) return
#define AT(row, column) ((row) * WIDTH + (column))
#define OWN AT(y, x)
__global__ void scale(float* out, const float* in) {
  HERE;
  out[OWN] = 2.0f * in[OWN];
}
__global__ void shift(float* sum, const float* out, float by) {
  HERE;
  sum[OWN] = out[OWN] + by;
}
__global__ void spread(const float* sum, float* out) {
  HERE;
  out[OWN] = sum[AT(y > 0 ? y - 1 : 0, x)];
}
int main() {
  const int rows = 9, n = rows * WIDTH;
  std::vector<float> host(n);
  for (int i = 0; i < n; ++i) host[i] = i % 37;
  float *a, *b, *c;
  if (hipMalloc(&a, 4 * n) || hipMalloc(&b, 4 * n) || hipMalloc(&c, 4 * n)) return 1;
  (void)hipMemcpy(a, host.data(), 4 * n, hipMemcpyHostToDevice);
  const dim3 grid(2, rows), block(32, 1);
  scale<<<grid, block>>>(b, a);
  shift<<<grid, block>>>(c, b, 3.0f);
  spread<<<grid, block>>>(c, a);
  (void)hipMemcpy(host.data(), a, 4 * n, hipMemcpyDeviceToHost);
  std::printf("%g\\n", host[50]);
  return 0;
}
"""
# A row for each group, so that `blockIdx.y` is a place of its own.
ROWS = TEXT.replace("y = blockIdx.y;", "y = blockIdx.y * blockDim.y + threadIdx.y;")


def read_kernel(text: str, name: str) -> str:
    program = expand_macros(read_program(text, "gfx942")).program
    kernel = next(kernel for kernel in program.kernels if kernel.name == name)
    return program.text[kernel.start : kernel.end]


def test_macros_are_written_out_in_lines_below_each_other() -> None:
    assert read_kernel(TEXT, "scale") == (
        "__global__ void scale(float* out, const float* in) {\n"
        "  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;\n"
        "  if (x >= WIDTH) return;\n"
        "  out[((y) * WIDTH + (x))] = 2.0f * in[((y) * WIDTH + (x))];\n}"
    )
    assert "sum[((y > 0 ? y - 1 : 0) * WIDTH + (x))]" in read_kernel(TEXT, "spread")
    program = read_program(TEXT, "gfx942")
    assert not any(names_numbers_alone(program, kernel) for kernel in program.kernels)
    expanded = expand_macros(program)
    assert all(names_numbers_alone(expanded.program, kernel) for kernel in expanded.program.kernels)
    assert expanded.restore(expanded.program.text) == TEXT


def test_joined_kernels_have_what_macros_stand_for_and_others_keep_them() -> None:
    (fusion,) = find_fusions(read_program(ROWS, "gfx942"))
    assert fusion.kernels == ("scale", "shift")
    assert "void spread(const float* sum, float* out) {\n  HERE;\n  out[OWN] = sum[AT(" in fusion.text
    joined = "  if (x >= WIDTH) return;\n  // scale\n  out[((y) * WIDTH + (x))] = 2.0f * in[((y) * WIDTH + (x))];\n"
    assert joined in fusion.text
    before, after = (run_trial(text, target_of("gfx942"), Conditions(exact=True)) for text in (ROWS, fusion.text))
    comparison = compare_trials(before, after)
    assert comparison.equal and comparison.exact, comparison.reason
    assert sum(kernel.dispatches for kernel in after.kernels) == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("#define OWN", "#define OWN 0\n#undef OWN\n#define OWN"),
        ("#define OWN AT(y, x)", "#ifdef FLAT\n#define OWN x\n#else\n#define OWN AT(y, x)\n#endif"),
        ("#define OWN AT(y, x)", "#define OWN AT(y, x /* the column */)"),
        ("#define AT(row, column) ", "#define JOIN(a, b) a##b\n#define AT(row, column) JOIN(, 0) + "),
    ],
)
def test_macros_of_several_meanings_stay(old: str, new: str) -> None:
    text = ROWS.replace(old, new)
    assert text != ROWS
    program = expand_macros(read_program(text, "gfx942")).program
    assert not any(names_numbers_alone(program, kernel) for kernel in program.kernels)
    assert list(find_fusions(program)) == []


def test_numbers_that_change_are_no_numbers() -> None:
    text = ROWS.replace("__global__ void spread", "#undef WIDTH\n#define WIDTH 40\n__global__ void spread")
    assert list(find_fusions(read_program(text, "gfx942"))) == []
