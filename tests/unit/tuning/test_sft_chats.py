"""Training samples from searches: what they say, that they fit chat templates, and that no lineage is in both parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_tuning import TEXT, measure, without_simulator

from hipsynth.core.program import Program
from hipsynth.tuning.agent import sft_data as collecting
from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.agent.sft_chats import (
    MOST_DETOURS,
    NotTeachable,
    dead_ends,
    make_chat_samples,
    split_of,
    steps_of,
    winning_steps,
)
from hipsynth.tuning.agent.sft_data import ProgramTarget, collect_chats, write_chats
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.tools import TOOLS, ToolSession
from hipsynth.tuning.trial import target_of

TARGET = target_of("gfx942")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


def test_a_success_is_told_with_the_tools() -> None:
    request = OptimizeRequest(TEXT, TARGET, 30.0)
    found = optimize_program(request)
    samples = make_chat_samples(request, found, "a", "synthetic")
    dead = dead_ends(found, winning_steps(found))
    assert [sample.kind for sample in samples] == ["direct"] + ["detour"] * len(dead) and 1 < len(dead) <= MOST_DETOURS
    steps = [list(steps_of(sample.messages)) for sample in samples]
    assert [len(one) for one in steps] == [len(sample.messages) // 2 - 1 for sample in samples]
    shared = set(steps[0]) & set(steps[1])  # before the chats go different ways
    assert steps[1][0] in shared and len(shared) < len(steps[0]) and not shared & set(steps[1][len(shared) :])
    for sample in samples:
        assert sample.speedup == pytest.approx(found.speedup, rel=1e-3) and sample.speedup >= 2
        roles = [message["role"] for message in sample.messages]
        assert roles[:2] == ["system", "user"] and roles[2::2] == ["assistant"] * (len(roles[2::2]))
        for asked, told in zip(sample.messages[2:-1:2], sample.messages[3::2], strict=True):
            [call] = asked["tool_calls"]
            assert told["role"] == "tool" and told["tool_call_id"] == call["id"] and asked["content"]
            function = call["function"]
            schema = TOOLS[function["name"]].schema
            assert set(schema["required"]) <= set(function["arguments"]) <= set(schema["properties"])
            assert "error" not in json.loads(told["content"])
        assert sample.messages[-1]["content"].startswith(DONE)
    direct, *detours = (json.dumps(sample.messages) for sample in samples)
    assert all("no gain. I go back to" in detour for detour in detours) and "no gain" not in direct
    assert len(set(detours)) == len(detours)


def test_chats_of_one_success_share_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(self: Evaluator, text: str) -> CandidateMeasurement:
        asked.append(text)
        return measure(self, text)

    request = OptimizeRequest(TEXT, TARGET, 30.0)
    found = optimize_program(request)
    monkeypatch.setattr(Evaluator, "__call__", counted)
    assert len(make_chat_samples(request, found, "a", "synthetic")) > 2
    assert len(asked) == len(set(asked)) > 2


def test_what_gained_nothing_is_no_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    request = OptimizeRequest(TEXT, TARGET, 1.0)
    monkeypatch.setattr("hipsynth.tuning.optimize.search.GAIN", 0.99)
    with pytest.raises(NotTeachable, match="unchanged"):
        make_chat_samples(request, optimize_program(request), "a", "synthetic")


def test_samples_are_made_once_and_parted_by_lineage(tmp_path: Path) -> None:
    names = [next(f"{n}" for n in range(1000) if split_of(f"{n}", "synthetic") == s) for s in ("train", "held_out")]
    texts = [TEXT, TEXT, TEXT + "// another\n"]
    lineages = [names[0], names[0], names[1]]
    made = [Program(t, "synthetic", "x", lineage=line) for t, line in zip(texts, lineages, strict=True)]
    items = [ProgramTarget(program, TARGET, 20.0) for program in made]
    said: list[str] = []
    report = collect_chats(items[:2], tmp_path, said.append)
    each = report.samples["train"]
    assert len(said) == 1 and report.samples == {"train": each, "held_out": 0} and each > 2
    assert each < report.steps["train"] < report.programs * 100 and report.steps["held_out"] == 0
    report = collect_chats(items, tmp_path, said.append)
    assert len(said) == 2 and report.samples == {"train": each, "held_out": each}
    rows = [[json.loads(line) for line in (tmp_path / f"{s}.jsonl").open()] for s in ("train", "held_out")]
    assert not {row["lineage"] for row in rows[0]} & {row["lineage"] for row in rows[1]}
    before = [(tmp_path / f"{s}.jsonl").read_bytes() for s in ("train", "held_out")]
    assert collect_chats(items, tmp_path, said.append) == report and len(said) == 2
    assert before == [(tmp_path / f"{s}.jsonl").read_bytes() for s in ("train", "held_out")]
    other = tmp_path / "other"
    other.mkdir()
    double = [{"samples": [{"digest": "d", **rows[0][0]}] * 2, "reason": ""}]
    assert write_chats(other, double).duplicates == 1


def test_what_gains_nothing_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, other = Program(TEXT, "synthetic", "x"), Program(TEXT + "// another\n", "synthetic", "x")
    targets = [target_of("gfx90a"), target_of("gfx942")]
    searches: list[str] = []
    whole = collecting.optimize_program
    monkeypatch.setattr(
        collecting, "optimize_program", lambda request: (searches.append(request.target.arch), whole(request))[1]
    )
    collect_chats([ProgramTarget(program, target, 20.0) for target in targets], tmp_path / "both")
    assert searches == ["gfx90a", "gfx942"]
    monkeypatch.setattr("hipsynth.tuning.optimize.search.GAIN", 0.99)
    report = collect_chats([ProgramTarget(other, target, 20.0) for target in targets], tmp_path / "first")
    assert searches == ["gfx90a", "gfx942", "gfx90a"]
    assert report.without == {"unchanged": 1, "not_on_first_target": 1}
    monkeypatch.setattr(ToolSession, "moves", lambda self, version: [])
    report = collect_chats([ProgramTarget(program, targets[0], 20.0)], tmp_path / "none")
    assert report.without == {"no_moves": 1} and len(searches) == 3


def test_handwritten_programs_are_held_out() -> None:
    assert {split_of(str(n), "handwritten") for n in range(50)} == {"held_out"}
    held = sum(split_of(str(n), "synthetic") == "held_out" for n in range(1000))
    assert 50 < held < 150


def test_a_program_that_fails_has_a_reason(tmp_path: Path) -> None:
    report = collect_chats([ProgramTarget(Program("int main() {}", "synthetic", "x"), TARGET, 5.0)], tmp_path)
    assert report.without == {"bad_input": 1} and report.samples == {"train": 0, "held_out": 0}
