"""What a training of the default predictor says that it learned from, and when it or an evaluation is out of date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from training_corpus import TARGETS, sample

from hipsynth.core.errors import BadInput
from hipsynth.training.analytic import train
from hipsynth.training.data.dataset import LabelledSample, split_samples
from hipsynth.training.data.training_set import TrainingSet, read_training_set, write_training_set
from hipsynth.training.evaluation import evaluate
from hipsynth.training.models.config import load_config

SAMPLES = [sample(index, 0, *TARGETS[0]) for index in range(40)]
CONFIG = replace(load_config("analytic"), share=0.5)


class FittedModel:
    """A model that learns nothing."""

    def __init__(self) -> None:
        self.thresholds: dict[str, float] = {}

    @classmethod
    def fit(cls, samples: Sequence[object], labels: object = None) -> FittedModel:
        return cls()

    def save(self, path: Path) -> None:
        path.touch()


def train_nothing(monkeypatch: pytest.MonkeyPatch, out: Path) -> str:
    """The fingerprint of a training whose models learn nothing."""
    for name in ("AnalyticModel", "TextModel"):
        monkeypatch.setattr(train, name, FittedModel)
    monkeypatch.setattr(train, "preview_samples", lambda samples, *_: [None] * len(samples))
    return train.train_analytic(Path("corpus"), CONFIG, out, SAMPLES)["fingerprint"]


def test_the_training_set_has_what_only_the_model_of_texts_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train_nothing(monkeypatch, tmp_path)
    parts, learned = split_samples(SAMPLES), read_training_set(tmp_path)
    texts = [*parts["train"], *parts["valid"]]
    assert learned.keys and learned.text_keys and not learned.keys & learned.text_keys
    assert learned.keys | learned.text_keys == {s.key for s in texts}
    assert all(learned.has_relative(s) and learned.has_sample(s) for s in texts)
    train_part, tested, _ = evaluate.held_out(tmp_path, SAMPLES)
    assert {s.key for s in train_part} == learned.keys and {s.key for s in texts}.isdisjoint(
        s.key for part in tested.values() for s in part
    )


def test_a_leak_of_texts_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = split_samples(SAMPLES)
    unlearned = next(s for s in parts["train"] if train.hash_share(f"learned:{s.program_id}") >= CONFIG.share)
    leaking = {**parts, "lineage": [*parts["lineage"], unlearned]}
    monkeypatch.setattr(train, "split_samples", lambda _: leaking)
    with pytest.raises(BadInput, match="share a lineage"):
        train_nothing(monkeypatch, tmp_path)


def test_a_training_depends_on_previews_texts_and_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    first, others = SAMPLES[:10], [*SAMPLES[:10], *SAMPLES[20:30]]
    slower: list[LabelledSample] = [replace(s, duration_ns=s.duration_ns + 1) for s in others]
    prints = [train.fingerprint_training(CONFIG, first, texts) for texts in (first, others, slower)]
    monkeypatch.setattr(train, "preview_version", lambda: "labels-99-preview-1")
    prints.append(train.fingerprint_training(CONFIG, first, first))
    assert len(set(prints)) == 4


def test_an_evaluation_depends_on_previews_and_durations(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = [replace(s, duration_ns=s.duration_ns + 1) for s in SAMPLES]
    prints = [evaluate.evaluation_fingerprint({"fingerprint": "0"}, samples) for samples in (SAMPLES, slower)]
    monkeypatch.setattr(evaluate, "preview_version", lambda: "labels-99-preview-1")
    prints.append(evaluate.evaluation_fingerprint({"fingerprint": "0"}, SAMPLES))
    assert len(set(prints)) == 3


def test_a_training_set_is_read_back_and_older_ones_lack_texts(tmp_path: Path) -> None:
    learned = TrainingSet(*(frozenset({name}) for name in ("k", "l", "t", "x")))
    write_training_set(tmp_path, learned)
    assert read_training_set(tmp_path) == learned == learned.merge(TrainingSet())
    (tmp_path / "training_set.json").write_text('{"keys": ["k"], "lineages": ["l"], "texts": ["t"]}')
    assert read_training_set(tmp_path) == replace(learned, text_keys=frozenset())
