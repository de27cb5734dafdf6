"""The tables of docs/reference/optimize.md: means, shares and rows, of results as a folder keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json
from hipsynth.tuning.optimize.documents import (
    CheckedProgram,
    OptimizeDocument,
    SearchEnd,
    SearchStep,
    StepOutcome,
)
from studies.optimize_table import (
    OptimizedProgram,
    format_row,
    format_tables,
    open_results,
    read_results,
    steps_by_problem,
    summarise_results,
)

PASSED = CheckedProgram(
    outputs_equal=True, other_inputs=True, other_sizes=True, timed_size=True, precision=True, stale_memory=True,
    outside_kernels=True, races=True, repeated_launches=True, repeated_calls=None, moved_memory=True, checks=(),
)  # fmt: skip


def make_step(number: int, parent: int, transformation: str) -> SearchStep:
    return SearchStep(number, parent, transformation, "k", {}, 4.0, 1.0, True, "", StepOutcome.KEPT)


def make_result(problem: str, speedup: float, by_hand: float, *, holds: bool = True) -> OptimizedProgram:
    answer = OptimizeDocument(
        path=f"{problem}.hip", arch="gfx942", flags="-O3", status="improved" if speedup > 1 else "unchanged",
        reason="nothing is faster.", speedup=speedup, uncertainty=0.0, before_ns=4000.0, after_ns=4000.0 / speedup,
        verified=PASSED, step=2, steps=(make_step(0, -1, "jam"), make_step(1, -1, "unroll"), make_step(2, 0, "hints")),
        refused={}, budget_spent_s=30.0, ended=SearchEnd.BUDGET, holds=holds, shapes=(), dispatch={}, patched=None,
    )  # fmt: skip
    return OptimizedProgram(problem, f"{problem}_naive", "gfx942", 30.0, by_hand, f"{problem}_best", answer)


def test_a_row_has_the_steps_that_led_to_the_answer() -> None:
    row = format_row(make_result("gemm", 4.0, 16.0))
    assert row == ["gemm", "`gemm_naive`", "4.0", "1.0", "4.00", "16.00 `gemm_best`", "", "jam k, hints k"]
    assert format_row(make_result("gemm", 4.0, 16.0, holds=False))[4] == "4.00 (not at all sizes)"
    assert format_row(make_result("fft", 1.0, 1.0))[4:] == ["1.00", "1.00", "", "nothing is faster"]
    assert format_row(replace(make_result("gemm", 4.0, 16.0), in_halves=32.0))[6] == "32.00"


def test_a_gain_beyond_the_version_by_hand_makes_up_for_nothing() -> None:
    text = summarise_results([make_result("a", 4.0, 2.0), make_result("b", 1.0, 2.0)])
    assert "1 of 2 programs are faster, in geometric mean 2.00 times" in text
    assert (
        "by hand 2.00 times" in text and "50 % of that log-gain" in text and "2 times at the end of its budget" in text
    )


def test_results_are_kept_and_a_refusal_counts_as_no_gain(tmp_path: Path) -> None:
    refused = OptimizedProgram("scan", "scan_naive", "gfx942", 30.0, 3.0, "scan_best", None, "it does not run: exit 1")
    for result in (make_result("gemm", 4.0, 16.0), refused):
        open_results(tmp_path).add(result.problem, document_json(result))
    kept = read_results(tmp_path)
    assert kept == [make_result("gemm", 4.0, 16.0), refused] and refused.speedup == 1.0
    text = format_tables(kept)
    assert "## gfx942" in text and "## gfx90a" not in text and "it does not run: exit 1" in text


@pytest.mark.parametrize("problem", ["gemm", "histogram", "softmax"])
def test_problems_begin_with_their_naive_step(problem: str) -> None:
    steps = steps_by_problem()[problem]
    assert [step.number for step in steps] == sorted(step.number for step in steps) and steps[0].after == ""
