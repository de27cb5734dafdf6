"""What the page of models that use tools says of their training set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import needs
import pytest

from studies import reasoning_traces
from studies.reasoning_traces import format_line, render_training_set

needs.installed("torch")

RECORD = {
    "base": "smollm2",
    "context": 2048,
    "steps": 7,
    "tokens_per_second": 99.6,
    "train_loss": 1.25,
    "valid_loss": 0.5,
}


def encoded(_: Any, chat: dict[str, Any], context: int) -> dict[str, Any] | None:
    size = int(chat["size"])
    return {"input_ids": [1] * size, "labels": [-100] * (size - 10) + [1] * 10} if size <= context else None


def test_counts_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_traces, "encode_chat", encoded)
    chats = [
        {"program": "a", "lineage": "x", "size": 1500},
        {"program": "a", "lineage": "x", "size": 1600, "kind": "detour"},
        {"program": "b", "lineage": "x", "size": 2049},
    ]
    assert format_line("held_out", chats, 12, None, 2048) == "| held out | 3 | 2 | 1 | 1 | 12 | 3,100 | 20 | 1 |"


def test_the_section_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_traces, "encode_chat", encoded)
    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda path: None)
    row = json.dumps({"messages": [{"role": "user"}], "program": "p", "lineage": "l", "size": 100}) + "\n"
    (tmp_path / "train.jsonl").write_text(3 * row)
    (tmp_path / "held_out.jsonl").write_text(row)
    report = {"programs": 9, "steps": {"train": 5, "held_out": 2}, "without": {"no_moves": 4}}
    (tmp_path / "report.json").write_text(json.dumps(report))
    text = render_training_set(tmp_path, tmp_path, RECORD)
    assert "on 9 programs" in text and "4 no moves" in text and "25 % of the chats are held out" in text
    assert "| train | 3 | 1 | 1 | 0 | 5 | 300 | 30 | 0 |" in text
    assert "7 steps" in text and "100 tokens/s; loss 1.250" in text and "0.500 on held-out chats" in text
