"""Supervised fine-tuning on the chats of `synth traces --task predict`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hipsynth.source.model_view import view_source
from hipsynth.training.data.encode import TrainingExample
from hipsynth.training.models.base import load_base, torch_or_missing
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.train import Config, finished_already
from hipsynth.training.models.trainer import adapt_model, fit_model, package_versions, prepare_deepspeed
from hipsynth.tuning.prediction.chat import (
    ANSWER,
    SPECIAL,
    PredictionChat,
    Question,
    answer_literals,
    encode_chat,
    move_texts,
    pieces_of,
    question_text,
)
from hipsynth.tuning.prediction.traces import read_chats

TASK = "predict-with-tools"
VALID_SHARE, MOST_VALID = 20, 32  # one lineage in so many is for the validation loss, and chats of it at most


def answer_atoms() -> list[str]:
    """What a new tokenizer makes single tokens: calls, and the texts between two values."""
    calls = [text for name, text in move_texts().items() if name != ANSWER]
    return [*SPECIAL, *calls, *answer_literals()[:-1]]


def train_to_predict(traces: Path, config: Config, out: Path, progress: Progress | None = None) -> ModelRecord:
    """Trains on the chats of a folder and writes the model folder `out`; returns its record. An interrupted call goes
    on from its last checkpoint. Raises BadInput (no chats), UsageError (`out` holds another model),
    MissingDependency."""
    from transformers import set_seed

    chats = read_chats(traces)
    fingerprint = _hash_chats(config, chats)
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    torch_or_missing()
    prepare_deepspeed(config)
    set_seed(config.seed)
    texts = (chat_text(chat) for chat in chats)
    model, tokenizer = load_base(config.base, texts, answer_atoms(), config.tiny, config.context)
    parts: tuple[list[TrainingExample], list[TrainingExample]] = ([], [])
    for chat in chats:
        question = Question(chat.text, chat.arch, chat.flags)
        row = encode_chat(tokenizer, question, pieces_of(chat), config.context, chat.with_tools)
        parts[_is_valid(chat.lineage)].append(row)
    both = parts[0], parts[1][:MOST_VALID]
    run, first = fit_model(config, out, adapt_model(config, model), tokenizer, both, fingerprint, progress)
    record: ModelRecord = {
        "version": 1,
        "status": "finished",
        "task": TASK,
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "format": config.format,
        "context": config.context,
        "view": config.view,
        "samples": {"train": len(parts[0]), "valid": len(parts[1])},
        "lineages": sorted({chat.lineage for chat in chats}),
        "versions": package_versions(),
    }
    record.update(run)
    if first:
        finish_folder(out, record)
    return record


def chat_text(chat: PredictionChat) -> str:
    """A chat as text, on which a new tokenizer is trained."""
    source = view_source(chat.text, "kernels")[0]
    question = question_text(Question(chat.text, chat.arch, chat.flags), source, chat.with_tools)
    return question + "".join(piece.text for piece in pieces_of(chat))


def _is_valid(lineage: str) -> bool:
    return int(hashlib.sha256(lineage.encode()).hexdigest(), 16) % VALID_SHARE == 0


def _hash_chats(config: Config, chats: Sequence[PredictionChat]) -> str:
    document = json.dumps([asdict(config), [asdict(chat) for chat in chats]], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()
