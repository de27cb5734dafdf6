"""Training samples from searches: what they say, that they fit chat templates, and that no lineage is in both parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_tuning import TEXT, without_simulator

from hipsynth.synth.core.program import Program
from hipsynth.tuning.agent.collect import Item, collect, write
from hipsynth.tuning.agent.lessons import NoLesson, lessons, split_of
from hipsynth.tuning.agent.words import DONE
from hipsynth.tuning.optimize.optimize import Request, optimize
from hipsynth.tuning.tools import TOOLS
from hipsynth.tuning.trial import target_of

TARGET = target_of("gfx942")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


def test_a_success_is_told_with_the_tools() -> None:
    request = Request(TEXT, TARGET, 30.0)
    found = optimize(request)
    samples = lessons(request, found, "a", "synthetic")
    assert [sample.kind for sample in samples] == ["direct", "detour"]
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
    direct, detour = (json.dumps(sample.messages) for sample in samples)
    assert "no gain. I go back to" in detour and "no gain" not in direct


def test_what_gained_nothing_is_no_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request(TEXT, TARGET, 1.0)
    monkeypatch.setattr("hipsynth.tuning.optimize.search.GAIN", 0.99)
    with pytest.raises(NoLesson, match="unchanged"):
        lessons(request, optimize(request), "a", "synthetic")


def test_samples_are_made_once_and_parted_by_lineage(tmp_path: Path) -> None:
    names = [next(f"{n}" for n in range(1000) if split_of(f"{n}", "synthetic") == s) for s in ("train", "held_out")]
    texts = [TEXT, TEXT, TEXT + "// another\n"]
    lineages = [names[0], names[0], names[1]]
    made = [Program(t, "synthetic", "x", lineage=line) for t, line in zip(texts, lineages, strict=True)]
    items = [Item(program, TARGET, 20.0) for program in made]
    said: list[str] = []
    report = collect(items[:2], tmp_path, said.append)
    assert len(said) == 1 and report["samples"] == {"train": 2, "held_out": 0}
    report = collect(items, tmp_path, said.append)
    assert len(said) == 2 and report["samples"] == {"train": 2, "held_out": 2}
    rows = [[json.loads(line) for line in (tmp_path / f"{s}.jsonl").open()] for s in ("train", "held_out")]
    assert not {row["lineage"] for row in rows[0]} & {row["lineage"] for row in rows[1]}
    before = [(tmp_path / f"{s}.jsonl").read_bytes() for s in ("train", "held_out")]
    assert collect(items, tmp_path, said.append) == report and len(said) == 2
    assert before == [(tmp_path / f"{s}.jsonl").read_bytes() for s in ("train", "held_out")]
    other = tmp_path / "other"
    other.mkdir()
    double = [{"samples": [{"digest": "d", **rows[0][0]}] * 2, "reason": ""}]
    assert write(other, double)["duplicates"] == 1


def test_handwritten_programs_are_held_out() -> None:
    assert {split_of(str(n), "handwritten") for n in range(50)} == {"held_out"}
    held = sum(split_of(str(n), "synthetic") == "held_out" for n in range(1000))
    assert 50 < held < 150


def test_a_program_that_fails_has_a_reason(tmp_path: Path) -> None:
    report = collect([Item(Program("int main() {}", "synthetic", "x"), TARGET, 5.0)], tmp_path)
    assert report["without"] == {"bad_input": 1} and report["samples"] == {"train": 0, "held_out": 0}
