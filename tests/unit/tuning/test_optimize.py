"""The search without a simulator: what it reads of a program, what it writes, which candidates it keeps."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from support.document_samples import KERNEL

from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency
from hipsynth.core.reasons import Reason
from hipsynth.source.edits import EditConflict
from hipsynth.source.parse_service import ParserLost
from hipsynth.training.analytic.predict import AnalyticPrediction, AnalyticPredictor, LaunchAssumptions
from hipsynth.tuning.optimize import transformations
from hipsynth.tuning.optimize.analysis.analysis_faults import AnalysisFaults
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, parse_statements
from hipsynth.tuning.optimize.documents import SearchEnd, VerificationCheck
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, KernelTime, original_name
from hipsynth.tuning.optimize.optimize import duration_predictor
from hipsynth.tuning.optimize.search import BEAM, MOST_PREDICTED, PREDICTION_S, Search
from hipsynth.tuning.optimize.source_changes import SOURCE_CHANGES
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import TRANSFORMATIONS, list_moves
from hipsynth.tuning.optimize.transformations.jam.jammed_body import jammed
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.unit_strides import count_unit_strides
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of
from hipsynth.tuning.trial.search_clock import LEAST_RUN_S, Clock

ROOT = Path(__file__).resolve().parents[3]
TEXT = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__device__ int twice(int i) { return 2 * i; }
__global__ void weigh(const float* in, const float* weights, float* out, int n, int taps) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (x >= n) return;
  float sum = 0;
  for (int t = 0; t < taps; ++t) sum += in[y * n + (x + t) % n] * weights[y * taps + t];
  out[y * n + x] = sum;
}
__global__ void count(const unsigned char* x, unsigned* first, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < k) atomicAdd(&first[x[i]], 1u);
}
__global__ void group(float* out) {
  __shared__ float all[64];
  all[threadIdx.x] = twice(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = all[63 - threadIdx.x];
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 100, rows = 8, taps = 5, threads = 64;
  std::vector<float> host(rows * n), back(rows * n);
  std::vector<unsigned char> data(4 * rows * n);
  for (int i = 0; i < rows * n; ++i) host[i] = 0.37f * (i % 91);
  for (int i = 0; i < 4 * rows * n; ++i) data[i] = i * 37 + i / 7;
  float *in, *out, *weights;
  unsigned char* bytes;
  unsigned* bins;
  if (hipMalloc(&in, rows * n * 4) || hipMalloc(&out, rows * n * 4) || hipMalloc(&weights, rows * taps * 4)) return 1;
  if (hipMalloc(&bytes, 4 * rows * n) || hipMalloc(&bins, 1024)) return 1;
  (void)hipMemcpy(in, host.data(), rows * n * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(weights, host.data() + 3, rows * taps * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(bytes, data.data(), 4 * rows * n, hipMemcpyHostToDevice);
  (void)hipMemset(bins, 0, 1024);
  weigh<<<dim3((n + threads - 1) / threads, rows), threads>>>(in, weights, out, n, taps);
  count<<<(4 * rows * n + 255) / 256, 256>>>(bytes, bins, 4 * rows * n);
  (void)hipMemcpy(back.data(), out, rows * n * 4, hipMemcpyDeviceToHost);
  group<<<1, 64>>>(out);
  return 0;
}
"""
BLOCKS = {"weigh": (64, 1, 1), "count": (256, 1, 1), "group": (64, 1, 1)}
TARGET = target_of("gfx942")


@pytest.fixture(scope="module")
def program() -> ParsedProgram:
    return read_program(TEXT, "gfx942")


def view(
    program: ParsedProgram, name: str, plan: TransformationPlan | None = None, bottleneck: str = "latency"
) -> KernelView:
    kernel = next(k for k in program.kernels if k.name == name)
    grid = {"weigh": (2, 8, 1), "count": (40, 1, 1), "group": (1, 1, 1)}[name]
    return KernelView(program, kernel, plan or TransformationPlan(), bottleneck, grid, BLOCKS[name])


def test_kernels_and_their_launches_are_read(program: ParsedProgram) -> None:
    weigh, count, group = program.kernels
    assert [p.name for p in weigh.parameters] == ["in", "weights", "out", "n", "taps"]
    assert [p.base for p in weigh.parameters] == ["float", "float", "float", "", ""]
    assert weigh.parameters[0].constant and not weigh.parameters[2].constant
    (launch,) = weigh.launches
    assert (launch.grid, launch.block) == ("dim3((n + threads - 1) / threads, rows)", "threads")
    assert launch.arguments == ("in", "weights", "out", "n", "taps")
    assert weigh.independent and count.independent
    assert group.together == "it uses __shared__" and not group.independent


@pytest.mark.parametrize(
    "text, kernel, reason",
    [
        ("__global__ void k(int* p) { p[twice(1)] = __shfl(p[0], 1); }", "k", "it uses __shfl"),
        ("__device__ int at() { return threadIdx.x; } __global__ void k(int* p) { p[at()] = 1; }", "k", "calls uses"),
        ("#define SYNC __syncthreads()\n__global__ void k(int* p) { SYNC; p[0] = 1; }", "k", "__syncthreads"),
    ],
)
def test_kernels_that_depend_on_their_group_are_named(text: str, kernel: str, reason: str) -> None:
    found = read_program("#include <hip/hip_runtime.h>\n__device__ int twice(int i) { return i; }\n" + text, "gfx942")
    (one,) = found.kernels
    assert reason in one.together and one.fixed == "the file does not launch it"


CALLS = """#include <hip/hip_runtime.h>
template <typename T> __global__ void fill(T* a, int n) { a[blockIdx.x * 64 + threadIdx.x] = n; }
__global__ void clear(float* a) { a[blockIdx.x * 64 + threadIdx.x] = 0; }
int main() {
  float* a;
  if (hipMalloc(&a, 1024)) return 1;
  hipLaunchKernelGGL(HIP_KERNEL_NAME(fill<float>), dim3(4), dim3(64), 0, 0, a, 7);
  hipLaunchKernelGGL((fill<float>), dim3(4), dim3(64), 256, nullptr, a, 7);
  hipLaunchKernelGGL(clear, dim3(4), dim3(64), 0, 0, a);
  clear<<<dim3(4), dim3(64), 0, hipStreamDefault>>>(a);
  return 0;
}
"""


def test_launches_by_a_call_are_read_and_changed() -> None:
    found = read_program(CALLS, "gfx942")
    fill, clear = found.kernels
    assert fill.independent and clear.independent
    assert [(one.template, one.rest, one.arguments) for one in fill.launches] == [
        ("<float>", (), ("a", "7")),
        ("<float>", ("256", "nullptr"), ("a", "7")),
    ]
    assert [one.rest for one in clear.launches] == [(), ()], "no LDS, and the default stream by any name"
    text = emit_program(found, {"clear": TransformationPlan((32, 1, 1))}, {"clear": (64, 1, 1)})
    assert "hipLaunchKernelGGL(clear" not in text and "clear<<<" in text
    assert "hipLaunchKernelGGL((fill<float>), dim3(4), dim3(64), 256, nullptr, a, 7);" in text


def test_a_file_without_kernels_or_with_errors_is_refused() -> None:
    with pytest.raises(BadInput, match="no kernel"):
        read_program("int main() { return 0; }\n", "gfx942")
    with pytest.raises(BadInput, match="cannot be parsed"):
        read_program("#include <hip/hip_runtime.h>\n__global__ void k() { nothing; }\n", "gfx942")


def test_statements_nest(program: ParsedProgram) -> None:
    kernel = program.kernels[0]
    tree = parse_statements(program.tokens, kernel.first, kernel.last)
    assert [one.kind for one in tree] == ["simple", "if", "simple", "for", "simple"]
    assert [one.kind for one in tree[3].inner()] == ["for", "simple"]
    with pytest.raises(NotUnderstood):
        parse_statements(program.tokens, kernel.first, kernel.last - 1)


DEPTHWISE = """#include <hip/hip_runtime.h>
__global__ void depthwise(const float* in, float* out, int channels, int width) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  const int x = blockIdx.y * blockDim.y + threadIdx.y;
  if (c >= channels || x >= width) return;
  float sum = 0;
  for (int k = 0; k < 3; ++k) {
    const int at = x + k;
    sum += in[c * (width + 2) + at];
  }
  out[c * width + x] = sum;
}
int main() { depthwise<<<dim3(4, 64), dim3(16, 16)>>>(nullptr, nullptr, 64, 1024); }
"""


def test_lanes_along_memory_are_tried_first() -> None:
    """The subscripts show that neighbours along y touch neighbouring elements: that is tried whatever is predicted."""
    found = read_program(DEPTHWISE, "gfx942")
    view = KernelView(found, found.kernels[0], TransformationPlan(), "vl1d", (4, 64, 1), (16, 16, 1))
    assert count_unit_strides(view) == {1: 2}
    evident = [move for move in list_moves(view) if move.evident]
    assert [(move.transformation, move.plan.lanes) for move in evident] == [("lane_order", 1)]
    turned = replace(view, plan=evident[0].plan)
    assert not [move for move in list_moves(turned) if move.evident]
    wide = [move for move in list_moves(replace(view, grid=(1 << 14, 64, 1))) if move.plan.lanes]
    assert {move.plan.shape for move in wide} == {(16, 16, 1)}, "a launch has at most 65535 groups along y"


def test_a_jam_shares_what_does_not_differ(program: ParsedProgram) -> None:
    text = jammed(program, program.kernels[0], {1: 2}).text
    assert text.count("for (int t") == 1 and "sum_y0 +=" in text and "sum_y1 +=" in text
    assert "y_y1 = block_y1" in text and "return true;" in text


def test_a_tile_computes_once_what_rows_or_columns_share(program: ParsedProgram) -> None:
    text = jammed(program, program.kernels[0], {0: 2, 1: 2}).text
    assert text.count("sum_x1y0 +=") == text.count("sum_x1y1 +=") == 1
    assert text.count("int x_x1 =") == text.count("int y_y1 =") == 1 and "x_x1y1" not in text


DECLARED = """#include <hip/hip_runtime.h>
#include <vector>
template <typename T>
__global__ void twice(T* x, int n);
__global__ void smooth(const float* in, float* out, int n);

// Runs both.
int main() {
  const int n = 1000;
  std::vector<float> host(n + 4, 3.0f);
  float *in, *out;
  if (hipMalloc(&in, 4 * n + 16) || hipMalloc(&out, 4 * n)) return 1;
  (void)hipMemcpy(in, host.data(), 4 * n + 16, hipMemcpyHostToDevice);
  twice<float><<<(n + 255) / 256, 256>>>(in, n);
  smooth<<<(n + 255) / 256, 256>>>(in, out, n);
  (void)hipMemcpy(host.data(), out, 4 * n, hipMemcpyDeviceToHost);
  return 0;
}

template <typename T>
__global__ void twice(T* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
__global__ void smooth(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k <= 4; ++k) sum += in[i + k];
  out[i] = sum;
}
"""


@pytest.mark.parametrize("twice", [TransformationPlan((512, 1, 1)), TransformationPlan((64, 1, 1), coarsen=2)])
@pytest.mark.parametrize("smooth", [TransformationPlan((256, 1, 1), coarsen=4), TransformationPlan(halo=2)])
def test_kernels_that_are_defined_behind_their_launches_are_declared(
    twice: TransformationPlan, smooth: TransformationPlan
) -> None:
    needs.simulator()
    needs.compiler()
    blocks = {"twice": (256, 1, 1), "smooth": (256, 1, 1)}
    changed = emit_program(read_program(DECLARED, "gfx942"), {"twice": twice, "smooth": smooth}, blocks)
    runs = [run_trial(text, target_of("gfx942"), Conditions(exact=True)) for text in (DECLARED, changed)]
    assert runs[0].ok and compare_trials(*runs).exact, runs[1].message


def test_a_launch_in_a_loop_is_laid_out_within_it() -> None:
    text = """#include <hip/hip_runtime.h>
__global__ void k(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
int main() {
  for (int step = 0; step < 3; ++step) {
    k<<<4, 256>>>(nullptr, 1000);
  }
}
"""
    changed = emit_program(read_program(text, "gfx942"), {"k": TransformationPlan((128, 1, 1))}, {"k": (256, 1, 1)})
    assert "++step) {\n    {\n      const dim3 lane_groups = dim3(4);\n" in changed and "\n    }\n  }\n}\n" in changed


@pytest.mark.parametrize("change", ["return atomicAdd(count, 1);", "return (*count)++;", "return count[0] += 1;"])
def test_a_jam_calls_functions_with_effects_for_each_work_item(change: str) -> None:
    text = f"""#include <hip/hip_runtime.h>
__device__ int inner(int* count) {{ {change} }}
__device__ int take(int* count) {{ return inner(count); }}
__global__ void k(int* count, int* out, int n) {{
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int place = take(count);
  if (x < n) out[x] = place;
}}
int main() {{ k<<<4, 64>>>(nullptr, nullptr, 256); }}
"""
    program = read_program(text, "gfx942")
    assert jammed(program, program.kernels[0], {0: 2}).text.count("take(count)") == 2


def test_a_jam_refuses_what_it_cannot_share() -> None:
    body = "int i = threadIdx.x; for (int k = 0; k < 4; ++k) { if (p[i + k]) return; p[i + k] = 1; }"
    text = f"#include <hip/hip_runtime.h>\n__global__ void k(int* p) {{ {body} }}\n"
    found = read_program(text, "gfx942")
    with pytest.raises(NotUnderstood, match="jump"):
        jammed(found, found.kernels[0], {0: 2})


def test_a_jam_refuses_parameters_that_each_work_item_changes() -> None:
    body = "int i = threadIdx.x; n -= 2; p += 1; if (i < n) p[i] = 1;"
    text = f"#include <hip/hip_runtime.h>\n__global__ void k(int* p, int n) {{ {body} }}\n"
    found = read_program(text, "gfx942")
    with pytest.raises(NotUnderstood, match="parameter"):
        jammed(found, found.kernels[0], {0: 2})


PLANS = {
    "group_shape": {"weigh": TransformationPlan((128, 2, 1))},
    "lane_order": {"weigh": TransformationPlan((4, 16, 1), lanes=1)},
    "coarsen": {
        "weigh": TransformationPlan((64, 1, 1), axis=0, coarsen=4),
        "count": TransformationPlan((64, 1, 1), coarsen=3),
    },
    "jam": {"weigh": TransformationPlan((64, 1, 1), axis=1, coarsen=4, jam=True, restrict=True)},
    "register_tile": {
        "weigh": TransformationPlan((64, 4, 1), axis=0, coarsen=2, rows=4, jam=True, restrict=True, unroll=2)
    },
    "vectorise": {"weigh": TransformationPlan((64, 1, 1), axis=0, coarsen=2, adjacent=True, jam=True)},
    "atomics": {"count": TransformationPlan((256, 1, 1), coarsen=8, private=True)},
    "unroll": {
        "weigh": TransformationPlan(unroll=4, restrict=True),
        "group": TransformationPlan(restrict=True, waves=4),
    },
    "all": {
        "weigh": TransformationPlan((64, 4, 1), axis=1, coarsen=2, jam=True, unroll=2),
        "count": TransformationPlan((64, 1, 1), private=True),
    },
}


@pytest.fixture(scope="module")
def original() -> Iterator[object]:
    yield run_trial(TEXT, TARGET, Conditions(exact=True))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.one_in(3)
def test_changed_programs_do_the_same(program: ParsedProgram, original: object, name: str) -> None:
    text = emit_program(program, PLANS[name], BLOCKS)
    assert text != TEXT
    found = compare_trials(original, run_trial(text, TARGET, Conditions(exact=True)))  # type: ignore[arg-type]
    assert found.equal and found.exact, found


@pytest.mark.parametrize("name", ["weigh by two", "count by four"])
def test_coordinates_in_macros_are_those_of_the_work_item(name: str) -> None:
    """A macro finds the coordinates of a function of one work-item by their name alone, also through another macro."""
    item = "blockIdx.x * blockDim.x + threadIdx.x"
    text = TEXT.replace(item, "ITEM").replace(
        "__device__", f"#define COLUMN {item}\n#define ITEM (COLUMN)\n__device__", 1
    )
    plan = TransformationPlan((64, 1, 1), axis=0, coarsen=2 if "two" in name else 4)
    changed = emit_program(read_program(text, "gfx942"), {name.split()[0]: plan}, BLOCKS)
    runs = [run_trial(each, TARGET, Conditions(exact=True)) for each in (text, changed)]
    assert runs[0].ok and compare_trials(*runs).exact


def test_another_group_shape_runs_the_original_kernel(program: ParsedProgram) -> None:
    text = emit_program(program, {"weigh": TransformationPlan((128, 2, 1))}, BLOCKS)
    assert (
        "weigh_tuned<<<" in text
        and "lane_group.x == 64" in text
        and "      weigh<<<lane_groups, lane_group>>>(" in text
    )
    assert "count_tuned" not in emit_program(program, {"count": TransformationPlan((64, 1, 1))}, BLOCKS)


@pytest.mark.parametrize("grid, more", [("dim3(4, 64)", ""), ("dim3(n, 64)", "n"), ("dim3(1 << 20, 4)", "1 << 20")])
def test_more_groups_than_a_device_takes_run_the_original_kernel(grid: str, more: str) -> None:
    """Along y and z there may be far fewer groups than along x."""
    text = DEPTHWISE.replace("main() {", "main(int n, char**) {").replace("dim3(4, 64)", grid)
    changed = emit_program(
        read_program(text, "gfx942"), {"depthwise": TransformationPlan((4, 64, 1), lanes=1)}, {"depthwise": (16, 16, 1)}
    )
    condition = "if ((lane_groups.x * 16 + 3) / 4 <= 65535) {"
    assert (condition in changed) == bool(more) == ("depthwise<<<lane_groups, lane_group>>>(" in changed)
    assert changed.count("__global__") == (2 if more else 1)
    run = run_trial(changed, TARGET, Conditions())
    assert run.reason != Reason.COMPILE_FAILED, run.message


@pytest.mark.parametrize("name", ["group_shape", "unroll"])
def test_launch_bounds_become_those_of_the_changed_kernel(original: object, name: str) -> None:
    text = TEXT
    for kernel in PLANS[name]:
        text = text.replace(f"__global__ void {kernel}(", f"__global__ __launch_bounds__((512 / 2), 1) void {kernel}(")
    assert text.count("__launch_bounds__") == len(PLANS[name])
    changed = emit_program(read_program(text, "gfx942"), PLANS[name], BLOCKS)
    expected = "__launch_bounds__(256) void weigh_tuned(" if name == "group_shape" else ", 4) void group("
    assert expected in changed and "((512 / 2), 1) void group(" not in changed
    compared = compare_trials(original, run_trial(changed, TARGET, Conditions(exact=True)))  # type: ignore[arg-type]
    assert compared.equal and compared.exact, compared


def test_lds_arrays_are_padded_and_functions_approximated_where_that_is_safe() -> None:
    body = """__shared__ float a[16][16], b; __shared__ float c[16][16]; __shared__ float d[16][16];
      float* flat = &d[0][0]; c[threadIdx.x][0] = expf(in[0]);
      a[0][0] = b = flat[3] + d[1][1]; in[1] = c[0][1] + a[0][0];"""
    found = read_program(f"#include <hip/hip_runtime.h>\n__global__ void k(float* in) {{ {body} }}\n", "gfx942")
    text = emit_program(found, {"k": TransformationPlan(pad=True, fast=True)}, {})
    assert (
        "c[16][16 + 1];" in text and "d[16][16];" in text and "a[16][16 + 1], b;" in text and "= __expf(in[0])" in text
    )
    one = KernelView(found, found.kernels[0], TransformationPlan(), "lds", (1, 1, 1), (16, 1, 1))
    assert {"lds_padding"} == {move.transformation for move in list_moves(one) if move.plan.pad or move.plan.fast}
    assert any(move.plan.fast for move in list_moves(replace(one, allow=frozenset({"fast-math"}))))


FLAT_TILES = """#include <hip/hip_runtime.h>
#define SIDE 16
__global__ void k(float* in) {
  __shared__ float a[SIDE * SIDE], b[4][SIDE], c[SIDE * SIDE], d[SIDE], e[SIDE * SIDE];
  const int x = threadIdx.x, y = threadIdx.y;
  a[x * SIDE + y] = in[x]; b[x % 4][y] = in[y]; c[x + y * SIDE] = d[x] = in[x + y]; e[y * SIDE + x] = 1;
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < SIDE; ++i) sum += a[(y + 0) * SIDE + i + 0] + b[y % 4][i] + c[i] + d[i] + e[SIDE * i + x];
  in[y * SIDE + x] = sum;
}
int main() { k<<<1, dim3(SIDE, SIDE)>>>(nullptr); }
"""


def test_flat_lds_arrays_of_rows_are_padded() -> None:
    found = read_program(FLAT_TILES, "gfx942")
    text = emit_program(found, {"k": TransformationPlan(pad=True)}, {})
    assert "a[SIDE * (SIDE + 1)], b[4][SIDE + 1], c[SIDE * SIDE], d[SIDE], e[SIDE * SIDE];" in text
    assert "a[x * (SIDE + 1) + y] = in[x];" in text and "sum += a[(y + 0) * (SIDE + 1) + i + 0] + b[y % 4][i]" in text
    assert "c[x + y * SIDE] = d[x]" in text, "it is also used by its element alone"


def test_nothing_planned_changes_nothing(program: ParsedProgram) -> None:
    assert emit_program(program, {}, BLOCKS) == emit_program(program, {"weigh": TransformationPlan()}, BLOCKS) == TEXT


def test_moves_fit_the_kernel(program: ParsedProgram) -> None:
    names = {name: {move.transformation for move in list_moves(view(program, name))} for name in BLOCKS}
    assert "atomics" in names["count"] and "atomics" not in names["weigh"]
    assert {"jam", "coarsen", "group_shape", "hints", "unroll"} <= names["weigh"]
    assert names["group"] <= {"hints", "unroll", "occupancy"}
    assert list_moves(view(program, "count", bottleneck="atomics"))[0].transformation == "bins"
    registers = replace(view(program, "weigh"), limited_by="VGPRs")
    assert {move.transformation for move in list_moves(registers)} <= TRANSFORMATIONS.keys()
    assert any(move.transformation == "occupancy" for move in list_moves(registers))


def test_a_transformation_is_a_file_a_row_of_the_table_and_a_row_of_the_page() -> None:
    files = {found.name for found in pkgutil.iter_modules(transformations.__path__)} - {
        "transformation",
        "kernel_view",
        "unit_strides",
    }
    page = (ROOT / "docs" / "how-to" / "optimize.md").read_text()
    rows = dict(re.findall(r"(?m)^\| `(\w+)` \| .* \| `(\w+)` \|$", page))
    assert files == set(TRANSFORMATIONS)
    assert rows == {name: one.counter for name, one in (TRANSFORMATIONS | SOURCE_CHANGES).items()}


class Fake(Evaluator):
    """Times by the text: coarser is faster down to a factor of 4."""

    def __init__(self) -> None:
        self.target, self.seen = target_of("gfx942"), list[str]()

    def __call__(self, text: str) -> CandidateMeasurement:
        self.seen.append(text)
        factor = next((f for f in (16, 8, 4, 2) if f"at_x < {f}; " in text or f"at_y < {f}; " in text), 1)
        ns = {1: 100.0, 2: 80.0, 4: 60.0, 8: 70.0, 16: 90.0}[factor]
        kernels = [
            KernelTime("weigh", ns, 1, "latency", "", (2, 8, 1), (64, 1, 1), True),
            KernelTime("count", 2.0, 1, "atomics", "", (40, 1, 1), (256, 1, 1), True),
        ]
        return CandidateMeasurement("ok", "", "", 0, tuple(kernels), 1.0)


def search(program: ParsedProgram, budget: float, check: bool = True) -> Search:
    passed = VerificationCheck("outputs_equal", check, "a copy differs")
    return Search(program, Fake(), lambda text: passed, lambda text: None, budget)


def test_a_search_keeps_what_is_faster_and_correct(program: ParsedProgram) -> None:
    found = search(program, 200.0)
    states = found.run()
    assert states[0].found.duration_ns == 62.0 and states[-1].text == TEXT
    kept = [step for step in found.steps if step.kept]
    assert kept and all(step.after_ns is not None and step.after_ns < step.before_ns for step in kept)
    assert all(step.parent < step.number and step.kernel == "weigh" for step in found.steps)
    assert any(step.reason == "not faster" for step in found.steps)


def test_a_beam_with_nothing_left_gives_way_to_the_next_best(program: ParsedProgram) -> None:
    """The third best program is the one that is best unrolled: two better ones are searched to their end first."""

    class DetourFake(Fake):
        def __call__(self, text: str) -> CandidateMeasurement:
            timed = super().__call__(text)
            if "at_y < 4; " in text and "__launch_bounds__(64) void weigh_tuned" in text:
                ns = 30.0 if "#pragma unroll 8" in text else 66.0
                return replace(timed, kernels=(replace(timed.kernels[0], duration_ns=ns), timed.kernels[1]))
            return timed

    found = Search(program, DetourFake(), lambda text: VerificationCheck("x", True), lambda text: None, 400.0)
    assert found.run()[0].found.duration_ns == 32.0
    best = next(step for step in found.steps if step.after_ns == 32.0)
    faster = [step for step in found.steps[: best.number] if step.kept and (step.after_ns or 0.0) < best.before_ns]
    assert best.before_ns == 68.0 and len(faster) >= BEAM
    assert found.ended is SearchEnd.NOTHING_LEFT


def test_an_analysis_that_fails_is_left_out(program: ParsedProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Iterator[TransformationPlan]:
        raise IndexError("a fault")
        yield TransformationPlan()

    broken = replace(TRANSFORMATIONS["jam"], list_plans=fail)
    monkeypatch.setattr("hipsynth.tuning.optimize.transformations.TRANSFORMATIONS", {**TRANSFORMATIONS, "jam": broken})
    monkeypatch.setattr("hipsynth.tuning.optimize.search.keep_sums_in_registers", lambda _: fail().__next__())
    found = search(program, 200.0)
    assert found.run()[0].found.duration_ns == 62.0
    assert found.faults.failed.keys() == {"jam", "register_sums"}
    assert re.fullmatch(r"IndexError: a fault at fail, line \d+", found.faults.failed["jam"])


def test_only_faults_of_the_analysis_are_left_out() -> None:
    def fail(error: Exception) -> Iterator[int]:
        yield 1
        raise error

    faults = AnalysisFaults()
    assert list(faults.iterate("text", fail(BadInput("it does not parse")))) == [1]
    assert list(faults.iterate("edits", fail(EditConflict("two edits overlap")))) == [1]
    assert list(faults.iterate("parser", fail(ParserLost("it crashed")))) == [1]
    assert faults.failed.keys() == {"text", "edits", "parser"} and "it does not parse" in faults.failed["text"]
    with pytest.raises(HipsynthError):
        list(faults.iterate("machine", fail(HipsynthError("no sandbox"))))


def test_a_missing_compiler_is_no_move_that_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_compiler(*_: object) -> object:
        raise MissingDependency("no clang-22 here")

    monkeypatch.setattr("hipsynth.training.analytic.predict.AnalyticPredictor.predict", without_compiler)
    with pytest.raises(MissingDependency):
        duration_predictor(target_of("gfx90a"), ())(TEXT)


def test_a_search_is_deterministic_and_ends_with_its_budget(program: ParsedProgram) -> None:
    one, two = search(program, 12.0), search(program, 12.0)
    one.run(), two.run()
    assert one.steps == two.steps and one.spent_s <= 12.0 + 1.0 + MOST_PREDICTED * PREDICTION_S


def test_a_search_ends_with_the_clock_and_leaves_time_to_verify(program: ParsedProgram) -> None:
    """A machine that needs 7 s for each run: 60 s allow three candidates, if verification will take 30 s."""
    now = [0.0]
    clock = Clock(60.0, now=lambda: now[0], reserve_s=30.0)

    class Slow(Fake):
        def __call__(self, text: str) -> CandidateMeasurement:
            now[0] += 7.0
            return super().__call__(text)

    found = Search(program, Slow(), lambda text: VerificationCheck("x", True), lambda text: None, 60.0, clock=clock)
    states = found.run()
    assert now[0] + clock.reserve_s <= 72.0 and len(found.steps) >= 3 and states[0].found.duration_ns < 102.0
    assert clock.run_s(120.0) == pytest.approx(72.0 - now[0]) and clock.run_s(5.0) == 5.0
    now[0] = 1000.0
    assert clock.over() and clock.run_s(120.0) == LEAST_RUN_S


def test_slow_predictions_give_way_to_runs(program: ParsedProgram) -> None:
    now = [0.0]

    def predict(text: str) -> float:
        now[0] += 10.0
        return 1.0

    clock = Clock(60.0, now=lambda: now[0])
    found = Search(program, Fake(), lambda text: VerificationCheck("x", True), predict, 60.0, clock=clock)
    found.run()
    assert len(found.steps) >= 5 and now[0] <= 72.0 + 10.0


@pytest.mark.full
def test_what_is_predicted_to_be_slower_is_not_executed(program: ParsedProgram) -> None:
    def list_coarsened(predicted: float) -> list[str]:
        measure = Fake()
        Search(
            program,
            measure,
            lambda text: VerificationCheck("x", True),
            lambda text: predicted if "item_x" in text else 100.0,
            400.0,
        ).run()
        return [text for text in measure.seen if "item_x" in text]

    assert list_coarsened(109.0) and not list_coarsened(111.0)


def test_a_wrong_candidate_is_never_kept(program: ParsedProgram) -> None:
    found = search(program, 20.0, check=False)
    assert [state.text for state in found.run()] == [TEXT]
    assert any(step.reason == "a copy differs" for step in found.steps)


def test_a_program_that_fails_is_an_error(program: ParsedProgram) -> None:
    class Failing(Fake):
        def __call__(self, text: str) -> CandidateMeasurement:
            return CandidateMeasurement("failed", Reason.TRAP, "it trapped", 1, (), 1.0)

    with pytest.raises(HipsynthError, match="does not run"):
        Search(program, Failing(), lambda text: VerificationCheck("x", True), lambda text: None, 5.0).run()


def test_names_of_kernels() -> None:
    assert original_name("ns::axpy_tuned<float>") == "axpy" and original_name("axpy") == "axpy"


def test_a_launch_that_is_made_often_counts_as_often_in_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = (replace(KERNEL, duration_ns=500.0, launches=9), replace(KERNEL, duration_ns=100.0))
    expected = AnalyticPrediction("gfx942", "-O3", "mi300x", kernels, 0.0, "")
    questions: list[LaunchAssumptions] = []

    def predict_kernels(*arguments: object) -> AnalyticPrediction:
        question = arguments[-1]
        assert isinstance(question, LaunchAssumptions)
        questions.append(question)
        return expected

    monkeypatch.setattr(AnalyticPredictor, "predict", predict_kernels)
    predict = duration_predictor(target_of("gfx942"), ())
    assert predict(TEXT) == 4600.0
    assert not questions[0].other_data  # only intervals need it
    expected = replace(expected, kernels=(*kernels, replace(KERNEL, duration_ns=None)))
    assert predict(TEXT) is None
