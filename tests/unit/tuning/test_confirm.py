"""Which of the kept programs is the fastest, at which shapes, and what ended a search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_tuning import TEXT, parsed, without_simulator

from hipsynth.cli.optimize import print_answer
from hipsynth.core.kernel_record import KernelRecord, Sampling, Work
from hipsynth.source.own_headers import write_in_headers
from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.confirm import (
    CHECKED,
    DRAWN,
    TIMED,
    ConfirmedTimings,
    draw_shapes,
    join_shapes,
    list_losses,
)
from hipsynth.tuning.optimize.document_text import describe_speedup, optimization_text
from hipsynth.tuning.optimize.documents import SearchEnd, ShapeSpeedup, VerificationCheck
from hipsynth.tuning.optimize.evaluate import (
    COMPILE_S,
    CandidateMeasurement,
    KernelTime,
    measurement_of_trial,
)
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.optimize.scripts.optimize_script import ScriptSearch, ScriptState
from hipsynth.tuning.optimize.search import Search
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.trial import Trial, target_of
from hipsynth.tuning.trial.prices import INSTRUCTION_S, REUSED_SHARE, exact_price_s
from hipsynth.tuning.trial.search_clock import Clock


def timed(ns: float, error: float, exact_s: float = 1.0) -> CandidateMeasurement:
    kernel = KernelTime("k", ns, 1, "latency", "", (1, 1, 1), (64, 1, 1), True, error=error)
    return CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0, exact_s)


def timings(precise: dict[str, CandidateMeasurement], exact: dict[str, CandidateMeasurement]) -> ConfirmedTimings:
    made = ConfirmedTimings(target_of("gfx942"), (), None, Clock())
    made.precise, made.exact = precise.__getitem__, exact.__getitem__
    return made


def passing(passed: bool) -> Verification:
    return Verification((VerificationCheck("outputs_equal", passed),))


def test_states_that_may_be_the_fastest_are_timed_again() -> None:
    """The first one seems faster, but by less than is uncertain; the third cannot be the fastest."""
    states = [SearchState({}, name, timed(*row)) for name, row in
              {"one": (100.0, 0.3), "two": (110.0, 0.2), "three": (400.0, 0.1)}.items()]  # fmt: skip
    ranked = timings({"one": timed(120.0, 0.01), "two": timed(90.0, 0.01)}, {}).rank_states(states)
    assert [state.text for state in ranked] == ["two", "one", "three"] and ranked[0].found.duration_ns == 90.0
    sure = [replace(state, found=timed(state.found.duration_ns, 0.0)) for state in states]
    assert timings({}, {}).rank_states(sure) == sure


def test_a_gain_that_sampling_leaves_open_is_timed_in_full_where_that_is_cheap() -> None:
    first, state = timed(500.0, 1.25), SearchState({}, "new", timed(100.0, 0.1))
    unsure = {"old": timed(510.0, 0.9), "new": timed(100.0, 0.1)}
    sure = {"old": timed(505.0, 0.0), "new": timed(101.0, 0.0)}
    assert timings(unsure, sure).confirm_pair("old", first, state) == (sure["old"], sure["new"])
    dear = {name: replace(row, exact_s=100.0) for name, row in unsure.items()}
    assert timings(dear, sure).confirm_pair("old", first, state) == (dear["old"], dear["new"])
    settled = SearchState({}, "new", timed(100.0, 0.01))
    assert timings({}, {}).confirm_pair("old", timed(500.0, 0.01), settled)[0].duration_ns == 500.0


@pytest.mark.parametrize(
    ("sampling", "launches"),
    [
        (Sampling("exact", groups_simulated=800), 100),
        (Sampling("exact", groups_simulated=800, reused=98), 2 + 98 * REUSED_SHARE),
        (Sampling("sampled", groups_simulated=200, reused=98), 2 / 4),
    ],
)
def test_launches_that_repeat_an_earlier_one_are_not_charged_as_executed(sampling: Sampling, launches: float) -> None:
    """As in a program that times its kernel a hundred times."""
    work = Work(groups=8, valu_full=1e6)
    kernel = KernelRecord("k", 100, (8, 1, 1), (64, 1, 1), 1e3, {}, work=work, sampling=sampling)
    price = measurement_of_trial(Trial("ok", exit_code=0, kernels=(kernel,))).price
    assert price == pytest.approx(COMPILE_S + launches * 1e6 * INSTRUCTION_S)


@pytest.mark.parametrize("kind", ["valu_packed", "valu_trans", "valu_f64", "smem", "flow"])
def test_an_exact_run_is_charged_for_instructions_of_every_kind(kind: str) -> None:
    work = Work(groups=8, salu=1e6, **{kind: 3e6})
    kernel = KernelRecord("k", 10, (8, 1, 1), (64, 1, 1), 1e3, {}, work=work)
    assert exact_price_s(kernel) == pytest.approx(10 * 4e6 * INSTRUCTION_S)


def test_drawn_shapes_are_longer_along_one_axis_and_shorter_along_another() -> None:
    sizes = {"m": 4096, "n": 1024, "k": 9}
    text = ", ".join(f"{name} = argc > {at} ? atoi(argv[{at}]) : {size}" for at, (name, size) in
                     enumerate(sizes.items(), 1))  # fmt: skip
    assert draw_shapes(text, ()) == [("512", "8192", "9"), ("32768", "128", "9")]
    assert draw_shapes(text, ("100", "2048")) == [("100", "256")]
    assert draw_shapes("int main() {}", ()) == []


@pytest.mark.parametrize(("losing", "holds"), [(("__restrict__", "at_x < 4; "), True), (("",), False)])
def test_a_gain_that_is_lost_at_another_shape_is_not_the_answer_if_another_holds(
    monkeypatch: pytest.MonkeyPatch, losing: tuple[str, ...], holds: bool
) -> None:
    without_simulator(monkeypatch)

    def shapes(_: object, text: str, *__: object) -> tuple[ShapeSpeedup, ...]:
        return (ShapeSpeedup(("8",), DRAWN, 1.0, 1.0, 0.5 if all(mark in text for mark in losing) else 1.2),)

    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.time_drawn_shapes", shapes)
    answer = optimize_program(OptimizeRequest(TEXT, target_of("gfx942"), 30.0))
    assert answer.status == "improved" and answer.holds is holds
    assert all(mark in answer.text for mark in losing) is not holds and (answer.speedup < 3.0) is holds
    assert bool(answer.reason) is not holds


def test_checked_shapes_count_that_have_about_as_much_work() -> None:
    first = ShapeSpeedup((), TIMED, 800.0, 400.0, 2.0)
    large, small = (ShapeSpeedup((str(ns),), CHECKED, ns, 2 * ns, 0.5) for ns in (100.0, 99.0))
    drawn = ShapeSpeedup(("99.0",), DRAWN, 90.0, 45.0, 2.0)
    assert list_losses((first, large, small, drawn)) == (large,)
    assert join_shapes((first, large, small), (drawn,)) == (first, large, drawn), "each shape once"


def test_the_summary_says_beside_the_speed_up_where_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)
    answer = optimize_program(OptimizeRequest(TEXT, target_of("gfx942"), 30.0))
    shapes = (ShapeSpeedup((), TIMED, 8.0, 4.0, 2.0), ShapeSpeedup(("64", "9"), CHECKED, 4.0, 10.0, 0.4))
    answer = replace(answer, shapes=shapes, refused={"k": "it uses __shared__"})
    first, *lines = optimization_text(answer.document(Path("a.hip"), "gfx942", "-O3", None)).splitlines()
    assert first == "kernel k: no rewriting by work-item, because it uses __shared__"
    (line,) = (line for line in lines if " us -> " in line)
    assert line.endswith("times as fast, but 2.50 times slower at 64 9: keep the original for such sizes")


def test_the_printed_diff_is_of_the_files_as_they_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without_simulator(monkeypatch)
    path, patched = tmp_path / "a.hip", tmp_path / "b.hip"
    (tmp_path / "k.h").write_text("#define N 1\n")
    path.write_text('#include "k.h"\nint main() {}\n')
    whole = write_in_headers(path.read_text(), tmp_path)
    answer = optimize_program(OptimizeRequest(TEXT, target_of("gfx942"), 30.0))
    answer = replace(answer, text=whole.replace("main() {}", "main() { return 0; }"))
    print_answer(answer, path, ("gfx942", "-O3"), patched, as_json=False)
    difference = f'--- {path}\n+++ {patched}\n@@ -1,2 +1,2 @@\n #include "k.h"\n-int main() {{}}\n+int main() {{ return'
    assert difference in capsys.readouterr().out


@pytest.mark.parametrize(
    ("speedup", "text"),
    [
        (2.0, "2.00 times as fast"),
        (0.996, "1.00 times as fast"),
        (0.8, "1.25 times slower"),
        (1 / 43, "43.0 times slower"),
        (1 / 430, "430 times slower"),
        (1 / 1234, "1234 times slower"),
        (0.0, "over 10000 times slower"),
    ],
)
def test_slower_programs_are_called_so(speedup: float, text: str) -> None:
    assert describe_speedup(speedup) == text


@pytest.mark.parametrize(("late", "reason"), [(False, "fails a check: races: two"), (True, "the clock ended before")])
def test_a_faster_program_that_was_not_verified_is_no_program_that_was_not_found(
    monkeypatch: pytest.MonkeyPatch, late: bool, reason: str
) -> None:
    without_simulator(monkeypatch)
    failed = Verification((VerificationCheck("races", False, "two work-items write one element"),))
    monkeypatch.setattr("hipsynth.tuning.optimize.optimize._verify_state", lambda *_: failed)
    monkeypatch.setattr(Clock, "late", late)
    answer = optimize_program(OptimizeRequest(TEXT, target_of("gfx942"), 30.0))
    assert answer.status == "unchanged" and answer.text == TEXT and any(step.kept for step in answer.steps)
    assert reason in answer.reason and answer.late == late


@pytest.mark.parametrize(("late", "verified"), [(False, ["one", "two", "three"]), (True, ["one"])])
def test_the_clock_ends_the_verification_of_scripts(late: bool, verified: list[str]) -> None:
    checked: list[str] = []
    fake: Any = SimpleNamespace(full=lambda text: checked.append(text) or passing(text == "three"), late=late)
    search = ScriptSearch(fake, fake, fake, fake, fake, lambda line: None)
    states = [ScriptState(text, timed(1.0, 0.0)) for text in ("one", "two", "three", "four")]
    best, verification = search.verify_gains(ScriptState("", timed(2.0, 0.0)), states)
    assert checked == verified and verification == passing(not late)
    assert best == (None if late else states[2])


def test_a_script_is_faster_by_more_than_sampling_leaves_open() -> None:
    fake: Any = SimpleNamespace(full=lambda text: passing(True), late=False)
    search = ScriptSearch(fake, fake, fake, fake, fake, lambda line: None)
    states = [ScriptState("unsure", timed(100.0, 0.2)), ScriptState("sure", timed(101.0, 0.05))]
    assert search.verify_gains(ScriptState("", timed(110.0, 0.0)), states)[0] == states[1]


@pytest.mark.parametrize(
    ("spent", "seconds", "end"),
    [(0.0, 0.0, SearchEnd.NOTHING_LEFT), (60.0, 5.0, SearchEnd.BUDGET), (10.0, 90.0, SearchEnd.CLOCK)],
)
def test_what_ended_a_search_is_named(spent: float, seconds: float, end: SearchEnd) -> None:
    now = [0.0]
    clock = Clock(60.0, now=lambda: now[0])
    search = Search(
        parsed(TEXT, "gfx942"), lambda text: timed(1.0, 0.0), lambda text: None, lambda text: None, 60.0, clock=clock
    )
    search.spent_s, now[0] = spent, seconds
    assert search._find_end() == end
