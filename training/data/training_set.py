"""What a model must not be tested on, as its folder says: the samples that it and its base were trained on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import RESULT_BYTES, read_regular, write_whole
from hipsynth.source.canonical_text import canonical_id
from hipsynth.training.data.dataset import LabelledSample

TRAINING_SET = "training_set.json"
MEMBERS = ("keys", "lineages", "texts", "text_keys")
_TEXT_DIGITS = 16  # of a hash


@dataclass(frozen=True)
class TrainingSet:
    """Identities of training samples. `lineages`: of their base programs, and what these share with relatives; `texts`:
    short hashes of programs apart from their names; `text_keys`: further samples, that only a model of texts beside the
    predictor learned from."""

    keys: frozenset[str] = frozenset()
    lineages: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    text_keys: frozenset[str] = frozenset()

    def merge(self, other: TrainingSet) -> TrainingSet:
        return TrainingSet(*(getattr(self, name) | getattr(other, name) for name in MEMBERS))

    def has_sample(self, sample: LabelledSample) -> bool:
        """Whether the sample was learned from."""
        return sample.key in self.keys or sample.key in self.text_keys

    def has_relative(self, sample: LabelledSample) -> bool:
        """Whether a relative of the sample's program was learned, or one that differs in names only."""
        lineages = {sample.lineage, sample.relatives}
        return not lineages.isdisjoint(self.lineages) or identify_text(sample.text) in self.texts


def identify_text(text: str) -> str:
    """As a TrainingSet names a program apart from its names."""
    return canonical_id(text)[:_TEXT_DIGITS]


def describe_training_set(
    samples: Iterable[LabelledSample], text_samples: Iterable[LabelledSample] = ()
) -> TrainingSet:
    """The identities of the samples that a model learns from, and of those that only its model of texts does."""
    learned = list(samples)
    keys = frozenset(s.key for s in learned)
    text_only = [s for s in text_samples if s.key not in keys]
    return TrainingSet(
        keys,
        frozenset(identity for s in (*learned, *text_only) for identity in (s.lineage, s.relatives)),
        frozenset(identify_text(s.text) for s in (*learned, *text_only)),
        frozenset(s.key for s in text_only),
    )


def read_training_set(folder: Path) -> TrainingSet:
    """Raises BadInput if a model's folder has no readable one."""
    path = folder / TRAINING_SET
    try:
        document = json.loads(read_regular(path, RESULT_BYTES))
        return TrainingSet(*(frozenset(map(str, document.get(name, ()))) for name in MEMBERS))
    except (BadInput, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path}: unreadable", cause=str(error), remedy="train the model again") from error


def write_training_set(folder: Path, learned: TrainingSet) -> None:
    """Raises BadInput if the folder cannot be written."""
    document = {name: sorted(getattr(learned, name)) for name in MEMBERS}
    write_whole(folder / TRAINING_SET, json.dumps(document))
