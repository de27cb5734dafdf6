"""The table of models that optimize with tools: what counts as improved, handed in and correct. No simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import needs
import pytest
from fake_chats import Says, call
from fake_tuning import TEXT, without_simulator

from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.trial import target_of
from studies import reasoning_table
from studies.reasoning_table import ONE_SHOT, by_chance, groups, searched, table, with_tools, without_tools

needs.package("torch")

TARGET = target_of("gfx942")
FASTER = TEXT.replace("const float* in, float* out", "const float* __restrict__ in, float* out")
WRONG = TEXT.replace("2.0f", "/* wrong */ 1.0f")


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    without_simulator(monkeypatch)


def test_a_models_rows_say_what_was_verified() -> None:
    gained = with_tools(Says(call("compile", source=FASTER, replaces="v0"), DONE), TEXT, TARGET)
    assert gained == {"speedup": 2.0, "calls": 1, "ended": "finished", "made": True, "wrong": False}
    wrong = with_tools(Says(call("compile", source=WRONG, replaces="v0"), f"{DONE} 10 times"), TEXT, TARGET)
    assert (wrong["speedup"], wrong["made"], wrong["wrong"]) == (1.0, True, True)
    silent = with_tools(Says("I cannot"), TEXT, TARGET)
    assert silent == {"speedup": 1.0, "calls": 0, "ended": "nonsense", "made": False, "wrong": False}
    assert searched(TEXT, TARGET) == {"speedup": 3.0, "calls": 0, "ended": "finished", "made": True, "wrong": False}


def test_one_answer_without_tools_is_verified_too() -> None:
    model = Says(f"```cpp\n{FASTER}```")
    assert without_tools(model, TEXT, TARGET) | {"calls": 0} == {
        "speedup": 2.0, "calls": 0, "ended": "finished", "made": True, "wrong": False
    }  # fmt: skip
    assert ONE_SHOT in model.asked[0]["messages"][0]["content"] and "tools" not in model.asked[0]
    wrong = without_tools(Says(f"```cpp\n{WRONG}```"), TEXT, TARGET)
    assert (wrong["speedup"], wrong["made"], wrong["wrong"]) == (1.0, True, True)
    assert without_tools(Says("It is fast already."), TEXT, TARGET)["ended"] == "no changed kernel"


def test_the_control_makes_as_many_calls_as_the_model() -> None:
    gained = by_chance({TEXT: 40}, TEXT, TARGET)
    assert gained["made"] and gained["speedup"] > 1.0 and not gained["wrong"]
    assert 4 <= gained["calls"] <= 40
    short = by_chance({TEXT: 2}, TEXT, TARGET)
    assert short == {"speedup": 1.0, "calls": 2, "ended": "calls", "made": False, "wrong": False}
    assert by_chance({}, TEXT, TARGET)["calls"] == 0
    assert by_chance(2, TEXT, TARGET) == short


def test_a_table_counts_what_was_not_improved_as_one() -> None:
    rows = [
        {"speedup": 4.0, "calls": 6, "ended": "finished", "made": True, "wrong": False},
        {"speedup": 1.0, "calls": 2, "ended": "calls", "made": True, "wrong": True},
    ]
    assert "| a model | 1 of 2 | 2.000 | 2 of 2 | 1 of 2 | 4.0 | 1 of 2 |" in table({"a model": rows})


def test_a_second_call_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "scale.hip"
    program.write_text(TEXT)
    asked: list[str] = []

    def answer(text: str, _: object) -> dict[str, Any]:
        asked.append(text)
        return {"speedup": 1.5, "calls": 3, "ended": "finished", "made": True, "wrong": False}

    monkeypatch.setattr(reasoning_table, "naive", lambda: iter([("scale", program)]))
    monkeypatch.setattr(reasoning_table, "rows_of", lambda given, calls: {"a": ("one", answer), "b": ("two", answer)})
    monkeypatch.setattr(reasoning_table, "KEPT", tmp_path / "kept.jsonl")
    monkeypatch.setattr(reasoning_table, "PAGE", tmp_path / "page.md")
    for _ in range(2):
        reasoning_table.main(["--trained", "model"])
        assert asked == [TEXT, TEXT]
    assert "| b | 1 of 1 | 1.500 |" in (tmp_path / "page.md").read_text()


def test_rows_of_a_page_have_the_same_kernels() -> None:
    row = {"speedup": 1.5, "calls": 3, "ended": "finished", "made": True, "wrong": False}
    programs = [("handwritten", "p", ""), ("handwritten", "q", ""), ("lineages", "r", "")]
    found = {("a", "p"): row, ("a", "q"): row, ("b", "q"): row}
    (text,) = groups(found, programs)
    assert "Kernels: `q`." in text and "Of the 2 that were chosen, 1 are left out" in text
    assert "| a | 1 of 1 |" in text and "| b | 1 of 1 |" in text
    assert groups({("a", "p"): row, ("b", "q"): row}, programs) == []


def test_as_is_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "scale.hip"
    program.write_text(TEXT)
    monkeypatch.setattr(reasoning_table, "naive", lambda: iter([("scale", program)]))
    monkeypatch.setattr(reasoning_table, "rows_of", lambda given, calls: {"a": ("one", None)})
    monkeypatch.setattr(reasoning_table, "KEPT", tmp_path / "kept.jsonl")
    monkeypatch.setattr(reasoning_table, "PAGE", tmp_path / "page.md")
    reasoning_table.main(["--trained", "model", "--as-is"])
    assert "| a |" not in (tmp_path / "page.md").read_text()
    kept = {"row": "a", "model": "one", "program": "scale", "arch": "gfx942", "speedup": 1.5, "calls": 3}
    (tmp_path / "kept.jsonl").write_text(json.dumps(kept | {"ended": "finished", "made": True, "wrong": False}) + "\n")
    reasoning_table.main(["--trained", "model", "--as-is"])
    assert "| a | 1 of 1 | 1.500 |" in (tmp_path / "page.md").read_text()


def test_the_control_comes_after_the_trained_model_with_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scale.hip"
    program.write_text(TEXT)
    said = {"speedup": 1.0, "calls": 2, "ended": "finished", "made": False, "wrong": False}
    monkeypatch.setattr(reasoning_table, "naive", lambda: iter([("scale", program)]))
    monkeypatch.setattr(reasoning_table, "asking", lambda *_: said)
    monkeypatch.setattr(reasoning_table, "KEPT", tmp_path / "kept.jsonl")
    monkeypatch.setattr(reasoning_table, "PAGE", tmp_path / "page.md")
    reasoning_table.main(["--trained", "model", "--untrained", ""])
    kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    control = next(row for row in kept if row["row"] == "random moves")
    assert (control["calls"], control["ended"], control["model"]) == (2, "calls", "as model")
