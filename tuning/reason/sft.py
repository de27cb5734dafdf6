"""Supervised fine-tuning on the chats of `synth traces`: `synth train TRACES --config tools-smollm2 --out MODEL`.

Only what the assistant says counts in the loss. Chats that are too long lose their oldest results of tools first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, cast

from hipsynth.core.errors import BadInput
from hipsynth.core.json_lines import read_json_lines
from hipsynth.training.data.encode import IGNORED, TrainingExample
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.supervised import EncodedSamples, SupervisedSamples, train_supervised
from hipsynth.tuning.agent.sft_chats import ToolChatRow
from hipsynth.tuning.reason.chat_text import TEMPLATE, brief_messages

FILES = {"train": "train.jsonl", "held_out": "held_out.jsonl"}
MOST_VALID = 32  # chats for the validation loss
TASK = "tools"
SPECIAL = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]


def read_chats(folder: Path) -> dict[str, list[ToolChatRow]]:
    """The chats of a folder of `synth traces` by part. Raises BadInput for a folder without any, or a damaged line."""
    chats = {
        part: list(read_json_lines(folder / name, _check_chat, "chat", "run `synth traces` again"))
        for part, name in FILES.items()
    }
    if not chats["train"]:
        raise BadInput(f"{folder}: no chats to train on", remedy="give `synth traces` more programs, or more time")
    return chats


def _check_chat(row: dict[str, Any]) -> ToolChatRow:
    if not (row["messages"] and isinstance(row["messages"], list) and row["program"]):
        raise ValueError("it has no messages, or no program")
    return cast(ToolChatRow, row)


def source_of(chat: ToolChatRow) -> str:
    """The program that a chat begins with, without blanks at its end."""
    return str(chat["messages"][1]["content"]).partition("```cpp\n")[2].rpartition("\n```")[0]


def encode_chat(tokenizer: Any, chat: ToolChatRow, context: int) -> TrainingExample | None:
    """A chat as token ids and labels, IGNORED outside of the assistant's turns; None if it does not fit. `cut_lines`:
    results of tools that were left out."""
    messages = brief_messages(chat["messages"])
    results = [message for message in messages if message["role"] == "tool"]
    for cut in range(len(results) + 1):
        if cut:
            results[cut - 1]["content"] = "[left out]"
        encoded = tokenizer.apply_chat_template(
            messages,
            tools=list(chat.get("tools") or ()) or None,
            return_dict=True,
            return_assistant_tokens_mask=True,
            chat_template=TEMPLATE,
        )
        ids = list(encoded["input_ids"])
        if len(ids) <= context:
            pairs = zip(ids, encoded["assistant_masks"], strict=True)
            return {
                "input_ids": ids,
                "labels": [i if is_answer else IGNORED for i, is_answer in pairs],
                "cut_lines": cut,
            }
    return None


def train_on_chats(traces: Path, config: Config, out: Path, progress: Progress | None = None) -> ModelRecord:
    """Trains on the chats of a folder and writes the model folder `out`; returns its record. An interrupted call goes
    on from its last checkpoint. Raises BadInput (no chats), UsageError (`out` holds another model),
    MissingDependency."""
    chats = read_chats(traces)
    fingerprint, texts = _hash_chats(config, chats["train"]), _chat_texts(chats["train"])
    encode = partial(_encode_chats, config, chats, traces)
    return train_supervised(config, out, SupervisedSamples(fingerprint, texts, SPECIAL, encode), progress)


def _encode_chats(
    config: Config, chats: Mapping[str, Sequence[ToolChatRow]], traces: Path, tokenizer: Any
) -> EncodedSamples:
    """Raises BadInput if no chat fits the context."""
    tokenizer.chat_template = TEMPLATE
    parts = {name: [encode_chat(tokenizer, chat, config.context) for chat in rows] for name, rows in chats.items()}
    fitting = {name: [row for row in rows if row is not None] for name, rows in parts.items()}
    if not fitting["train"]:
        raise BadInput(f"{traces}: no chat fits {config.context} tokens", remedy="set a larger context in the recipe")
    facts: ModelRecord = {
        "task": TASK,
        "samples": {name: len(rows) for name, rows in fitting.items()},
        "too_long": {name: len(parts[name]) - len(rows) for name, rows in fitting.items()},
        "lineages": sorted({str(chat["lineage"]) for chat in chats["train"]}),
    }
    return EncodedSamples(fitting["train"], fitting["held_out"][:MOST_VALID], facts)


def _chat_texts(chats: Sequence[ToolChatRow]) -> list[str]:
    """The texts on which the model's own tokenizer is trained."""
    return [json.dumps(brief_messages(chat["messages"])).replace("\\n", "\n") for chat in chats]


def _hash_chats(config: Config, chats: Sequence[ToolChatRow]) -> str:
    document = json.dumps([asdict(config), [chat["messages"] for chat in chats]], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()
