"""One pass over rows in place of two: what is changed or left alone, and that programs do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, KernelTime
from hipsynth.tuning.optimize.search import Search
from hipsynth.tuning.optimize.source_changes.one_pass import list_changes
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
TIMED = CandidateMeasurement("ok", "", "", 0, (), 1.0)  # type: ignore[arg-type]
HEAD = r"""#include <hip/hip_runtime.h>
#include <vector>
template <typename Op>
__device__ float tree(float value, float* shared, Op op) {
  shared[threadIdx.x] = value;
  for (int half = 32; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] = op(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  __syncthreads();
  const float result = shared[0];
  __syncthreads();
  return result;
}
"""
KERNEL = "__global__ void NAME(const float* in, float* out, int rows, int columns) {\n"
LANE = """  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* x = in + row * columns;
  float* y = out + row * columns;
"""
GROUP = """  __shared__ float parts[64];
  const float* x = in + blockIdx.x * columns;
  float* y = out + blockIdx.x * columns;
  if (blockIdx.x >= rows) return;
"""
HOST = r"""
int main() {
  const int rows = 70, columns = 133;
  std::vector<float> host(rows * columns);
  for (int i = 0; i < rows * columns; ++i) host[i] = 0.25f * (i * 37 % 101) - 20 * (i / columns % 3) + 300 * (i < 700);
  for (int i = 0; i < columns; ++i) host[9 * columns + i] = -INFINITY;
  for (int i = 0; i < 40; ++i) host[5 * columns + i * 2] = -INFINITY, host[6 * columns + i] = -INFINITY;
  float *in, *out;
  if (hipMalloc(&in, host.size() * 4) || hipMalloc(&out, host.size() * 4)) return 1;
  (void)hipMemcpy(in, host.data(), host.size() * 4, hipMemcpyHostToDevice);
LAUNCHES
  return 0;
}
"""
NORMALISE = "  for (int c = 0; c < columns; ++c) y[c] = expf(x[c] - m) / s;\n"
SOFTMAX = {
    "by_lane": LANE + "  float m = -INFINITY, s = 0;\n"
    "  for (int c = 0; c < columns; ++c) m = fmaxf(m, x[c]);\n"
    "  for (int c = 0; c < columns; ++c) s += expf(x[c] - m);\n" + NORMALISE,
    "from_first": LANE + "  float m = x[0], s = 0;\n"
    "  for (int c = 1; c < columns; c++) { if (x[c] > m) m = x[c]; }\n"
    "  for (int c = 0; c < columns; c++) { float e = expf(x[c] - m); s += e; }\n" + NORMALISE,
    "stored": LANE + "  float m = -1e30f;\n"
    "  for (int c = 0; c < columns; ++c) { const float v = 0.5f * x[c] + 1; m = v > m ? v : m; }\n"
    "  float s = 0;\n"
    "  for (int k = 0; k < columns; ++k) { y[k] = expf(0.5f * x[k] + 1 - m); s += y[k]; }\n"
    "  for (int k = 0; k < columns; ++k) y[k] /= s;\n",
    "by_group": GROUP + "  float m = -INFINITY;\n"
    "  for (int c = threadIdx.x; c < columns; c += blockDim.x) m = fmaxf(x[c], m);\n"
    "  const float all = tree(m, parts, [](float a, float b) { return fmaxf(a, b); });\n"
    "  float s = 0;\n"
    "  for (int c = threadIdx.x; c < columns; c += blockDim.x) s += expf(x[c] - all);\n"
    "  s = tree(s, parts, [](float a, float b) { return a + b; });\n"
    "  for (int c = threadIdx.x; c < columns; c += blockDim.x) y[c] = expf(x[c] - all) / s;\n",
}
VARIANCE = {
    "spread_by_lane": LANE + "  float s = 0, v = 0;\n"
    "  for (int c = 20; c < columns; ++c) s += isinf(x[c]) ? 0 : x[c];\n  const float mean = s / (columns - 20);\n"
    "  for (int c = 20; c < columns; ++c) {\n    const float d = (isinf(x[c]) ? 0 : x[c]) - mean;\n    v += d * d;\n"
    "  }\n"
    "  for (int c = 0; c < columns; ++c) y[c] = c % 2 ? mean : rsqrtf(v / columns + 1e-5f);\n",
    "spread_by_group": GROUP + "  float s = 0;\n"
    "  for (int c = threadIdx.x; c < columns; c += 64) s += fminf(fmaxf(x[c], -99), 99);\n"
    "  s = tree(s, parts, [](float a, float b) { return a + b; });\n"
    "  float v = 0;\n  for (int c = threadIdx.x; c < columns; c += 64)\n"
    "    v += powf(fminf(fmaxf(x[c], -99), 99) - s / columns, 2);\n"
    "  v = tree(v, parts, [](float a, float b) { return a + b; });\n"
    "  for (int c = threadIdx.x; c < columns; c += 64) y[c] = c % 2 ? s : v;\n",
}  # fmt: skip


def write(kernels: dict[str, str]) -> str:
    """A program that launches kernels one after another, and copies what each leaves."""
    bodies = "".join(f"{KERNEL.replace('NAME', name)}{body}}}\n" for name, body in kernels.items())
    launches = "".join(
        f"  {name}<<<{'rows' if GROUP in body else '(rows + 63) / 64'}, 64>>>(in, out, rows, columns);\n"
        "  (void)hipMemcpy(host.data(), out, host.size() * 4, hipMemcpyDeviceToHost);\n"
        for name, body in kernels.items()
    )
    return HEAD + bodies + HOST.replace("LAUNCHES\n", launches)


def change_all(text: str) -> tuple[str, list[str]]:
    """The program with every pair of loops changed, and the kernels that were."""
    kernels = []
    while change := next(list_changes(read_program(text, "gfx942"), TIMED, TARGET), None):
        text = change.text
        kernels.append(change.kernel)
    return text, kernels


def test_changed_programs_do_the_same() -> None:
    needs.simulator()
    needs.compiler()
    original = write(SOFTMAX | VARIANCE)
    text, kernels = change_all(original)
    assert kernels == [*SOFTMAX, *VARIANCE]
    runs = [run_trial(one, TARGET, Conditions(exact=True, record_bytes=1 << 20)) for one in (original, text)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    found = compare_trials(*runs, Tolerance("float", 1e-5, "sums in another order"))
    assert found.equal, found
    loads = [[kernel.counters["SQ_INSTS_VMEM_RD"] for kernel in run.kernels] for run in runs]
    assert all(after < before for before, after in zip(*loads, strict=True)), loads


def test_a_sum_is_scaled_anew_where_the_largest_element_grows() -> None:
    text, _ = change_all(write({"by_lane": SOFTMAX["by_lane"]}))
    assert "for (int c_first = 0; c_first < columns; c_first += 4) {" in text and "m_next[m_i] = x[c];" in text
    assert "m_sum *= expf(m_before - m_base);" in text and "  if (0 < columns) s += m_sum * expf(m - m);\n" in text
    assert text.count("columns; ++c)") == 1, "the loop that writes"


def test_a_group_joins_parts_that_are_relative_to_its_largest_element() -> None:
    text, _ = change_all(write({"by_group": SOFTMAX["by_group"]}))
    assert "  const float m_own = m;\n  const float all = tree(m, parts," in text
    assert "    const int c = threadIdx.x;\n    if (c < columns) s += m_sum * expf(m_own - all);\n  }\n" in text


def test_a_loop_that_stored_terms_writes_the_result_at_once() -> None:
    text, _ = change_all(write({"stored": SOFTMAX["stored"]}))
    assert "y[k] = expf(0.5f * x[k] + 1 - m) / s;" in text and "y[k] /= s" not in text and "s += y[k]" not in text


def test_lanes_that_share_a_row_keep_their_own_sums() -> None:
    found = read_program(write({"by_lane": SOFTMAX["by_lane"]}), "gfx942")
    split = TransformationPlan((256, 1, 1), split=64, restrict=True)
    text, kernels = change_all(emit_program(found, {"by_lane": split}, {"by_lane": (64, 1, 1)}))
    assert kernels == ["by_lane"] and "s += m_sum * expf(m_own - m);" in text
    assert "static_cast<decltype(c_first)>(lane_part); c_first < columns; c_first += 4 * 64" in text


def test_a_variance_follows_from_distances_to_the_first_element() -> None:
    text, _ = change_all(write({"spread_by_lane": VARIANCE["spread_by_lane"]}))
    assert "    s += v_next;\n    if (v_count == 0) v_first = v_next;\n" in text
    assert "  v += v_rest < 0 ? 0 : v_rest;\n" in text and text.count("isinf(x[c])") == 1


class Passes(Evaluator):
    """Times by the loops over columns."""

    def __init__(self) -> None:
        self.target = TARGET

    def __call__(self, text: str) -> CandidateMeasurement:
        ns = 100.0 * text.count("c < columns;") + 10 * text.count("restrict")
        kernel = KernelTime("by_group", ns, 1, "latency", "", (70, 1, 1), (64, 1, 1), True)
        return CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)  # type: ignore[arg-type]


def test_a_search_changes_the_source_of_its_fastest_program() -> None:
    program = read_program(write({"by_group": SOFTMAX["by_group"]}), "gfx942")
    passed = VerificationCheck("outputs_equal", True)
    states = Search(program, Passes(), lambda text: passed, lambda text: None, 30.0)
    fastest = states.run()[0]
    assert "m_sum" in fastest.text and states.steps[fastest.step].transformation == "one_pass"
    assert states.steps[fastest.step].kernel == "by_group" and fastest.found.duration_ns == 100.0


LEFT_ALONE = {
    "another row": "for (int c = 0; c < columns; ++c) s += expf(in[c] - m);",
    "other elements": "for (int c = 1; c < columns; ++c) s += expf(x[c] - m);",
    "another base": "for (int c = 0; c < columns; ++c) s += expf(x[c] - x[0] * c);",
    "a store": "y[0] = m; for (int c = 0; c < columns; ++c) s += expf(x[c] - m);",
    "a row that moves": "x += columns; for (int c = 0; c < columns; ++c) s += expf(x[c] - m);",
    "fewer columns": "columns /= 2; for (int c = 0; c < columns; ++c) s += expf(x[c] - m);",
    "a condition": "if (m > 3) for (int c = 0; c < columns; ++c) s += expf(x[c] - m);",
    "another function": "for (int c = 0; c < columns; ++c) s += sinf(x[c] - m);",
    "more in the loop": "for (int c = 0; c < columns; ++c) { s += expf(x[c] - m); y[c] = s; }",
    "a name that is used": "float m_sum = 0; for (int c = 0; c < columns; ++c) s += expf(x[c] - m); s += m_sum;",
    "an atomic": "atomicAdd(y, m); for (int c = 0; c < columns; ++c) s += expf(x[c] - m);",
}


@pytest.mark.parametrize("what", LEFT_ALONE)
def test_other_loops_are_left_alone(what: str) -> None:
    first = SOFTMAX["by_lane"].splitlines(True)[:6]
    text = write({"k": "".join(first) + LEFT_ALONE[what] + NORMALISE})
    assert change_all(text)[1] == []


# A softmax whose lanes join their parts by functions of templates.
JOINED = r"""#include <hip/hip_runtime.h>
#include <limits>
#include <type_traits>
#include <vector>
template <typename T> __device__ T power(T x);
template <> __device__ float power<float>(float x) { return expf(x); }
template <> __device__ double power<double>(double x) { return ::exp(x); }
template <typename T> struct Larger { __device__ T operator()(T a, T b) const { return a > b ? a : b; } };
template <typename T> struct Sum { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename T, typename Op> __device__ T join(T value, Op op, T* parts) {
  for (int distance = 32; distance > 0; distance /= 2) value = op(value, __shfl_xor(value, distance));
  if (threadIdx.x % 64 == 0) parts[threadIdx.x / 64] = value;
  __syncthreads();
  value = parts[0];
  for (int wave = 1; wave < blockDim.x / 64; ++wave) value = op(value, parts[wave]);
  return value;
}
template <typename scalar> __global__ void softmax(const scalar* in, scalar* out, long rows, long columns) {
  using total = scalar;
  extern __shared__ unsigned char bytes[];
  scalar* parts = reinterpret_cast<scalar*>(bytes);
  for (long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long base = row * columns;
    total m = -std::numeric_limits<scalar>::infinity();
    for (long i = threadIdx.x; i < columns; i += blockDim.x) {
      scalar v = in[base + i];
      m = v > m ? v : m;
    }
    scalar all;
    if constexpr (std::is_same<scalar, float>::value) {
      all = join<scalar>(m, Larger<float>{}, parts);
    } else {
      all = join<scalar>(m, Larger<double>{}, parts);
    }
    total s = 0;
    for (long i = threadIdx.x; i < columns; i += blockDim.x) {
      scalar e = power<scalar>(in[base + i] - all);
      out[base + i] = e;
      s += e;
    }
    __syncthreads();
    s = join<scalar>(s, Sum<scalar>{}, parts);
    for (long i = threadIdx.x; i < columns; i += blockDim.x) out[base + i] = out[base + i] / s;
    __syncthreads();
  }
}
int main() {
  const long rows = 11, columns = 397;
  std::vector<KIND> host(rows * columns);
  for (long i = 0; i < rows * columns; ++i) host[i] = 0.25 * (i * 37 % 101) - 20 * (i / columns % 3);
  KIND *in, *out;
  if (hipMalloc(&in, host.size() * sizeof(KIND)) || hipMalloc(&out, host.size() * sizeof(KIND))) return 1;
  (void)hipMemcpy(in, host.data(), host.size() * sizeof(KIND), hipMemcpyHostToDevice);
  softmax<KIND><<<4, 256, 64>>>(in, out, rows, columns);
  (void)hipMemcpy(host.data(), out, host.size() * sizeof(KIND), hipMemcpyDeviceToHost);
  return 0;
}
"""
SEPARATE = "    __syncthreads();\n    s = join"
NOTE = "the LDS may be written anew when all have read it"


@pytest.mark.parametrize("kind", ["float", "double"])
def test_functions_of_templates_are_read(kind: str) -> None:
    needs.simulator()
    needs.compiler()
    original = JOINED.replace("KIND", kind)
    assert SEPARATE in original
    text, kernels = change_all(original)
    assert kernels == ["softmax"] and "      total m_next[4];\n" in text and "m = fmax(m, m_next[m_i]);" in text
    assert "s += m_sum * power<scalar>(m_own - all);" in text
    assert "out[base + i] = power<scalar>(in[base + i] - all) / s;" in text
    runs = [
        run_trial(one, TARGET, Conditions(exact=True, races=True, record_bytes=1 << 20)) for one in (original, text)
    ]
    found = compare_trials(*runs, Tolerance(kind, 1e-6 if kind == "float" else 1e-12, "sums in another order"))
    assert found.equal and not runs[1].races, (found, runs[1].races)


def test_the_loop_between_two_reductions_leaves_a_barrier() -> None:
    """Where none stood between the first one's result and the second one's parts, the loop gave them time."""
    needs.simulator()
    needs.compiler()
    text, _ = change_all(JOINED.replace("KIND", "float"))
    assert f"    __syncthreads();  // {NOTE}\n    // This is not a number" in text
    raced = JOINED.replace("KIND", "float").replace(SEPARATE, SEPARATE.partition("\n")[2])
    text, _ = change_all(raced)
    runs = [run_trial(one, TARGET, Conditions(exact=True, races=True)) for one in (raced, text)]
    assert runs[0].races and not runs[1].races
    apart = "  __syncthreads();\n  return value;\n"
    text, kernels = change_all(JOINED.replace("KIND", "float").replace("  return value;\n", apart))
    assert kernels and NOTE not in text


CALLS_LEFT_ALONE = {
    "a function that does more": ("{ return expf(x); }", "{ return expf(x) + 1; }"),
    "a function that is no exponential": ("{ return ::exp(x); }", "{ return ::exp2(x) * x; }"),
    "a function that gets the row": ("Larger<float>{}, parts", "Larger<float>{}, out"),
    "a pointer that moves": ("    scalar all;", "    scalar all;\n    parts = out;"),
    "a pointer to the row": ("<scalar*>(bytes);", "<scalar*>(columns > 9 ? (scalar*)bytes : out);"),
    "a largest element that changes": ("    __syncthreads();\n    s = join", "    all = 0;\n    s = join"),
    "a barrier under a condition": ("      all = join", "      if (rows > 3) all = join"),
    "work-items that return": ("    total s = 0;", "    if (all > 1e30) return;\n    total s = 0;"),
    "halves": ("using total = scalar", "using total = _Float16"),
    "a name of a namespace": ("using total = scalar;", "using std::is_same;\n  typedef scalar total;"),
}


@pytest.mark.parametrize("what", CALLS_LEFT_ALONE)
def test_calls_that_may_change_the_row_are_left_alone(what: str) -> None:
    before, after = CALLS_LEFT_ALONE[what]
    assert before in JOINED
    assert change_all(JOINED.replace("KIND", "float").replace(before, after))[1] == []
