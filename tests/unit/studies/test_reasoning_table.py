"""The table of models that optimize with tools: what counts as improved and as wrong, and that calls go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
from fake_chats import Says, call
from fake_tuning import TEXT, without_simulator, write_traces

from hipsynth.core.documents import document_json
from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.reason.move_policies import PreviewedMoves, RandomMoves
from hipsynth.tuning.trial import target_of
from studies import reasoning_table
from studies.reasoning_table import (
    ONE_SHOT,
    SEARCH,
    OptimizeQuestion,
    ReasoningAnswer,
    compute_path_gain,
    format_contender,
    list_questions,
    make_tables,
    parse_options,
    rewrite_once,
    run_search,
    run_with_tools,
)

needs.installed("torch")

FASTER = TEXT.replace("const float* in, float* out", "const float* __restrict__ in, float* out")
WRONG = TEXT.replace("2.0f", "/* wrong */ 1.0f")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_simulator(monkeypatch)
    monkeypatch.setattr(reasoning_table, "ANSWERS_PATH", tmp_path / "kept.jsonl")
    monkeypatch.setattr(reasoning_table, "JOURNAL", None)


def question() -> OptimizeQuestion:
    return OptimizeQuestion("handwritten", "scale", TEXT, target_of("gfx942"))


def test_answers_say_what_was_verified() -> None:
    gained = run_with_tools(Says(call("compile", source=FASTER, replaces="v0"), DONE), question())
    assert gained == ReasoningAnswer(2.0, 2, 1, "finished")
    wrong = run_with_tools(Says(call("compile", source=WRONG, replaces="v0"), f"{DONE} 10 times"), question())
    assert (wrong.speedup, wrong.executions, wrong.wrong) == (1.0, 2, True)
    assert run_with_tools(Says("I cannot"), question()) == ReasoningAnswer(1.0, 1, 0, "nonsense")
    searched = run_search(question())
    assert searched.speedup == 3.0 and searched.executions > 3


def test_one_answer_without_tools_is_verified_too() -> None:
    model = Says(f"```cpp\n{FASTER}```")
    assert rewrite_once(model, question()) == ReasoningAnswer(2.0, 2, 0, "finished")
    assert ONE_SHOT in model.asked[0]["messages"][0]["content"] and "tools" not in model.asked[0]
    wrong = rewrite_once(Says(f"```cpp\n{WRONG}```"), question())
    assert (wrong.speedup, wrong.wrong) == (1.0, True)
    assert rewrite_once(Says("It is fast already."), question()).ended == "no changed kernel"


def test_contenders_share_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()
    first = run_with_tools(PreviewedMoves(), asked)
    monkeypatch.setattr("hipsynth.tuning.optimize.evaluate.Evaluator.__call__", None)  # nothing is measured again
    assert run_with_tools(PreviewedMoves(), asked) == first and first.speedup == 1.5


def test_a_policy_without_calls_answers_the_original() -> None:
    assert run_with_tools(RandomMoves(), question(), calls=0) == ReasoningAnswer(1.0, 1, 0, "calls")
    assert run_with_tools(RandomMoves(), question(), calls=3).calls == 3


def test_a_row_counts_what_was_not_improved_as_one() -> None:
    answers = [ReasoningAnswer(4.0, 3, 6, "finished"), ReasoningAnswer(1.0, 1, 2, "calls", wrong=True)]
    search = [ReasoningAnswer(4.0, 10, 0, "finished"), ReasoningAnswer(4.0, 10, 0, "finished")]
    assert format_contender("a", answers, search) == [
        "a", "1 of 2", "2.000", "50", "2.0", "4.0", "1 of 2", "1 of 2"
    ]  # fmt: skip


def test_tables_have_the_programs_that_all_worked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ReasoningAnswer(2.0, 3, 6, "finished")
    both = {SEARCH: answer, "a": replace(answer, speedup=4.0)}
    assert not make_tables({("handwritten", "p gfx942"): both}, list(both)), "too few"
    monkeypatch.setattr(reasoning_table, "LEAST_QUESTIONS", 1)
    answers = {("handwritten", "p gfx942"): both, ("handwritten", "q gfx942"): {SEARCH: answer}}
    ((group, text),) = make_tables(answers, list(both)).items()
    assert group == "handwritten"
    assert text.startswith("\nDate not recorded. **Naive")
    assert "1 kernels and architectures" in text and "| a | 1 of 1 | 4.000 | 200 |" in text


def test_a_second_call_goes_on_and_the_control_gets_the_models_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scale.hip"
    program.write_text(TEXT)
    asked: list[tuple[str, int]] = []

    def answering(name: str) -> tuple[str, reasoning_table.AnswerFunction]:
        def answer(given: OptimizeQuestion) -> ReasoningAnswer:
            asked.append((name, given.calls))
            return ReasoningAnswer(1.5, 2, 3, "finished")

        return "model", answer

    monkeypatch.setattr(reasoning_table, "list_naive_steps", lambda: iter([("scale", program)]))
    rows = {name: answering(name) for name in (SEARCH, reasoning_table.TRAINED, reasoning_table.RANDOM)}
    monkeypatch.setattr(reasoning_table, "list_contenders", lambda options: rows)
    for _ in range(2):
        reasoning_table.main(["--trained", "model", "--arch", "gfx942"])
        assert [calls for _, calls in asked] == [reasoning_table.CALLS, reasoning_table.CALLS, 3]
    reasoning_table.main(["--trained", "model", "--arch", "gfx90a", "--as-is"])
    assert len(asked) == 3


def test_a_kernel_whose_text_changed_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [TEXT, TEXT, FASTER]
    asked: list[str] = []

    def answer(given: OptimizeQuestion) -> ReasoningAnswer:
        asked.append(given.text)
        return ReasoningAnswer(1.5, 2, 3, "finished")

    for text in texts:
        changed = replace(question(), text=text)
        monkeypatch.setattr(reasoning_table, "list_questions", lambda options, changed=changed: iter([changed]))
        answers = reasoning_table.answer_questions(parse_options([]), {SEARCH: ("model", answer)})
    assert asked == [TEXT, FASTER]
    (kept,) = answers["handwritten", "scale gfx942"].values()
    assert kept.origin.is_of(FASTER) and not kept.origin.is_of(TEXT) and kept.origin.day and kept.origin.tools


def test_without_a_model_the_control_gets_the_calls_of_the_best_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_table, "list_questions", lambda options: iter([question()]))
    options = parse_options([])
    rows = reasoning_table.list_contenders(options)
    [answers] = reasoning_table.answer_questions(options, rows).values()
    assert list(answers) == [SEARCH, reasoning_table.PREVIEWS, reasoning_table.ORDER, reasoning_table.RANDOM]
    assert answers[reasoning_table.RANDOM].calls == answers[reasoning_table.PREVIEWS].calls < reasoning_table.CALLS


def test_a_group_is_asked_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "scale.hip"
    program.write_text(TEXT)
    monkeypatch.setattr(reasoning_table, "list_naive_steps", lambda: iter([("scale", program)]))
    traces = str(tmp_path / "traces")
    write_traces(tmp_path / "traces", ["test"])
    for group in reasoning_table.GROUPS:
        options = parse_options(["--traces", traces, "--group", group])
        assert {row.group for row in list_questions(options)} == {group}


def test_held_out_programs_with_something_to_gain_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_table, "list_naive_steps", lambda: iter(()))
    paths = write_traces(tmp_path / "traces", ["train", "test"])
    assert compute_path_gain(paths[1]) == pytest.approx(1.5)
    options = parse_options(["--trained", "m", "--traces", str(tmp_path / "traces")])
    assert [(row.group, row.text, row.target.arch) for row in list_questions(options)] == [
        ("lineages", paths[1].text, "gfx942")
    ]
    assert document_json(ReasoningAnswer(1.0, 1, 0, "calls"))["wrong"] is False
