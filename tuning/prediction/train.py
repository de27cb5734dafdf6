"""Supervised fine-tuning on the chats of `synth traces --task predict`."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput
from hipsynth.source.model_view import view_source
from hipsynth.training.data.encode import TrainingExample
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.supervised import EncodedSamples, SupervisedSamples, train_supervised
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
from hipsynth.tuning.prediction.preview_error import preview_error_file
from hipsynth.tuning.prediction.traces import read_chats

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TASK = "predict-with-tools"
VALID_SHARE, MOST_VALID = 20, 32  # one lineage in so many is for the validation loss, and chats of it at most


def answer_atoms() -> list[str]:
    """What a new tokenizer makes single tokens: calls, and the texts between two values."""
    calls = [text for name, text in move_texts().items() if name != ANSWER]
    return [*SPECIAL, *calls, *answer_literals()[:-1]]


def train_to_predict(traces: Path, config: Config, out: Path, progress: Progress | None = None) -> ModelRecord:
    """Trains on the chats of a folder and writes the model folder `out`; returns its record. An interrupted call goes
    on from its last checkpoint. Raises BadInput (no chats to train on), UsageError (`out` holds another model),
    MissingDependency."""
    chats, preview_error = read_chats(traces), preview_error_file(traces)
    if all(_is_valid(chat.lineage) for chat in chats):
        problem = f"{traces}: every lineage is for the validation loss"
        raise BadInput(problem, remedy="make traces of a corpus with more programs")
    texts = (chat_text(chat) for chat in chats)
    encode = partial(_encode_chats, config, chats)
    samples = SupervisedSamples(_hash_chats(config, chats), texts, answer_atoms(), encode)

    def finish(folder: Path, record: ModelRecord) -> None:
        shutil.copyfile(preview_error, folder / preview_error.name)
        finish_folder(folder, record)

    return train_supervised(config, out, samples, progress, finish)


def _encode_chats(
    config: Config, chats: Sequence[PredictionChat], tokenizer: PreTrainedTokenizerBase
) -> EncodedSamples:
    parts: tuple[list[TrainingExample], list[TrainingExample]] = ([], [])
    for chat in chats:
        question = Question(chat.text, chat.arch, chat.flags)
        row = encode_chat(tokenizer, question, pieces_of(chat), config.context, chat.with_tools)
        parts[_is_valid(chat.lineage)].append(row)
    train, valid = parts
    facts: ModelRecord = {
        "task": TASK,
        "samples": {"train": len(train), "valid": len(valid)},
        "lineages": sorted({chat.lineage for chat in chats}),
    }
    return EncodedSamples(train, valid[:MOST_VALID], facts)


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
