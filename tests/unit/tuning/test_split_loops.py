"""Loops shared out among lanes: what is written, what is refused, and that programs do the same."""

from __future__ import annotations

import needs
import pytest

from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.split_loops.shared_loops import split_edits
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TEXT = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void rows(const float* in, const int* ends, float* out, float* most, int n, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  const float* x = in + row * columns;
  float sum = 1, largest = x[0];
  int seen = 0;
  for (int c = ends[row]; c < columns; c += 2) {
    const float d = x[c] * 0.5f;
    if (d < 0) continue;
    sum += d;
    ++seen;
  }
  for (int c = 0; c < columns; ++c) largest = fmaxf(largest, x[c]);
  for (int c = 0; c < columns; ++c) {
    const int at = row * columns + c;
    out[at] = x[c] / largest;
  }
  for (int c = 0; c < columns; ++c) out[row * columns + c] += sum;
  most[row] = largest + seen;
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 37, columns = 45;
  std::vector<float> host(n * columns), back(n * columns);
  std::vector<int> first(n);
  for (int i = 0; i < n * columns; ++i) host[i] = 1 + i * 29 % 101;
  for (int i = 0; i < n; ++i) first[i] = i % 7;
  float *in, *out, *most;
  int* ends;
  if (hipMalloc(&in, n * columns * 4) || hipMalloc(&out, n * columns * 4) || hipMalloc(&most, n * 4)) return 1;
  if (hipMalloc(&ends, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * columns * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(ends, first.data(), n * 4, hipMemcpyHostToDevice);
  rows<<<(n + 63) / 64, 64>>>(in, ends, out, most, n, columns);
  (void)hipMemcpy(back.data(), out, n * columns * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""
SAME_PLACES = TEXT.replace("    const int at = row * columns + c;\n    out[at] =", "    out[row * columns + c] =")
TALLY = SAME_PLACES.replace("++seen", "seen += 1")


def program(text: str) -> ParsedProgram:
    return read_program(text, "gfx942")


def kernel(body: str, before: str = "") -> ParsedProgram:
    parameters = "float* a, float* b, int n"
    return program(f"#include <hip/hip_runtime.h>\n{before}\n__global__ void k({parameters}) {{ {body} }}\n")


def edits(found: ParsedProgram) -> list[str]:
    return [edit.text for edit in split_edits(Body(found, found.kernels[0]), 16)]


def test_helpers_avoid_the_names_of_macros() -> None:
    """`#define N` and `#define T` are common; the helpers' template parameters have these names, too."""
    text = TALLY.replace("#include <cstdlib>", "#include <cstdlib>\n#define N 45\n#define T 64")
    text = text.replace("columns = 45", "columns = N").replace("(n + 63) / 64, 64>>>", "(n + T - 1) / T, T>>>")
    plans = {"rows": TransformationPlan((256, 1, 1), split=16)}
    changed = emit_program(program(text), plans, {"rows": (64, 1, 1)})
    assert "template <int N_own, typename T_own>" in changed and "sum_of_lanes<16>(sum)" in changed
    runs = [
        run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (text, changed)
    ]
    assert runs[1].ok, runs[1].message
    assert compare_trials(*runs, Tolerance("float", 2e-5, "a test")).equal


def test_a_start_that_binds_less_than_a_sum_gets_brackets() -> None:
    starts = program(TALLY.replace("int c = ends[row]", "int c = ends[row] & 3"))
    text = emit_program(starts, {"rows": TransformationPlan((256, 1, 1), split=16)}, {"rows": (64, 1, 1)})
    assert "for (int c = (ends[row] & 3) + static_cast<decltype(c)>(lane_part) * (2);" in text


def test_loops_are_dealt_out_and_joined() -> None:
    text = emit_program(program(TALLY), {"rows": TransformationPlan((256, 1, 1), split=16)}, {"rows": (64, 1, 1)})
    assert "for (int c = ends[row] + static_cast<decltype(c)>(lane_part) * (2); c < columns; c += 16 * (2))" in text
    assert (
        "sum = sum_before + sum_of_lanes<16>(sum);" in text and "seen = seen_before + sum_of_lanes<16>(seen);" in text
    )
    assert "largest = largest_of_lanes<16>(largest);" in text
    assert "if (lane_part == 0) { most[row] = largest + seen; }" in text
    assert "const unsigned lane_x = (blockIdx.x * 256 + threadIdx.x) / 16;" in text


@pytest.mark.parametrize("lanes", [4, 64, 256, 1024])
@pytest.mark.one_in(3)
def test_split_programs_do_the_same(lanes: int) -> None:
    needs.simulator()
    needs.compiler()
    found, target = program(TALLY), target_of("gfx942")
    plan = TransformationPlan((max(lanes, 256), 1, 1), split=lanes, unroll=2)
    text = emit_program(found, {"rows": plan}, {"rows": (64, 1, 1)})
    runs = [run_trial(one, target, Conditions(exact=True, record_bytes=1 << 20)) for one in (TALLY, text)]
    done = compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order"))
    assert done.equal, done


EXTREMES = {
    "if (largest < x[c]) largest = x[c];": "largest",
    "if (x[c] >= largest) { largest = x[c]; }": "largest",
    "const float d = x[c] * 2; if (d < largest) largest = d;": "least",
    "if (largest > fabsf(x[c])) { largest = fabsf(x[c]); }": "least",
}


@pytest.mark.parametrize("body", EXTREMES)
def test_extremes_by_comparison_are_joined(body: str) -> None:
    needs.simulator()
    needs.compiler()
    text = TALLY.replace("largest = fmaxf(largest, x[c]);", f"{{ {body} }}")
    plan = TransformationPlan((256, 1, 1), split=64)
    changed = emit_program(program(text), {"rows": plan}, {"rows": (64, 1, 1)})
    assert f"largest = {EXTREMES[body]}_of_lanes<64>(largest);" in changed
    runs = [
        run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (text, changed)
    ]
    assert runs[0].ok and compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal


CHOSEN = TALLY.replace(
    "const float* x = in + row * columns;",
    "const float* x = nullptr;\n"
    "  if (columns > 3) x = ends[row] > 9 ? in : in + row * columns;\n"
    "  if (row % 5 == 2) {\n    most[row] = -1;\n    return;\n  }",
)


@pytest.mark.parametrize("lanes", [16, 256])
def test_pointers_may_be_chosen_and_the_first_lane_may_store_twice(lanes: int) -> None:
    needs.simulator()
    needs.compiler()
    found = program(CHOSEN)
    text = emit_program(found, {"rows": TransformationPlan((256, 1, 1), split=lanes)}, {"rows": (64, 1, 1)})
    assert text.count("if (lane_part == 0) { most[row] =") == 2
    runs = [run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (CHOSEN, text)]
    assert runs[0].ok and compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal


AGAIN = TALLY.replace(
    "  most[row] = largest + seen;\n",
    "  most[row] = largest + seen;\n"
    "  for (int c = 0; c < columns; ++c) sum += x[c] - most[row];\n"
    "  if (sum > most[row]) ends_up[row] = sum;\n",
).replace("float* most,", "float* most, float* ends_up,")
AGAIN = AGAIN.replace("float *in, *out, *most;", "float *in, *out, *most, *up;").replace(
    "out, most, n", "out, most, up, n"
)
AGAIN = AGAIN.replace("|| hipMalloc(&most, n * 4)", "|| hipMalloc(&most, n * 4) || hipMalloc(&up, n * 4)")


@pytest.mark.parametrize("lanes", [16, 256])
def test_a_value_that_is_read_again_after_its_store_is_kept(lanes: int) -> None:
    needs.simulator()
    needs.compiler()
    found = program(AGAIN)
    text = emit_program(found, {"rows": TransformationPlan((256, 1, 1), split=lanes)}, {"rows": (64, 1, 1)})
    assert "const float most_value = largest + seen;\n" in text and "most[row] = most_value;" in text
    assert text.count("most_value") == 4
    runs = [run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (AGAIN, text)]
    assert runs[0].ok and compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal


RUNNING = SAME_PLACES.replace(
    """    if (d < 0) continue;
    sum += d;
    ++seen;
  }""",
    """    most[row * columns + c] = sum;
    sum += x[c] * 0.5f;
    seen += c;
    in_order[row * columns + c] = sum + seen + d;
  }""",
)
for old, new in (
    ("float* most, int n", "float* most, float* in_order, int n"), ("out, most, n", "out, most, in_order, n"),
    ("hipMalloc(&most, n * 4)", "hipMalloc(&most, n * columns * 4) || hipMalloc(&in_order, n * columns * 4)"),
    ("*most;", "*most, *in_order;"), ("  most[row] = largest + seen;\n", ""),
):  # fmt: skip
    RUNNING = RUNNING.replace(old, new)


@pytest.mark.parametrize("lanes", [4, 64])
def test_what_a_loop_has_summed_so_far_is_stored(lanes: int) -> None:
    needs.simulator()
    needs.compiler()
    found = program(RUNNING)
    text = emit_program(found, {"rows": TransformationPlan((256, 1, 1), split=lanes)}, {"rows": (64, 1, 1)})
    assert f"sum_up_to_lane<{lanes}>" in text and "most[row * columns + c] = sum_before" in text
    runs = [
        run_trial(one, target_of("gfx942"), Conditions(exact=True, record_bytes=1 << 20)) for one in (RUNNING, text)
    ]
    assert runs[0].ok and compare_trials(*runs, Tolerance("float", 1e-6, "sums in another order")).equal, text


def test_running_sums_are_of_one_wavefront() -> None:
    with pytest.raises(NotUnderstood):
        split_edits(Body(found := program(RUNNING), found.kernels[0]), 256)


ROW = "const int i = blockIdx.x * blockDim.x + threadIdx.x; "
REFUSED = {
    "no loop": "a[i] = b[i];",
    "a recurrence": "float s = 0; for (int c = 0; c < n; ++c) s = 0.5f * s + b[c]; a[i] = s;",
    "a partial sum that reads itself": "float s = 0; for (int c = 0; c < n; ++c) { s += b[c] * s; a[i * n + c] = s; }",
    "a partial product": "float s = 1; for (int c = 0; c < n; ++c) { s *= b[c]; a[i * n + c] = s; }",
    "a partial sum under a condition": "float s = 0; "
    "for (int c = 0; c < n; ++c) { if (b[c] > 0) { s += b[c]; } a[i * n + c] = s; }",
    "a partial sum of what was stored": "float s = 0; "
    "for (int c = 0; c < n; ++c) { a[i * n + c] = s; s += a[i * n + c]; }",
    "partial sums in one place": "float s = 0; for (int c = 0; c < n; ++c) { s += b[c]; a[i] = s; }",
    "iterations that store to one place": "for (int c = 0; c < n; ++c) a[i] = b[c];",
    "places that may meet": "for (int c = 0; c < n; ++c) a[c / 2] = b[c];",
    "a place that depends on data": "for (int c = 0; c < n; ++c) { const int p = b[c]; a[p] = 1; }",
    "an early end": "float s = 0; for (int c = 0; c < n; ++c) { s += b[c]; if (b[c] < 0) break; } a[i] = s;",
    "a bound that moves": "int m = n; float s = 0; for (int c = 0; c < m; ++c) { s += b[c]; m = m - 1; } a[i] = s;",
    "a neighbour's store that is read": "for (int c = 0; c < n; ++c) a[c] = b[c]; float s = 0; "
    "for (int c = 0; c < n; ++c) s += a[c + 1]; b[i] = s;",
    "what the first lane stores": "a[i] = 1; float s = 0; for (int c = 0; c < n; ++c) s += a[c]; b[i] = s;",
    "a store under a condition": "float s = 0; if (i < 5) { a[i] = 1; } "
    "for (int c = 0; c < n; ++c) s += a[i]; b[i] = s;",
    "one of two stores": "a[i] = 1; if (i > 5) a[i] = 2; float s = 0; for (int c = 0; c < n; ++c) s += a[i]; b[i] = s;",
    "a place that moves": "int j = i; a[j] = 1; j = j + 1; "
    "float s = 0; for (int c = 0; c < n; ++c) s += a[j]; b[i] = s;",
    "a pointer that is followed": "float s = 0; for (int c = 0; c < n; ++c) s += *(b + c); a[i] = s;",
    "a pointer into two arrays": "float* p = nullptr; if (n > 5) p = a; else p = b; float s = 0; "
    "for (int c = 0; c < n; ++c) s += p[c]; b[i] = s;",
    "a reference": "float s = 0; float& r = s; for (int c = 0; c < n; ++c) r += b[c]; a[i] = s;",
    "a function with effects": "float s = 0; for (int c = 0; c < n; ++c) s += put(a, c); b[i] = s;",
    "steps backwards": "float s = 0; for (int c = n; c > 0; --c) s += b[c]; a[i] = s;",
    "a local array": "float s[2] = {0, 0}; for (int c = 0; c < n; ++c) s[c % 2] += b[c]; a[i] = s[0];",
    "another value than the compared one": "float s = 0; "
    "for (int c = 0; c < n; ++c) if (b[c] < s) s = b[c] + 1; a[i] = s;",
    "an extreme with another branch": "float s = 0; "
    "for (int c = 0; c < n; ++c) { if (b[c] < s) s = b[c]; else s = 1; } a[i] = s;",
    "an extreme that is read": "float s = 0; "
    "for (int c = 0; c < n; ++c) { if (b[c] < s) s = b[c]; a[c] = s; } a[i] = s;",
    "an extreme of itself": "float s = 0; for (int c = 0; c < n; ++c) if (b[c] - s < s) s = b[c] - s; a[i] = s;",
    "two conditions": "float s = 0; for (int c = 0; c < n; ++c) if (b[c] < s && c > 3) s = b[c]; a[i] = s;",
    "an atomic on a global of the device": "float s = 0; for (int c = 0; c < n; ++c) s += b[c]; atomicAdd(&total, s);",
    "an atomic whose result is used": "for (int c = 0; c < n; ++c) b[c] = atomicAdd(a, 1.0f);",
}


@pytest.mark.parametrize("what", REFUSED)
def test_loops_whose_iterations_depend_on_each_other_are_left_alone(what: str) -> None:
    found = kernel(
        ROW + REFUSED[what], "__device__ float total; __device__ float put(float* p, int c) { return p[c] = c; }"
    )
    with pytest.raises(NotUnderstood):
        edits(found)


def test_what_an_iteration_stores_it_may_read_again() -> None:
    stores = "for (int c = 0; c < n; ++c) a[i * n + c] = b[c]; "
    assert edits(kernel(ROW + stores + "for (int c = 0; c < n; ++c) a[i * n + c] *= 2;"))
    with pytest.raises(NotUnderstood, match="read where other lanes"):
        edits(kernel(ROW + stores + "for (int c = 1; c < n; ++c) a[i * n + c] *= 2;"))


def test_the_move_is_offered_once() -> None:
    found = program(TALLY)
    one = KernelView(found, found.kernels[0], TransformationPlan(), "latency", (64, 1, 1), (64, 1, 1))
    offered = [move.plan for move in list_moves(one) if move.transformation == "split_loops"]
    assert [plan.split for plan in offered] == [64, 256, 16, 4, 1024] and all(plan.restrict for plan in offered)
    many = KernelView(found, found.kernels[0], TransformationPlan(), "latency", (640, 1, 1), (64, 1, 1))
    splits = [move.plan.split for move in list_moves(many) if move.transformation == "split_loops"]
    assert splits == [64, 16, 4], "a group for each of many rows leaves most lanes idle"
    again = KernelView(found, found.kernels[0], offered[0], "latency", (64, 1, 1), (64, 1, 1))
    assert {move.transformation for move in list_moves(again)} <= {"unroll", "hints", "occupancy"}


PLACES = TEXT.replace(
    TEXT[TEXT.index("  float sum = 1") : TEXT.index("}\nint main")],
    """  float least = 1e30f, largest = -1.0f;
  int first = -1, last = 7;
  for (int c = ends[row]; c < columns; ++c) {
    const float d = x[c] * x[(c * 3) % columns];
    if (d < least) {
      least = d;
      first = c;
    }
    if (largest < x[c] - 200.0f * (row == 5)) { last = c; largest = x[c] - 200.0f * (row == 5); }
  }
  out[row * columns] = first * 64 + last;
  most[row] = least - 3.0f * largest;
""",
).replace("1 + i * 29 % 101", "1 + i * 29 % 5")


@pytest.mark.parametrize("lanes", [4, 64, 256])
def test_the_first_of_equal_extremes_is_found(lanes: int) -> None:
    """Values repeat, so that several lanes hold the least one; a row has none that is large enough."""
    needs.simulator()
    needs.compiler()
    found, target = program(PLACES), target_of("gfx942")
    text = emit_program(found, {"rows": TransformationPlan((256, 1, 1), split=lanes)}, {"rows": (64, 1, 1)})
    assert f"first_of_lanes<{lanes}, true>(least, first);" in text
    assert f"first_of_lanes<{lanes}, false>(largest, last);" in text
    assert "sum_of_lanes" not in text, "only what is used is pasted"
    runs = [run_trial(one, target, Conditions(exact=True)) for one in (PLACES, text)]
    assert runs[0].ok and compare_trials(*runs).exact, runs[1].message


def test_finding_the_first_extreme_of_long_rows_is_faster() -> None:
    needs.simulator()
    needs.compiler()
    long = PLACES.replace("columns = 45", "columns = 2048")
    text = emit_program(program(long), {"rows": TransformationPlan((256, 1, 1), split=256)}, {"rows": (64, 1, 1)})
    times = [run_trial(one, target_of("gfx942")).duration_ns for one in (long, text)]
    assert 0 < times[1] < 0.25 * times[0]


CHOICE = "float s = 1e9f; int at = 0; for (int c = 0; c < n; ++c) { LINE } a[i] = s + at;"
CHOICES = {
    "the last of equal ones": "if (b[c] <= s) { s = b[c]; at = c; }",
    "a place from elsewhere": "if (b[c] < s) { s = b[c]; at = int(b[c]); }",
    "another value": "if (b[c] < s) { s = b[c + 1]; at = c; }",
    "a value that is used": "if (b[c] < s) { s = b[c]; at = c; } b[c] = s;",
    "a value that changes again": "if (b[c] < s) { s = b[c]; at = c; } s += 1;",
    "a choice that has another branch": "if (b[c] < s) { s = b[c]; at = c; } else { at = 0; }",
    "two places": "int o; if (b[c] < s) { s = b[c]; at = c; o = c; }",
}


@pytest.mark.parametrize("what", CHOICES)
def test_choices_that_depend_on_the_order_are_left_alone(what: str) -> None:
    with pytest.raises(NotUnderstood):
        edits(kernel(ROW + CHOICE.replace("LINE", CHOICES[what])))
    assert edits(kernel(ROW + CHOICE.replace("LINE", "if (s > b[c]) { at = c; s = b[c]; }")))
