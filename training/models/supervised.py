"""Supervised fine-tuning, the same for every kind of model: base -> encoded samples -> training -> a model folder.

A kind says what its samples are and how they become tokens: predictions in `train`, chats with tools in
`tuning.reason.sft` and `tuning.prediction.train`.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import UsageError
from hipsynth.training.data.encode import TrainingExample
from hipsynth.training.models.base import ADAPTER, load_base, torch_or_missing, trained_base
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord, TrainingStatus, finished_already, model_record
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.trainer import CHECKPOINTS, adapt_model, fit_model, package_versions, prepare_deepspeed

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
    ALREADY_FINISHED if the folder holds this model. An interrupted call goes on from its last checkpoint. Raises
    UsageError (`out` holds another model), MissingDependency (packages or base)."""
    check_adapter_base(config)
    fingerprint = _identify_training(samples.fingerprint, config.base)
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    torch_or_missing()
    from transformers import set_seed

    prepare_deepspeed(config)
    set_seed(config.seed)
    model, tokenizer = load_base(config.base, samples.texts, samples.atoms, config.tiny, config.context)
    encoded = samples.encode(tokenizer)
    parts = encoded.train, encoded.valid
    run, first = fit_model(config, out, adapt_model(config, model), tokenizer, parts, fingerprint, progress)
    record = recipe_facts(config, fingerprint)
    record.update(base_facts(config.base))
    record.update(encoded.facts)
    record.update(run)
    if first:
        finish(out, record)
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return record


def check_adapter_base(config: Config) -> None:
    """Raises UsageError for adapters on a base that is not kept: random weights, or other adapters' merged ones."""
    if config.method != "lora":
        return
    if config.base == "tiny":
        cause = "its random weights are made anew for each training, and adapters are nothing without them"
    elif (folder := trained_base(config.base)) is not None and (folder / ADAPTER).is_file():
        cause = "it holds adapters itself, and a second set of them would have no base to be loaded with"
    else:
        return
    problem = f"no LoRA adapters can be trained on {config.base}"
    raise UsageError(problem, cause=cause, remedy='method = "full" in the recipe, or another --base')


def _identify_training(fingerprint: str, base: str) -> str:
    """The fingerprint of a training, with that of a base that was trained here."""
    of_base = base_facts(base).get("base_fingerprint")
    return fingerprint if of_base is None else hashlib.sha256(f"{fingerprint} {of_base}".encode()).hexdigest()


def base_facts(base: str) -> ModelRecord:
    """What the record of a training says of a base that is a folder, so that it is found from anywhere."""
    folder = trained_base(base)
    if folder is None:
        return {}
    record = model_record(folder)
    facts: ModelRecord = {} if base == "shipped" else {"base_folder": str(folder.resolve())}
    return facts if record is None else {**facts, "base_fingerprint": record["fingerprint"]}


def recipe_facts(config: Config, fingerprint: str) -> ModelRecord:
    """What the record of a finished training says of its recipe and its packages."""
    return {
        "version": 1,
        "status": TrainingStatus.FINISHED,
        "task": config.task,
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "format": config.format,
        "context": config.context,
        "view": config.view,
        "versions": package_versions(),
    }
