"""Tiles through the LDS between loads along one axis and stores along the other one."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

HEAD = """#include <hip/hip_runtime.h>
#include <vector>
__global__ void turn(const float* in, const float* scale, float* out, int rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
"""
HOST = r"""
}
int main() {
  const int rows = 70, columns = 132;
  std::vector<float> host(2 * rows * columns);
  for (size_t i = 0; i < host.size(); ++i) host[i] = 0.5f * (int)(i * 7 % 101);
  float *in, *out;
  if (hipMalloc(&in, host.size() * 4) || hipMalloc(&out, rows * columns * 4)) return 1;
  (void)hipMemcpy(in, host.data(), host.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, rows * columns * 4);
  LAUNCH;
  (void)hipMemcpy(host.data(), out, rows * columns * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
LAUNCH = (
    "turn<<<dim3((columns + 15) / 16, (rows + 15) / 16), dim3(16, 16)>>>(in, in + rows * columns, out, rows, columns)"
)
GUARD = "if (row >= rows || column >= columns) return; "
BLOCK: Shape = (16, 16, 1)


def write(body: str, launch: str = LAUNCH) -> str:
    return HEAD + body + HOST.replace("LAUNCH", launch)


KERNELS = {
    "a transpose": write(GUARD + "out[column * rows + row] = in[row * columns + column];"),
    "with what runs along the store": write(
        "if (row < rows && column < columns) {\n  const int from = row * columns + column, to = column * rows + row;\n"
        "  out[to] = 2 * in[from] * in[from] + scale[to];\n}"
    ),
    "lanes that load across": write(GUARD + "out[row * columns + column] = in[column * rows + row] + 1;"),
    "no bounds": write(
        "out[column * rows + row] = in[row * columns + column];",
        LAUNCH.replace("(columns + 15) / 16, (rows + 15) / 16), dim3(16, 16)", "columns / 12, rows / 7), dim3(12, 7)"),
    ),
}
BLOCKS = {"no bounds": (12, 7, 1)}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("side", [32, 64])
@pytest.mark.one_in(3)
def test_transposed_programs_do_the_same(name: str, side: int) -> None:
    needs.simulator()
    needs.compiler()
    block = BLOCKS.get(name, BLOCK)
    text = emit_program(
        read_program(KERNELS[name], "gfx942"), {"turn": TransformationPlan(transpose=side)}, {"turn": block}
    )
    assert f"in_tile[{side}][{side} + 1]" in text and "scale_tile" not in text
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    runs = [run_trial(one, target_of("gfx942"), conditions) for one in (KERNELS[name], text)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "fused multiply-adds")).equal


def test_launches_round_up_from_the_problem() -> None:
    found = read_program(KERNELS["a transpose"], "gfx942")
    text = emit_program(found, {"turn": TransformationPlan(transpose=32)}, {"turn": BLOCK})
    assert "turn<<<dim3((columns + 31) / 32, (rows + 31) / 32), dim3(32, 8)>>>(" in text
    odd = emit_program(found, {"turn": TransformationPlan(transpose=32)}, {"turn": (12, 7, 1)})
    assert odd == text, "the group shape of the original is in its source"


REFUSED = {
    "both along memory": "out[row * columns + column] = in[row * columns + column];",
    "an exchange in place": "out[column * rows + row] = out[row * columns + column];",
    "two stores": "out[column * rows + row] = in[row * columns + column]; out[0] = 1;",
    "a sum": "out[column * rows + row] += in[row * columns + column];",
    "a store of several axes": "out[column + row] = in[row * columns + column];",
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_kernels_are_left_alone(what: str) -> None:
    found = read_program(write(GUARD + REFUSED[what]), "gfx942")
    with pytest.raises(NotUnderstood):
        emit_program(found, {"turn": TransformationPlan(transpose=32)}, {"turn": BLOCK})


def test_tiles_are_offered_where_the_problem_fills_them() -> None:
    found = read_program(KERNELS["a transpose"], "gfx942")
    kernel = found.kernels[0]
    view = KernelView(found, kernel, TransformationPlan(), "l2", (2, 2, 1), BLOCK)
    offered = [move for move in list_moves(view) if move.transformation == "lds_transpose"]
    assert [move.plan.transpose for move in offered] == [32] and offered[0].evident
