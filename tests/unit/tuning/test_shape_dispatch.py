"""Changed kernels that are launched for some sizes alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import needs
import pytest
from fake_tuning import TEXT as SCALE
from fake_tuning import measure, without_simulator

from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import ShapeSpeedup
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult, optimize_program
from hipsynth.tuning.optimize.shape_dispatch import SizeGuard, choose_guard, size_names
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.verification.verify import Verification, Verifier
from hipsynth.tuning.trial import Conditions, Tolerance, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
BLOCK = (64, 1, 1)
TEXT = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void sums(const float* in, float* out, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int c = 0; c < columns; ++c) sum += in[row * columns + c];
  out[row] = sum;
}
int main(int argc, char** argv) {
  const int rows = argc > 1 ? std::atoi(argv[1]) : 4096;
  int columns = 1024;
  if (argc > 2) columns = std::atoi(argv[2]);
  std::vector<float> host(rows * columns, 1.5f), back(rows);
  float *in, *out;
  if (hipMalloc(&in, rows * columns * 4) || hipMalloc(&out, rows * 4)) return 1;
  (void)hipMemcpy(in, host.data(), rows * columns * 4, hipMemcpyHostToDevice);
  sums<<<SHAPE>>>(in, out, rows, columns);
  (void)hipMemcpy(back.data(), out, rows * 4, hipMemcpyDeviceToHost);
  return back[rows - 1] != 1.5f * columns;
}
"""
LITERAL = TEXT.replace("SHAPE", "(rows + 63) / 64, 64")
VARIABLE = TEXT.replace("SHAPE", "(rows + columns / columns * 63) / 64, columns / columns * 64")
SPLIT = TransformationPlan((256, 1, 1), split=64, restrict=True)


def shapes(*rows: tuple[tuple[str, ...], float]) -> list[ShapeSpeedup]:
    return [ShapeSpeedup(arguments, "drawn", 1.0, 1.0, speedup) for arguments, speedup in rows]


def guard_of(*rows: tuple[tuple[str, ...], float], text: str = LITERAL) -> SizeGuard | None:
    program = read_program(text, "gfx942")
    return choose_guard(program, program.kernels[0], shapes(*rows))


def test_variables_with_arguments_are_found() -> None:
    assert size_names(LITERAL) == {"rows": 0, "columns": 1}


def test_the_size_that_separates_is_chosen() -> None:
    timed = ((), 2.4)
    assert guard_of(timed, (("512", "8192"), 3.0), (("32768", "128"), 0.2)) == SizeGuard("columns", ">=", 1024)
    assert guard_of(timed, (("512", "8192"), 0.7)) == SizeGuard("rows", ">=", 4096)
    assert guard_of(((), 1.5), (("4096", "8192"), 0.7)) == SizeGuard("columns", "<=", 1024)


def test_where_no_size_separates_there_is_no_guard() -> None:
    assert guard_of(((), 2.0), (("512", "128"), 0.5), (("32768", "8192"), 0.5)) is None
    assert guard_of(((), 2.0), (("512", "128"), 1.5)) is None, "nothing is lost"
    other = LITERAL.replace(
        "(rows + 63) / 64, 64>>>(in, out, rows, columns);", "groups, 64>>>(in, out, height, columns);"
    )
    other = other.replace("float *in", "const int height = rows, groups = (rows + 63) / 64;\n  float *in")
    assert guard_of(((), 2.0), (("512", "1024"), 0.5), text=other) is None, "no launch names the size"


def test_a_launch_names_a_size_in_its_shape() -> None:
    other = LITERAL.replace("out, rows, columns);", "out, int(rows), columns);")
    assert guard_of(((), 2.0), (("512", "1024"), 0.5), text=other) == SizeGuard("rows", ">=", 4096)


@pytest.mark.parametrize(
    ("text", "plan"),
    [(LITERAL, SPLIT), (VARIABLE, SPLIT), (LITERAL, TransformationPlan(unroll=4))],
    ids=["literal", "variable", "in place"],
)
def test_both_kernels_are_launched(text: str, plan: TransformationPlan) -> None:
    needs.simulator()
    needs.compiler()
    guards = {"sums": SizeGuard("columns", ">=", 100)}
    changed = emit_program(read_program(text, "gfx942"), {"sums": plan}, {"sums": BLOCK}, guards)
    assert "if (columns >= 100) {  // for other sizes, the first kernel is faster" in changed
    assert text[text.index("__global__") : text.index("int main")] in changed
    for columns, name in (("99", "sums"), ("100", "sums_tuned")):
        conditions = Conditions(("70", columns), exact=True, record_bytes=1 << 20)
        before, after = (run_trial(one, TARGET, conditions) for one in (text, changed))
        assert compare_trials(before, after, Tolerance("float", 1e-6, "sums in another order")).equal, after.message
        assert after.exit_code == 0 and [kernel.name.partition("(")[0] for kernel in after.kernels] == [name]


def optimized(monkeypatch: pytest.MonkeyPatch, right: str) -> OptimizeResult:
    """What a search answers whose changed kernels lose at small sizes; texts without `right` fail a check."""
    without_simulator(monkeypatch)
    main = "int main(int argc, char** argv) {\n  const int n = argc > 1 ? atoi(argv[1]) : 4096;\n  "
    text = SCALE.replace("int main() { ", main)
    text = text.replace("nullptr, 0)", "nullptr, n)")

    def draw(_: object, text: str, *__: object) -> tuple[ShapeSpeedup, ...]:
        return tuple(shapes((("512",), 1.0 if "if (n >= 4096)" in text else 0.5)))

    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.time_drawn_shapes", draw)
    whole = Verifier.full

    def full(self: Verifier, text: str, *timed: object) -> Verification:
        return whole(self, text if right in text else "wrong")

    monkeypatch.setattr(Verifier, "full", full)
    return optimize_program(OptimizeRequest(text, TARGET, 30.0))


def test_a_search_keeps_the_original_where_the_changed_kernel_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = optimized(monkeypatch, right="scale")
    assert answer.status == "improved" and answer.holds and not answer.reason
    assert answer.guards == {"scale": SizeGuard("n", ">=", 4096)} and "if (n >= 4096) {" in answer.text
    assert answer.document(Path("a.hip"), "gfx942", "").dispatch == {"scale": "n >= 4096"}


def test_a_changed_kernel_is_verified_at_small_sizes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails without its guard is not the answer, though at small sizes the original runs."""
    assert optimized(monkeypatch, right="if (n >= 4096)").status == "unchanged"


SHIFT = """__global__ void shift(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 3.0f + in[i];
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 4096;
  shift<<<16, 256>>>(nullptr, nullptr, n); scale<<<16, 256>>>(nullptr, nullptr, n); }
"""


def time_both(_: object, text: str) -> CandidateMeasurement:
    """Restricted pointers help either kernel twofold."""
    scale = measure(_, "").kernels[0]
    restricted = re.findall(r"(\w+?)(?:_tuned)?\([^)]*__restrict__", text)
    times = {name: 50.0 if name in restricted else 100.0 for name in ("scale", "shift")}
    kernels = tuple(replace(scale, name=name, duration_ns=ns) for name, ns in times.items())
    return CandidateMeasurement("ok", "", "", 0, kernels, 1.0)


def test_the_originals_of_all_changed_kernels_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)
    monkeypatch.setattr(Evaluator, "__call__", time_both)

    def draw(_: object, text: str, *__: object) -> tuple[ShapeSpeedup, ...]:
        return tuple(shapes((("512",), 1.0 if text.count("if (n >= 4096)") == 2 else 0.5)))

    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.time_drawn_shapes", draw)
    text = SCALE[: SCALE.index("int main")] + SHIFT
    answer = optimize_program(OptimizeRequest(text, TARGET, 60.0))
    assert answer.speedup == 2.0 and answer.holds
    assert answer.guards == dict.fromkeys(("scale", "shift"), SizeGuard("n", ">=", 4096))
