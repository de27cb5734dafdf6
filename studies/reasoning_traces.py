"""What a model that uses tools was trained on: the part of out/reasoning.md about traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hipsynth.training.data.encode import IGNORED
from hipsynth.tuning.agent.sft_chats import ToolChatRow
from hipsynth.tuning.reason.sft import FILES, encode_chat, read_chats

HEAD = """
## What the model was trained on

`synth traces` on {programs} programs; reasons why programs have no chat: {without}. No lineage is in both parts.

| part | chats | programs | lineages | with a dead end | steps | tokens | of them the assistant's | too long |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
"""


def render_training_set(traces: Path, model: Path, record: Mapping[str, Any]) -> str:
    """The section about a folder of traces: counts, and tokens as the model reads them."""
    from transformers import AutoTokenizer

    report = json.loads((traces / "report.json").read_text())
    without = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(report["without"].items()))
    tokenizer, chats = AutoTokenizer.from_pretrained(str(model)), read_chats(traces)
    rows = [format_line(part, chats[part], report["steps"][part], tokenizer, int(record["context"])) for part in FILES]
    share = len(chats["held_out"]) / sum(map(len, chats.values()))
    head = HEAD.format(programs=report["programs"], without=without or "none")
    return head + "\n".join(rows) + f"\n\n{100 * share:.0f} % of the chats are held out. {describe_training(record)}\n"


def format_line(part: str, chats: Sequence[ToolChatRow], steps: int, tokenizer: Any, context: int) -> str:
    encoded = [encode_chat(tokenizer, chat, context) for chat in chats]
    fitting = [row for row in encoded if row is not None]
    tokens = sum(len(row["input_ids"]) for row in fitting)
    answer_tokens = sum(label != IGNORED for row in fitting for label in row["labels"])
    programs, lineages = (len({chat[name] for chat in chats}) for name in ("program", "lineage"))
    dead_ends = sum(chat.get("kind") == "detour" for chat in chats)
    counts = (len(chats), programs, lineages, dead_ends, steps, tokens, answer_tokens, len(encoded) - len(fitting))
    return f"| {part.replace('_', ' ')} | " + " | ".join(f"{count:,}" for count in counts) + " |"


def describe_training(record: Mapping[str, Any]) -> str:
    valid = record.get("valid_loss")
    loss = f", {valid:.3f} on held-out chats" if valid is not None else ""
    return (
        f"{record['base']} made {record['steps']} steps in chats of at most {record['context']} tokens,\n"
        f"at {record['tokens_per_second']:.0f} tokens/s; loss {record['train_loss']:.3f} in the mean of the run{loss}."
    )
