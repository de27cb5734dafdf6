"""Training samples from paths of moves: what they say, what is learned, and that no lineage is in both parts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fake_tuning import TEXT, fake_program, without_simulator, write_traces

from hipsynth.core.program import Program
from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.agent.sft_chats import NotTeachable, is_mistake, make_chat_samples, propose_recorded, steps_of
from hipsynth.tuning.agent.sft_data import (
    MOVES_FILE,
    choose_copies,
    collect_chats,
    gaining_transformations,
    write_chats,
)
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.move_paths import ValuationJob, value_program
from hipsynth.tuning.optimize.move_values import ValuedProgram, read_jobs
from hipsynth.tuning.tools import TOOLS, ToolSession, run_tool
from hipsynth.tuning.trial import target_of

TARGET = target_of("gfx942")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


@pytest.fixture
def valued() -> ValuedProgram:
    return value_program(ValuationJob(fake_program(0, "train"), TARGET))


def test_a_path_takes_the_best_previewed_move_and_checks_its_end(valued: ValuedProgram) -> None:
    first, last = valued.states
    assert (first.depth, last.depth, first.split) == (0, 1, "train")
    best = max(range(len(first.moves)), key=lambda number: first.moves[number].gain or 0.0)
    assert first.next_move is first.executed[0] and first.executed[0].move == best
    assert last.kernels == first.executed[0].kernels and last.next_move is None
    assert first.checks == () and [check.name for check in last.checks] == ["outputs_equal"]
    assert all("+++ after" in row.diff for row in first.executed)


def test_a_path_is_told_with_the_tools(valued: ValuedProgram) -> None:
    direct, *detours = make_chat_samples(valued)
    assert direct.kind == "direct" and detours and {sample.kind for sample in detours} == {"detour"}
    assert direct.speedup == pytest.approx(1.5) and direct.split == "train"
    for sample in (direct, *detours):
        roles = [message["role"] for message in sample.messages]
        assert roles[:2] == ["system", "user"] and roles[2::2] == ["assistant"] * len(roles[2::2])
        for asked, told in zip(sample.messages[2:-1:2], sample.messages[3::2], strict=True):
            [call] = asked["tool_calls"]
            assert told["role"] == "tool" and told["tool_call_id"] == call["id"] and asked["content"]
            function = call["function"]
            schema = TOOLS[function["name"]].schema
            assert set(schema["required"]) <= set(function["arguments"]) <= set(schema["properties"])
        assert sample.messages[-1]["content"].endswith(f"{DONE}: v1")


def test_a_recorded_answer_is_the_tools_answer(valued: ValuedProgram) -> None:
    session = ToolSession(TARGET)
    session.add(valued.text, made="source")
    direct = make_chat_samples(valued)[0].messages
    for asked, told in zip(direct[2:-1:2], direct[3::2], strict=True):
        function = asked["tool_calls"][0]["function"]
        document = run_tool(session, function["name"], function["arguments"]).document
        assert json.loads(told["content"]) == json.loads(json.dumps(document)), function
    assert propose_recorded(valued.states[0], range(99)).moves[0].gain == 1.5


def test_copies_of_a_path_have_other_numbers_and_the_same_moves(valued: ValuedProgram) -> None:
    first, second = make_chat_samples(valued, 2)[:2]
    assert first.kind == second.kind == "direct" and first.digest != second.digest
    for chat in (first, second):
        listed = next(turn for turn in chat.messages if turn.get("name") == "propose")
        best = json.loads(listed["content"])["moves"][0]
        [applied] = [turn for turn in chat.messages if "promises most" in turn["content"]]
        assert applied["tool_calls"][0]["function"]["arguments"]["move"] == best["move"]
        assert applied["content"].startswith(f"{best['move']} {best['transformation']} ")
        assert best["gain"] == 1.5 and best["kernel"] == "scale"


def test_a_path_by_a_rare_transformation_is_told_more_often(valued: ValuedProgram) -> None:
    state, end = valued.states
    [name] = gaining_transformations(valued)
    rare_move = replace(state.moves[state.executed[0].move], transformation="atomics")
    moves = tuple(rare_move if move.transformation == name else move for move in state.moves)
    rare = replace(valued, states=(replace(state, moves=moves), end))
    count_copies = choose_copies([valued, valued, valued, rare])
    assert (count_copies(valued), count_copies(rare)) == (1, 3)
    held_out = replace(rare, states=(replace(rare.states[0], split="test"), end))
    assert count_copies(held_out) == 1


def test_mistakes_are_read_and_not_learned(valued: ValuedProgram) -> None:
    direct, *detours = make_chat_samples(valued)
    mistakes = sum(is_mistake(state, row) for state in valued.states for row in state.executed)
    assert 0 < len(detours) <= mistakes and all("weight" not in message for message in direct.messages)
    for sample in detours:
        [masked] = [message for message in sample.messages if message.get("weight") == 0]
        assert masked["tool_calls"][0]["function"]["name"] == "apply" and "promises" not in masked["content"]
        assert any("no gain. I go back to" in message["content"] for message in sample.messages)
    shared = set(steps_of(direct.messages)) & set(steps_of(detours[0].messages))
    assert shared and len(shared) < len(list(steps_of(direct.messages)))


def test_a_path_to_a_wrong_program_or_none_is_no_lesson(valued: ValuedProgram) -> None:
    wrong = replace(valued.states[1], checks=(VerificationCheck("outputs_equal", False, "a copy differs"),))
    with pytest.raises(NotTeachable, match="does not pass"):
        make_chat_samples(replace(valued, states=(valued.states[0], wrong)))
    with pytest.raises(NotTeachable, match="does not run"):
        make_chat_samples(replace(valued, states=()))


def test_a_mistake_that_gains_ends_the_chat_about_it(valued: ValuedProgram) -> None:
    state = valued.states[0]
    lucky = replace(state.executed[-1], kernels=tuple(replace(k, duration_ns=1.0) for k in state.kernels))
    chats = make_chat_samples(replace(valued, states=(replace(state, executed=(*state.executed[:1], lucky)),)))
    assert [chat.kind for chat in chats] == ["direct"]


def test_chats_are_parted_by_lineage_and_said_once(tmp_path: Path) -> None:
    write_traces(tmp_path / "traces", ["train", "test", "train"])
    rows = [
        [json.loads(line) for line in (tmp_path / "traces" / f"{part}.jsonl").open()] for part in ("train", "held_out")
    ]
    assert len({row["lineage"] for row in rows[0]}) == 2 and len({row["lineage"] for row in rows[1]}) == 1
    assert not {row["lineage"] for row in rows[0]} & {row["lineage"] for row in rows[1]}
    report = json.loads((tmp_path / "traces" / "report.json").read_text())
    assert report["samples"] == {"train": len(rows[0]), "held_out": len(rows[1])} and report["duplicates"] == 0
    assert report["programs"] == 3 and report["steps"]["train"] > report["samples"]["train"]
    file = tmp_path / "traces" / MOVES_FILE
    file.write_text(file.read_text() * 2)
    assert write_chats(tmp_path / "traces").duplicates == 0  # a job counts once
    lines = [json.loads(line) for line in file.read_text().splitlines()[:3]]
    file.write_text("".join(json.dumps(line | {"job": f"{n} {line['job']}"}) + "\n" for n in (1, 2) for line in lines))
    again = write_chats(tmp_path / "traces")
    assert again.duplicates == len(rows[0]) + len(rows[1]) and again.programs == 3  # on two targets


def test_handwritten_programs_are_held_out(tmp_path: Path) -> None:
    valued = value_program(ValuationJob(Program(TEXT, "handwritten", "x"), TARGET))
    assert {sample.split for sample in make_chat_samples(valued)} == {"held_out"} and valued.states[-1].checks == ()


def test_a_program_that_fails_has_a_reason(tmp_path: Path) -> None:
    jobs = [ValuationJob(Program("int main() {}", "synthetic", "x"), TARGET)]
    report = collect_chats(jobs, tmp_path, workers=1)
    assert report.without == {"no_kernel": 1} and report.samples == {"train": 0, "held_out": 0}
    assert [valued.states for valued in read_jobs(tmp_path / MOVES_FILE)] == [()]
