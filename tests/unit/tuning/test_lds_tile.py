"""Tiles in the LDS: which loops are found, what is written for them, and that programs do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.lds_tile.tiled_loop import find_tiled_loop
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

HOST = r"""
int main() {
  const int m = 70, n = 45, depth = 37, batches = 2;
  std::vector<float> ha(batches * m * depth), hb(batches * n * depth), hc(batches * m * n);
  for (size_t i = 0; i < ha.size(); ++i) ha[i] = 0.25f * (int)(i * 7 % 23) - 1;
  for (size_t i = 0; i < hb.size(); ++i) hb[i] = 0.5f * (int)(i * 5 % 19) - 2;
  float *a, *b, *c;
  if (hipMalloc(&a, ha.size() * 4) || hipMalloc(&b, hb.size() * 4) || hipMalloc(&c, hc.size() * 4)) return 1;
  (void)hipMemcpy(a, ha.data(), ha.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, hb.data(), hb.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemset(c, 0, hc.size() * 4);
  LAUNCH;
  (void)hipMemcpy(hc.data(), c, hc.size() * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
HEAD = """#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
"""
SIZED = "__global__ void product(const float* a, const float* b, float* c, int m, int n, int depth) "
ROW_COLUMN = """
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
"""
LAUNCH = "product<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, depth)"
GUARD = "  if (row >= m || col >= n) return;\n"
LOOP = "for (int k = 0; k < depth; ++k) "
BLOCK: Shape = (16, 16, 1)


def write(body: str, launch: str = LAUNCH, signature: str = SIZED) -> str:
    return f"{HEAD}{signature}{{{body}}}\n{HOST.replace('LAUNCH', launch)}"


def read(text: str) -> ParsedProgram:
    return read_program(text, "gfx942")


KERNELS = {
    "bytes": write(
        f"{ROW_COLUMN}{GUARD}  int sum = 0; {LOOP}sum += int(a[row * depth + k]) * int(b[k * n + col]);\n"
        "  c[row * n + col] = sum;",
        LAUNCH.replace("a, b,", "(const signed char*)a, (const unsigned char*)b,"),
        SIZED.replace("const float* a, const float* b", "const signed char* a, const unsigned char* b"),
    ),
    "A B": write(
        f"{ROW_COLUMN}{GUARD}  float sum = 0; {LOOP}sum += a[row * depth + k] * b[k * n + col];\n"
        "  c[row * n + col] = 2.5f * sum + c[row * n + col];"
    ),
    "A Bt with pointers to rows": write(
        f"{ROW_COLUMN}{GUARD}  const float* x = a + row * depth;\n  const float* y = b + col * depth;\n"
        f"  float sum = 1.5f; {LOOP}sum = fmaf(x[k], y[k], sum);\n  c[row * n + col] = sum;"
    ),
    "At B where lanes run along rows": write(
        ROW_COLUMN.replace("y", "z").replace("x;", "y;").replace(".x", ".y").replace("z", "x").replace("y;", "y;")
        + f"{GUARD}  float sum = 0; {LOOP}{{ const float v = a[k * m + row]; sum += v * b[k * n + col]; }}\n"
        "  c[row * n + col] = sum;",
        "product<<<dim3((m + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, m, n, depth)",
    ),
    "distances": write(
        f"{ROW_COLUMN}  if (row < m && col < n) {{ float sum = 0, most = -1; {LOOP}{{\n"
        "    const int i = row * depth + k; const float d = a[i] - b[col * depth + k];\n"
        "    sum += d * d + 1; most = fmaxf(most, fabsf(d)); }\n"
        "    c[row * n + col] = sum - most; }"
    ),
    "no bounds": write(
        f"{ROW_COLUMN}  float sum = 0; {LOOP}sum += a[row * depth + k] * b[k * n + col];\n  c[row * n + col] = sum;",
        "product<<<dim3(n / 5, m / 7), dim3(5, 7)>>>(a, b, c, m, n, depth)",
    ),
    "batches": write(
        f"  const int batch = blockIdx.z;\n{ROW_COLUMN}{GUARD}  const float* of = a + batch * m * depth;\n"
        f"  float sum = 0; {LOOP}sum += of[row * depth + k] * b[(batch * depth + k) * n + col];\n"
        "  c[(batch * m + row) * n + col] = sum;",
        LAUNCH.replace("(m + 15) / 16)", "(m + 15) / 16, batches)"),
    ),
    "a row a group": write(
        "  const int row = blockIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"{GUARD}  float sum = 0; {LOOP}sum += a[row * depth + k] * b[k * n + col];\n  c[row * n + col] = sum;",
        LAUNCH.replace("(m + 15) / 16)", "m)").replace("dim3(16, 16)", "16"),
    ),
    "coordinates where they are used": write(
        f"  float sum = 0; {LOOP}sum += a[(blockIdx.y * blockDim.y + threadIdx.y) * depth + k] * "
        "b[k * n + blockIdx.x * blockDim.x + threadIdx.x];\n"
        "  c[(blockIdx.y * blockDim.y + threadIdx.y) * n + blockIdx.x * blockDim.x + threadIdx.x] = sum;",
        "product<<<dim3(n / 5, m / 7), dim3(5, 7)>>>(a, b, c, m, n, depth)",
    ),
    "a template with a constant group": write(
        "  const int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;\n"
        f"{GUARD}  T sum = T(0); {LOOP}sum += a[row * depth + k] * b[k * n + col];\n  c[row * n + col] = sum;",
        LAUNCH.replace("product", "product<float>").replace("dim3(16, 16)", "dim3(SIDE, SIDE)"),
        "#define SIDE 16\ntemplate <typename T>\n" + SIZED.replace("float", "T"),
    ),
}
BLOCKS = {"no bounds": (5, 7, 1), "coordinates where they are used": (5, 7, 1), "a row a group": (16, 1, 1)}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("tile", [(4, 4, 16), (2, 1, 8)])
@pytest.mark.one_in(3)
def test_tiled_programs_do_the_same(name: str, tile: Shape) -> None:
    needs.simulator()
    needs.compiler()
    block = BLOCKS.get(name, BLOCK)
    text = emit_program(read(KERNELS[name]), {"product": TransformationPlan(tile=tile)}, {"product": block})
    assert "__shared__" in text
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    runs = [run_trial(one, target_of("gfx942"), conditions) for one in (KERNELS[name], text)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 1e-6, "products and sums are joined differently")).equal


def test_neighbours_load_and_store_along_memory() -> None:
    plans = {"product": TransformationPlan(tile=(4, 4, 16))}
    text = emit_program(read(KERNELS["A B"]), plans, {"product": BLOCK})
    assert "__shared__ float a_tile[16][64 + 1];" in text and "__shared__ float b_tile[16][64];" in text
    assert "a_tile[item % 16][item / 16] = row < m && k < depth ? a[row * depth + k] : 0.0f;" in text
    assert "b_tile[item / 64][item % 64] = col < n && k < depth ? b[k * n + col] : 0.0f;" in text
    assert "break" not in text, "zeros add nothing to a sum of products"
    rows = emit_program(read(KERNELS["At B where lanes run along rows"]), plans, {"product": BLOCK})
    assert "const int col = blockIdx.y * 64 + threadIdx.x + 16 * down;" in rows
    assert "break" in emit_program(read(KERNELS["distances"]), plans, {"product": BLOCK})


SUM = f"float sum = 0; {LOOP}sum += a[row * depth + k] * b[k * n + col]; c[row * n + col] = sum;"
REFUSED = {
    "no loop": "c[row * n + col] = 1;",
    "one axis alone": f"float sum = 0; {LOOP}sum += a[row * depth + k]; c[row * n + col] = sum;",
    "a load of both axes": SUM.replace("b[k * n + col]", "b[k * n + col + row]"),
    "a bound of its own": SUM.replace("k < depth", "k <= row"),
    "what is stored is read": SUM.replace("c[row * n + col] = sum", "b[row * n + col] = sum"),
    "a store in the loop": SUM.replace("sum +=", "c[k] = sum +="),
    "an early end": f"float sum = 0; {LOOP}{{ if (sum > 1) break; sum += a[row * depth + k] * b[k * n + col]; }} "
    "c[row * n + col] = sum;",
    "a sum that begins differently": SUM.replace("sum = 0", "sum = row"),
    "a use of the row itself": SUM.replace("sum += ", "sum += row + "),
    "its lane": SUM.replace("c[row * n + col] = sum", "c[row * n + col] = sum + threadIdx.x"),
    "a jump after the loop": SUM + " if (sum > 1) return; c[row * n + col] = 2;",
    "a loop of two variables": SUM.replace("int k = 0", "int k = 0, l = 0"),
    "a condition on both axes": "if (row > col) return; " + SUM,
    "a name that is used": SUM.replace("sum", "lane"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_loops_are_left_alone(what: str) -> None:
    found = read(write(ROW_COLUMN + REFUSED[what], signature=SIZED.replace("const float* b", "float* b")))
    with pytest.raises(NotUnderstood):
        emit_program(found, {"product": TransformationPlan(tile=(4, 4, 16))}, {"product": BLOCK})


def test_the_plain_sum_is_found() -> None:
    """The refusals above differ from it by what they name."""
    found = read(write(ROW_COLUMN + SUM, signature=SIZED.replace("const float* b", "float* b")))
    loop = find_tiled_loop(found, found.kernels[0], BLOCK)
    assert [(load.pointer, load.axis, load.along_loop) for load in loop.loads] == [("a", 1, True), ("b", 0, False)]


def test_tiles_are_offered_where_the_problem_fills_them() -> None:
    found = read(KERNELS["A B"])

    def offer(grid: Shape, plan: TransformationPlan | None = None) -> list[str]:
        view = KernelView(found, found.kernels[0], plan or TransformationPlan(), "vl1d", grid, BLOCK)
        return [move.transformation for move in list_moves(view)]

    def first_tile(side: int) -> Shape | None:
        view = KernelView(found, found.kernels[0], TransformationPlan(), "vl1d", (side, side, 1), BLOCK)
        return next(move.plan.tile for move in list_moves(view) if move.evident and move.transformation == "lds_tile")

    assert (first_tile(128), first_tile(32)) == ((4, 4, 16), (1, 1, 32)), "groups fill the device"
    assert first_tile(256) == (8, 8, 8)
    assert offer((64, 64, 1)).count("lds_tile") == 6
    assert offer((2, 2, 1)).count("lds_tile") == 2
    assert offer((1, 1, 1)).count("lds_tile") == 1
    assert set(offer((64, 64, 1), TransformationPlan(tile=(4, 4, 16)))) == {"lds_tile"}
