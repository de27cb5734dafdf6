"""The tables of docs/reference/optimize.md: means, shares and rows, of results as a folder keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json
from hipsynth.core.workers import ItemOutcome
from hipsynth.tuning.optimize.documents import (
    CheckedProgram,
    OptimizeDocument,
    SearchEnd,
    SearchStep,
    ShapeSpeedup,
    StepOutcome,
)
from studies import optimize_table
from studies.found_programs import NO_KERNEL_HERE, find_programs
from studies.optimize_table import (
    OptimizedProgram,
    OptimizeJob,
    collect_results,
    format_collection,
    format_row,
    format_tables,
    group_steps,
    open_results,
    read_results,
    summarise_results,
)

PASSED = CheckedProgram(
    outputs_equal=True, other_inputs=True, other_sizes=True, timed_size=True, precision=True, stale_memory=True,
    outside_kernels=True, races=True, repeated_launches=True, repeated_calls=None, moved_memory=True, waiting=None,
    checks=(),
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
    steps = group_steps()[problem]
    assert [step.number for step in steps] == sorted(step.number for step in steps) and steps[0].after == ""


KERNEL = "#include <hip/hip_runtime.h>\n__global__ void fill(int* x) { x[threadIdx.x] = SIDE; }\n"
HOST = "#include <hip/hip_runtime.h>\nint main() { return hipDeviceSynchronize(); }\n"


def test_programs_of_a_folder_have_their_headers_and_those_without_kernels_are_named(tmp_path: Path) -> None:
    for place, text in {
        "one/main.hip": '#include "sizes.hpp"\n' + KERNEL + "int main() { fill<<<1, 1>>>(nullptr); }\n",
        "one/copy.hip": '#include "sizes.hpp"\n' + KERNEL + "int main() { fill<<<1, 1>>>(nullptr); }\n",
        "one/Common/sizes.hpp": "#define SIDE 3\n",
        "two/src/add.hip": "#include <torch/extension.h>\n" + KERNEL,
        "two/src/add.cu": "#include <ATen/ATen.h>\n" + KERNEL,
        "two/src/add_ref.hip": KERNEL + "\n",
        "three/plain.cpp": "int main() {}\n",
        "four/library.hip": HOST,
    }.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    collection = find_programs(tmp_path)
    assert list(collection.programs) == ["one/copy", "two/add"], "each text once, and no reference or translated copy"
    assert collection.programs["one/copy"].includes == (str(tmp_path / "one" / "Common"),)
    assert collection.left_out == {NO_KERNEL_HERE: ("four/library",)}


def test_a_collection_counts_what_runs_and_states_shapes_not_seen(tmp_path: Path) -> None:
    (tmp_path / "scan.hip").write_text(HOST)
    collection = find_programs(tmp_path)
    seen_nowhere = ShapeSpeedup(("64",), "drawn", 4.0, 2.0, 2.0)
    faster = replace(make_result("gemm", 4.0, 1.0), collection=tmp_path.name)
    assert faster.answer is not None
    rows = [
        replace(faster, answer=replace(faster.answer, shapes=(seen_nowhere,))),
        replace(make_result("fft", 1.0, 1.0), collection=tmp_path.name),
        OptimizedProgram("io", "io", "gfx942", 30.0, 1.0, "", None, "fails:\nx", collection=tmp_path.name),
        make_result("other", 9.0, 1.0),
    ]
    text = format_collection(collection, rows)
    assert "1 of 2 programs are faster (50 %), in geometric mean 2.00 times; 1 of the 1 passed every check" in text
    assert "| `gemm` | 4.0 | 1.0 | 4.00 | 2.00 | budget | jam k, hints k |" in text
    assert "At 1 shapes that no search saw: 2.00 times" in text and "`other`" not in text
    assert f"- `io`: fails\n- {NO_KERNEL_HERE}: `scan`" in text
    assert "gemm" not in format_tables(rows[:1])


def test_a_program_whose_text_changed_is_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gemm.hip"
    searched: list[str] = []

    def search(folder: Path, job: OptimizeJob) -> OptimizedProgram:
        searched.append(program.read_text())
        return make_result("gemm", 4.0, 16.0)

    monkeypatch.setattr(optimize_table, "optimize_job", search)
    monkeypatch.setattr(optimize_table, "list_naive_steps", lambda: iter([("gemm", program)]))
    monkeypatch.setattr(
        optimize_table,
        "map_unordered",
        lambda function, jobs, workers: (ItemOutcome(index, function(job)) for index, job in enumerate(jobs)),
    )
    for text in ("first", "first", "second"):
        program.write_text(text)
        collect_results(tmp_path / "kept", [OptimizeJob("gemm", "gfx942", 30.0)], 1)
    assert searched == ["first", "second"]
    (result,) = read_results(tmp_path / "kept")
    assert result.origin.is_of("second") and not result.origin.is_of("first")
    assert format_tables([replace(result, origin=replace(result.origin, day="2026-11-30"))]).startswith(
        "\n30 November 2026.\n"
    )
    assert format_tables([make_result("gemm", 4.0, 16.0)]).startswith("\nDate not recorded.\n")
