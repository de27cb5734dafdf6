"""A model that goes on from another one knows what that one has learned."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.core.errors import BadInput
from hipsynth.training.data.dataset import split_samples
from hipsynth.training.data.training_set import TRAINING_SET, identify_text, read_training_set
from hipsynth.training.evaluation.evaluate import held_out
from hipsynth.training.models.base import SHIPPED_BASE, find_adapted_base
from hipsynth.training.models.config import load_config
from hipsynth.training.models.model_record import model_record
from hipsynth.training.models.predict import Predictor
from hipsynth.training.models.supervised import base_facts
from hipsynth.training.models.train import train_model

needs.installed("torch", "transformers")

SAMPLES = made.samples(30, 2)
TOY = made.toy_config()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("base") / "model"
    train_model(Path("corpus"), TOY, out, samples=SAMPLES)
    yield out


def test_what_a_base_has_learned_is_not_tested_on(model: Path, tmp_path: Path) -> None:
    """A second stage's model remembers the programs of the first, also apart from their names."""
    parts = split_samples(SAMPLES)
    second = [replace(s, text=s.text.replace("main()", "main(void)")) for s in parts["train"][:8]]
    out = tmp_path / "second"
    train_model(Path("corpus"), replace(TOY, base=str(model), max_steps=1), out, samples=[*second, *parts["lineage"]])
    known, first = read_training_set(out), read_training_set(model)
    assert first.texts < known.texts and first.keys <= known.keys
    renamed = replace(parts["train"][-1], lineage=parts["lineage"][0].lineage, program_id="another")
    assert identify_text(renamed.text) in first.texts
    _, tested, _ = held_out(out, [*parts["lineage"], renamed])
    assert len(tested["lineage"]) == len(parts["lineage"]) and renamed not in tested["lineage"]


def test_adapters_find_the_base_that_they_were_trained_on(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    record = base_facts(model.name)
    record["base"] = model.name
    monkeypatch.chdir(tmp_path)
    assert find_adapted_base(tmp_path, record) == str(model.resolve())
    with pytest.raises(BadInput, match="another base"):
        find_adapted_base(tmp_path, {**record, "base_fingerprint": "0"})
    assert find_adapted_base(tmp_path, {**record, "base_folder": str(tmp_path / "gone")}) == model.name
    assert "base_folder" not in base_facts("shipped") and base_facts("smollm2") == base_facts("tiny") == {}


def test_a_base_with_a_damaged_training_set_is_refused_before_training(model: Path, tmp_path: Path) -> None:
    damaged = shutil.copytree(model, tmp_path / "damaged")
    (damaged / TRAINING_SET).write_text("[1, 2]")
    with pytest.raises(BadInput, match="unreadable"):
        train_model(Path("corpus"), replace(TOY, base=str(damaged), max_steps=1), tmp_path / "out", samples=SAMPLES)
    assert not (tmp_path / "out" / "training.jsonl").exists()


def test_the_base_that_ships_is_adapted_to_a_corpus(tmp_path: Path) -> None:
    needs.package("peft")
    recipe, base = load_config("lora-cpu"), model_record(SHIPPED_BASE)
    assert base is not None and base["task"] == "predict" and base["config"]["name"] == "shipped-base"
    assert (recipe.context, recipe.format, recipe.view) == (base["context"], base["format"], base["view"])
    out = tmp_path / "adapted"
    record = train_model(Path("corpus"), replace(recipe, max_steps=1), out, samples=SAMPLES)
    assert 0 < record["trained_parameters"] < record["parameters"] / 2 and set(record["backends"]) == {"made-up", "sim"}
    learned, first = read_training_set(out), read_training_set(SHIPPED_BASE)
    assert first.lineages < learned.lineages
    answer = Predictor.load(out).predict(SAMPLES[0].text, "gfx90a", "-O3")
    assert all(value == value for value in answer.metrics.values())
