"""Windows through the LDS: what is staged, what is refused, that programs do the same, and that it is faster."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.halo_tile.window import find_windows
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
BLOCKS = {"blur": (32, 8, 1), "edges": (32, 8, 1), "heat": (16, 16, 1), "smooth": (256, 1, 1)}
PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
constexpr int kReach = 2;
KERNEL
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 61, m = argc > 2 ? std::atoi(argv[2]) : 45;
  const int inputs = (n + 16) * (m + 16);
  std::vector<float> host(inputs), back(n * m);
  for (int i = 0; i < inputs; ++i) host[i] = i * 29 % 101;
  float *in, *out;
  if (hipMalloc(&in, inputs * 4) || hipMalloc(&out, n * m * 4)) return 1;
  (void)hipMemcpy(in, host.data(), inputs * 4, hipMemcpyHostToDevice);
  (void)hipMemset(out, 0, n * m * 4);
  LAUNCH
  (void)hipMemcpy(back.data(), out, n * m * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
XY = "const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;\n"
KERNELS = {
    "blur": f"""
__global__ void blur(const float* in, float* out, int n, int m) {{
  {XY}  if (x >= n || y >= m) return;
  const int pitch = n + 2 * kReach;
  float sum = 0;
  for (int j = 0; j <= 2 * kReach; ++j) {{
    for (int i = 0; i < 2 * kReach + 1; ++i) sum += in[(y + j) * pitch + (x + i)];
  }}
  out[y * n + x] = sum;
}}""",
    "heat": f"""
__global__ void heat(const float* in, float* out, int n, int m) {{
  {XY}  const int i = y * n + x;
  if (x > 0 && x < n - 1 && y > 0 && y < m - 1) {{
    const float middle = in[i];
    out[i] = middle + 0.1f * (in[i - 1] + in[i + 1] + in[i - n] + in[i + n] - 4.0f * middle);
  }}
}}""",
    "smooth": """
__global__ void smooth(const float* in, float* out, int n, int m) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n * m) return;
  float sum = 0;
  for (int k = 0; k <= 8; ++k) sum += k * in[i + k];
  out[i] = sum;
}""",
}
EDGES = {  # how a kernel keeps its window inside the image
    "if": "if (xx >= 0 && (xx < n && 0 <= yy) && yy < m) sum += in[yy * n + xx] * (i + 3 * j);",
    "sums": "if (x + i > -1 && x + i < n && y + j >= 0 && m > y + j) sum += in[(y + j) * n + x + i] * (i + 3 * j);",
    "choice": "sum += (i + 3 * j) * (xx < 0 || xx >= n || yy < 0 || yy >= m ? 0.0f : in[yy * n + xx]);",
    "continue": "if (xx < 0 || xx >= n || yy < 0) continue;\n      if (yy >= m) { continue; }\n"
    "      sum += in[yy * n + xx] * (i + 3 * j);",
}  # fmt: skip
for how, step in EDGES.items():
    KERNELS[f"edges by {how}"] = f"""
__global__ void edges(const float* in, float* out, int n, int m) {{
  {XY}  if (x >= n || y >= m) return;
  float sum = 0;
  for (int j = -kReach; j <= kReach; ++j) {{
    for (int i = -1; i < 2; ++i) {{
      const int xx = x + i, yy = y + j;
      {step}
    }}
  }}
  out[y * n + x] = sum;
}}"""
LAUNCHES = {
    "blur": "blur<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(in, out, n, m);",
    "heat": "const dim3 block(16, 16), grid((n + 15) / 16, (m + 15) / 16);\n"
    "  heat<<<grid, block>>>(in, out, n, m);",
    "smooth": "smooth<<<(n * m + 255) / 256, 256>>>(in, out, n, m);",
    "edges": "edges<<<dim3((n + 31) / 32, (m + 7) / 8), dim3(32, 8)>>>(in, out, n, m);",
}  # fmt: skip


def text_of(name: str) -> str:
    return PROGRAM.replace("KERNEL", KERNELS[name]).replace("LAUNCH", LAUNCHES[name.partition(" ")[0]])


def changed(name: str, each: int) -> str:
    program = read_program(text_of(name), "gfx942")
    kernel = program.kernels[0].name
    return emit_program(program, {kernel: TransformationPlan(halo=each)}, {kernel: BLOCKS[kernel]})


def test_windows_and_their_reach_are_found() -> None:
    programs = {name: read_program(text_of(name), "gfx942") for name in KERNELS}
    found = {name: find_windows(one, one.kernels[0], BLOCKS[one.kernels[0].name]) for name, one in programs.items()}
    windows = {name: one.windows[0] for name, one in found.items()}
    assert {name: window.reach for name, window in windows.items()} == {
        "blur": ((0, 4), (0, 4)),
        "heat": ((-1, 1), (-1, 1)),
        "smooth": ((0, 8), (0, 0)),
        **{f"edges by {how}": ((-1, 1), (-2, 2)) for how in EDGES},
    }
    assert {len(windows[f"edges by {how}"].guards) for how in EDGES} == {4}
    assert len(windows["heat"].loads) == 5 and found["smooth"].axes == (0,)
    assert len(found["heat"].tiling.conditions) == 4 and len(found["heat"].upper) == 2


def test_a_readable_kernel_is_written() -> None:
    text = changed("heat", 4)
    assert "// A group computes 64 x 16 results; what their windows share is loaded once, with its halo." in text
    assert "__shared__ float in_tile[18][66];" in text
    assert "in_tile[item + 1][threadIdx.x] + in_tile[item + 1][threadIdx.x + 2]" in text
    assert "for (int column = threadIdx.x; column < 66; column += 64)" in text


@pytest.mark.parametrize("each", [2, 8])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(name: str, each: int) -> None:
    needs.simulator()
    needs.compiler()
    text = changed(name, each)
    for arguments in ((), ("130", "33"), ("3", "2")):
        conditions = Conditions(arguments, exact=True, record_bytes=1 << 20)
        runs = [run_trial(one, TARGET, conditions) for one in (text_of(name), text)]
        assert runs[0].ok and compare_trials(*runs).exact, (arguments, runs[1].message)


def test_a_blur_is_faster() -> None:
    needs.simulator()
    needs.compiler()
    plain = text_of("blur").replace("kReach = 2", "kReach = 5")
    tiled = emit_program(read_program(plain, "gfx942"), {"blur": TransformationPlan(halo=4)}, {"blur": BLOCKS["blur"]})
    times = [run_trial(text, TARGET, Conditions(("1024", "1024"))).duration_ns for text in (plain, tiled)]
    assert 0 < times[1] < 0.9 * times[0]


REFUSED = {
    "one load only": "out[y * n + x] = in[y * n + x];",
    "a place that depends on data": "out[y * n + x] = in[y * n + x + int(in[x])] + in[x] + in[y * n + x + 1];",
    "rows along x": "out[y * n + x] = in[x * n + y] + in[x * n + y + 1] + in[x * n + y - 1];",
    "what it stores": "out[y * n + x] = out[y * n + x + 1] + out[y * n + x - 1] + out[y * n + x + n];",
    "a reach that is not known": "for (int k = 0; k < m; ++k) out[y * n + x] += in[y * n + x + k];",
    "a place that is rounded": "out[y * n + x] = in[y * n + x / 2] + in[y * n + x / 2 + 1] + in[y * n + x / 2 + 2];",
    "an early end": "for (int k = 0; k < 4; ++k) { if (in[y * n + x + k] > 0) return; }",
    "planes of rows": "out[x] = in[y * n * n + x + 1] + in[y * n * n + x - n] + in[y * n * n + x];",
    "a guard on data": "for (int k = 0; k < 4; ++k) if (out[y] > 0) out[x] += in[y * n + x + k];",
    "another place's guard": "for (int k = 0; k < 4; ++k) if (x < n - 3) out[x] += in[y * n + x + k];",
    "two guards": "if (x > 0) out[x] += in[y * n + x - 1]; if (x < n - 2) out[x] += in[y * n + x + 2];",
    "a guard that is a product": "for (int k = 0; k < 4; ++k) if (y * n + x + k < n) out[x] += in[y * n + x + k];",
    "a variable that changes": "int i = x; for (int k = 0; k < 4; ++k) { i += n; out[x] += in[y * n + i + k]; }",
    "a very long reach": "out[y * n + x] = in[y * n + x] + in[y * n + x + 1] + in[y * n + x + 99];",
}


@pytest.mark.parametrize("what", REFUSED)
def test_kernels_without_windows_are_left_alone(what: str) -> None:
    found = parse(f"{XY}  if (x >= n || y >= m) return;\n  {REFUSED[what]}")
    with pytest.raises(NotUnderstood):
        find_windows(found, found.kernels[0], (32, 8, 1))


def parse(body: str) -> ParsedProgram:
    parameters = "const float* in, float* out, int n, int m"
    return read_program(f"#include <hip/hip_runtime.h>\n__global__ void k({parameters}) {{ {body} }}\n", "gfx942")


def test_the_move_is_offered_where_tiles_fit() -> None:
    program = read_program(text_of("blur"), "gfx942")

    def plans(grid: tuple[int, int, int]) -> list[int]:
        view = KernelView(program, program.kernels[0], TransformationPlan(), "vl1d", grid, BLOCKS["blur"])
        return [move.plan.halo for move in list_moves(view) if move.transformation == "halo_tile"]

    assert plans((8, 8, 1)) == [4, 2] and plans((2, 1, 1)) == [2] and not plans((1, 1, 1))
