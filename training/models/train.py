"""Fine-tuning: corpus -> samples -> tokens -> LoRA or full training -> a model folder.

The same code runs in one process on a CPU or GPU, or in many under `torchrun` or the `deepspeed` launcher (ZeRO by
config). A model folder holds the weights (or the adapter and the name of its base), the tokenizer, `hipsynth.json`
(written last: it marks a finished model) and `training_set.json` (the training samples' keys, for later leak checks).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.training.data.dataset import (
    LEAK_FREE,
    TEST_PARTS,
    LabelledSample,
    load_samples,
    measure_leak,
    no_training_samples,
    require_no_leak,
    split_samples,
)
from hipsynth.training.data.encode import Encoder, answer_atoms, chat_text
from hipsynth.training.data.training_set import (
    TRAINING_SET,
    TrainingSet,
    describe_training_set,
    read_training_set,
    write_training_set,
)
from hipsynth.training.models.base import find_base
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord, model_record
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.supervised import EncodedSamples, SupervisedSamples, train_supervised

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VALID_SAMPLES = 64  # for the validation loss at the end of training only


def train_model(
    corpus: Path,
    config: Config,
    out: Path,
    progress: Progress | None = None,
    samples: Sequence[LabelledSample] | None = None,
    divide: Callable[[Iterable[LabelledSample]], dict[str, list[LabelledSample]]] = split_samples,
) -> ModelRecord:
    """Trains on the training part of a corpus and writes the model folder `out`; returns its record.

    Repeating an interrupted call resumes from the last checkpoint; for a finished model it returns the record with
    `status` ALREADY_FINISHED. `samples`, if given, are used instead of reading `corpus`; `divide` makes the parts.
    Raises BadInput (no training samples, a leak), UsageError (`out` holds another model), MissingDependency (packages
    or base).
    """
    everything = load_samples(corpus) if samples is None else samples
    parts = divide(everything)
    if not parts["train"]:
        raise no_training_samples(corpus, everything)
    for name in LEAK_FREE:
        require_no_leak(parts["train"], parts[name])
    learned = SupervisedSamples(
        training_fingerprint(config, parts["train"]),
        (chat_text(sample, config.format, config.view) for sample in parts["train"]),
        answer_atoms(config.format),
        partial(_encode_parts, config, parts),
    )
    return train_supervised(config, out, learned, progress, partial(_finish_folder, parts["train"]))


def _finish_folder(learned: Sequence[LabelledSample], out: Path, record: ModelRecord) -> None:
    """Writes the training set and, last, the record."""
    write_training_set(out, describe_training_set(learned).merge(_read_base_training_set(str(record["base"]))))
    finish_folder(out, record)


def _read_base_training_set(base: str) -> TrainingSet:
    """What a base was trained on, if that was here. Raises BadInput if its folder is damaged, MissingDependency."""
    folder = find_base(base)
    return read_training_set(folder) if (folder / TRAINING_SET).is_file() else TrainingSet()


def _encode_parts(
    config: Config, parts: Mapping[str, list[LabelledSample]], tokenizer: PreTrainedTokenizerBase
) -> EncodedSamples:
    _read_base_training_set(config.base)  # a damaged one is refused before training, not after it
    encoder, train = Encoder(tokenizer, config.format, config.context, config.view), parts["train"]
    facts: ModelRecord = {
        "samples": {name: len(part) for name, part in parts.items()},
        "leak": {name: measure_leak(train, parts[name]).share for name in TEST_PARTS},
        "backends": sorted({sample.backend for sample in train} | _backends_of(config.base)),
        "targets": [list(target) for target in sorted({(sample.arch, sample.flags) for sample in train})],
    }
    valid = [encoder.example(sample) for sample in parts["valid"][:VALID_SAMPLES]]
    return EncodedSamples([encoder.example(sample) for sample in train], valid, facts)


def training_fingerprint(config: Config, train_part: Sequence[LabelledSample]) -> str:
    """A hash that identifies a training run: the recipe and the samples with their labels."""
    labels = [(s.key, s.kernel, sorted(s.metrics.items())) for s in train_part]
    document = json.dumps([asdict(config), labels], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()


def _backends_of(base: str) -> set[str]:
    """The backends whose labels a base has learned, if it was trained here."""
    folder = find_base(base)
    record = model_record(folder) if folder.is_dir() else None
    return set(record.get("backends", ())) if record else set()
