"""Trains the correction on a corpus: `synth train CORPUS --config analytic --out MODEL`."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.simulator.label_model import preview_version
from hipsynth.training.analytic.examples import build_examples, preview_samples
from hipsynth.training.analytic.model import AnalyticModel
from hipsynth.training.analytic.predict import PREDICTOR
from hipsynth.training.analytic.preview_journal import PREVIEWS, PreviewJournal
from hipsynth.training.analytic.text_model import TEXT_MODEL, TextModel
from hipsynth.training.data.dataset import (
    LEAK_FREE,
    LabelledSample,
    hash_share,
    no_training_samples,
    require_no_leak,
    split_samples,
)
from hipsynth.training.data.training_set import describe_training_set, write_training_set
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_record import RECORD, ModelRecord, TrainingStatus, finished_already
from hipsynth.training.models.train import training_fingerprint

BASE = "analytic"


def train_analytic(
    corpus: Path,
    config: Config,
    out: Path,
    samples: Sequence[LabelledSample],
    note: Callable[[str], None] = lambda _: None,
    workers: int = 0,
) -> ModelRecord:
    """Fits the correction to the training and validation parts, of their programs the config's share, and the model of
    texts that do not compile to all of them, and writes the model folder `out`; returns its record.

    Compiles and previews every build once; what was previewed is kept in `out` until the model is written, so that the
    same call goes on after an interruption. Raises BadInput (too few samples,
    a leak), UsageError (`out` holds another model).
    """
    parts = split_samples(samples)
    texts = [*parts["train"], *parts["valid"]]
    for name in ("train", "valid"):
        parts[name] = [s for s in parts[name] if hash_share(f"learned:{s.program_id}") < config.share]
    used = [*parts["train"], *parts["valid"]]
    if not used:
        raise no_training_samples(corpus, samples)
    for name in LEAK_FREE:
        require_no_leak(texts, parts[name])  # they contain what is used
    fingerprint = fingerprint_training(config, used, texts)
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    text_model = TextModel.fit(texts)
    journal = PreviewJournal(out / PREVIEWS)
    learned = build_examples(used, preview_samples(used, workers or os.cpu_count() or 1, note, journal))
    model = AnalyticModel.fit(learned, _describe_labels(used, len(learned)))
    out.mkdir(parents=True, exist_ok=True)
    model.save(out / PREDICTOR)
    text_model.save(out / TEXT_MODEL.name)
    write_training_set(out, describe_training_set(used, texts))
    record = _describe_model(config, fingerprint, parts, len(learned), model)
    write_whole(out / RECORD, json.dumps(record, indent=1))
    journal.remove_file()
    return record


def fingerprint_training(config: Config, used: Sequence[LabelledSample], texts: Sequence[LabelledSample]) -> str:
    """A hash that identifies a training: the recipe, the samples of the correction and those of the model of texts
    with their labels, and the version of previews."""
    parts = [training_fingerprint(config, samples) for samples in (used, texts)]
    durations = [sample.duration_ns for sample in texts]  # which the metrics do not say
    return hashlib.sha256(json.dumps([parts, durations, preview_version()]).encode()).hexdigest()


def _describe_model(
    config: Config,
    fingerprint: str,
    parts: Mapping[str, Sequence[LabelledSample]],
    previewed: int,
    model: AnalyticModel,
) -> ModelRecord:
    used = [*parts["train"], *parts["valid"]]
    return {
        "version": 1,
        "status": TrainingStatus.FINISHED,
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": BASE,
        "format": config.format,
        "context": 0,
        "samples": {name: len(part) for name, part in parts.items()},
        "previewed": previewed,
        "thresholds": {name: x if math.isfinite(x) else None for name, x in model.thresholds.items()},
        "backends": sorted({s.backend for s in used}),
        "targets": [list(target) for target in sorted({(s.arch, s.flags) for s in used})],
    }


def _describe_labels(samples: Sequence[LabelledSample], previewed: int) -> dict[str, object]:
    """What a predictor's file says of the labels that it was fitted to."""
    labels = sorted({(sample.backend, sample.facts.backend_version) for sample in samples})
    return {"samples": len(samples), "previewed": previewed, "labels": labels}
