"""Policies that take moves in the form in which a model takes them. No simulator."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_tuning import TEXT, without_simulator

from hipsynth.tuning.agent.agent_loop import AgentResult
from hipsynth.tuning.reason.grpo import run_model
from hipsynth.tuning.reason.move_policies import (
    LearnedMoves,
    ListedMove,
    MovePolicy,
    PreviewedMoves,
    RandomMoves,
    read_proposals,
)
from hipsynth.tuning.trial import target_of

TARGET = target_of("gfx942")
Said = list[dict[str, Any]]


def told(name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": name, "tool_call_id": "call_0", "content": content}


def asked(model: MovePolicy, messages: Said) -> tuple[str, dict[str, Any]]:
    """The call that follows, added to the messages."""
    one = model.ask({"messages": messages}).calls[0]
    messages.append({"role": "assistant", "content": "", "tool_calls": [one]})
    return one.name, json.loads(one.arguments)


def opened(text: str = "a program") -> Said:
    return [{"role": "system", "content": ""}, {"role": "user", "content": text}]


def listed(model: RandomMoves, moves: int, text: str = "a program") -> tuple[Said, list[int]]:
    """The moves that are drawn from a list if none makes the program faster, in order."""
    said, drawn = opened(text), []
    assert asked(model, said) == ("profile", {"program": "v0"})
    said.append(told("profile", "{}"))
    assert asked(model, said) == ("propose", {"program": "v0", "preview": 0})
    said.append(told("propose", json.dumps({"moves": [{"move": n, "plan": {}} for n in range(moves)]})))
    for number in range(moves):
        name, arguments = asked(model, said)
        assert (name, arguments["program"]) == ("apply", "v0")
        drawn.append(arguments["move"])
        said.append(told("apply", json.dumps({"program": f"v{number + 1}"})))
        assert asked(model, said) == ("compare", {"before": "v0", "after": f"v{number + 1}"})
        said.append(told("compare", json.dumps({"speedup": 0.9, "changed": {}})))
    return said, drawn


def test_each_move_is_drawn_once_and_then_the_run_ends() -> None:
    model = RandomMoves()
    said, drawn = listed(model, 8)
    assert sorted(drawn) == list(range(8)) != drawn
    answer = model.ask({"messages": said})
    assert (answer.calls, answer.text) == ((), "DONE: v0")
    model.clear()
    assert listed(model, 8)[1] == drawn, "the same program, the same draws"
    others = [listed(RandomMoves(seed), 8)[1] for seed in (1, 2, 3)]
    assert drawn not in others


def test_it_goes_on_from_a_faster_program_and_not_from_one_that_fails() -> None:
    model = RandomMoves()
    said, _ = listed(model, 0)
    said.append(told("propose", '{"moves": [{"move": 0, "plan": {"a": 1}}, {"move": 1, "pl [cut]'))
    assert asked(model, said)[0] == "apply"
    said.append(told("apply", '{"error": "does not compile"}'))
    assert asked(model, said)[0] == "apply", "the other move"
    said.append(told("apply", '{"program": "v1", "diff": ""}'))
    assert asked(model, said) == ("compare", {"before": "v0", "after": "v1"})
    said.append(told("compare", '{"speedup": 1.2, "changed": {"k": [cut]'))
    assert asked(model, said) == ("propose", {"program": "v1", "preview": 0})


def test_a_run_of_it_is_verified_like_a_models(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)
    model = RandomMoves()
    run, ended = run_model(model, TEXT, TARGET, calls=40)
    assert run is not None and ended == "finished"
    assert run.found.speedup > 1.0 and run.found.status == "improved" and run.failed_calls == 0
    model.clear()
    short, ended = run_model(model, TEXT, TARGET, calls=2)
    assert short is not None and (short.calls, short.found.speedup, ended) == (2, 1.0, "calls")


def run_with_fakes(model: MovePolicy, calls: int = 40) -> tuple[AgentResult, str]:
    with pytest.MonkeyPatch.context() as patch:
        without_simulator(patch)
        run, ended = run_model(model, TEXT, TARGET, calls=calls)
    assert run is not None
    return run, ended


def test_the_best_preview_is_taken_until_none_gains() -> None:
    model, rows = PreviewedMoves(), [ListedMove(3, 0.9), ListedMove(1, None), ListedMove(2, 1.4)]
    assert model.choose(rows) == rows[2] and model.choose(rows[:2]) is None
    run, ended = run_with_fakes(model)
    assert ended == "finished" and run.found.speedup == 1.5 and run.calls == 5


def test_the_learned_order_is_taken_without_previews() -> None:
    rows = [ListedMove(3, None), ListedMove(1, None)]
    assert LearnedMoves().choose(rows) == rows[0]
    run, _ = run_with_fakes(LearnedMoves(), calls=8)
    assert run.calls == 8 and run.found.speedup > 1


def test_a_cut_list_has_its_whole_moves() -> None:
    text = '{"moves": [{"move": 4, "plan": {"a": [1]}, "gain": 1.5}, {"move": 0, "gain": null}, {"move": 7, "pl [cut]'
    assert read_proposals(text) == [ListedMove(4, 1.5), ListedMove(0, None), ListedMove(7, None)]
