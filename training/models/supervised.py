"""Supervised fine-tuning, the same for every kind of model: base -> encoded samples -> training -> a model folder.

A kind says what its samples are and how they become tokens: predictions in `train`, chats with tools in
`tuning.reason.sft` and `tuning.prediction.train`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.training.data.encode import TrainingExample
from hipsynth.training.models.base import load_base, torch_or_missing
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord, finished_already
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.trainer import adapt_model, fit_model, package_versions, prepare_deepspeed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class EncodedSamples:
    """Samples as tokens. `valid`: those of the validation loss; `facts`: what the record says of them."""

    train: Sequence[TrainingExample]
    valid: Sequence[TrainingExample]
    facts: ModelRecord


@dataclass(frozen=True)
class SupervisedSamples:
    """What a model learns from. `fingerprint` identifies the training; a base that is trained from scratch gets a
    tokenizer of `texts`, with `atoms` as single tokens. `encode` may set the tokenizer's chat template."""

    fingerprint: str
    texts: Iterable[str]
    atoms: Sequence[str]
    encode: Callable[[PreTrainedTokenizerBase], EncodedSamples]


def train_supervised(
    config: Config,
    out: Path,
    samples: SupervisedSamples,
    progress: Progress | None = None,
    finish: Callable[[Path, ModelRecord], None] = finish_folder,
) -> ModelRecord:
    """Trains on samples and writes the model folder `out`, at its end by `finish`; returns its record, with `status`
    "already finished" if the folder holds this model. An interrupted call goes on from its last checkpoint. Raises
    UsageError (`out` holds another model), MissingDependency (packages or base)."""
    if (existing := finished_already(out, samples.fingerprint)) is not None:
        return existing
    torch_or_missing()
    from transformers import set_seed

    prepare_deepspeed(config)
    set_seed(config.seed)
    model, tokenizer = load_base(config.base, samples.texts, samples.atoms, config.tiny, config.context)
    encoded = samples.encode(tokenizer)
    parts = encoded.train, encoded.valid
    run, first = fit_model(config, out, adapt_model(config, model), tokenizer, parts, samples.fingerprint, progress)
    record = recipe_facts(config, samples.fingerprint)
    record.update(encoded.facts)
    record.update(run)
    if first:
        finish(out, record)
    return record


def recipe_facts(config: Config, fingerprint: str) -> ModelRecord:
    """What the record of a finished training says of its recipe and its packages."""
    return {
        "version": 1,
        "status": "finished",
        "task": config.task,
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "format": config.format,
        "context": config.context,
        "view": config.view,
        "versions": package_versions(),
    }
