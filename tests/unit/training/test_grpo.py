"""GRPO: the reward is the relative error; a short run turns a trained model into another one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.core.errors import MissingDependency, UsageError
from hipsynth.training.data.prompt import render_answer
from hipsynth.training.models.base import TinyShape
from hipsynth.training.models.grpo import answer_reward, completion_reward
from hipsynth.training.models.predict import Predictor
from hipsynth.training.models.train import Config, load_config, train_model

SHAPE = TinyShape(vocab=600, hidden=32, layers=1, heads=2, ff=64)
TOY = Config(name="toy", base="tiny", method="full", context=768, view="kernels", max_steps=2, bf16="no", tiny=SHAPE)


def test_the_reward_is_minus_the_mean_relative_error() -> None:
    assert answer_reward({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}) == 0
    assert answer_reward({"a": 1.1, "b": 2.0}, {"a": 1.0, "b": 2.0}) == pytest.approx(-0.05)
    assert answer_reward({"a": 900.0}, {"a": 1.0, "b": None}) == -1
    assert answer_reward({}, {"a": 1.0}) == -1
    assert answer_reward({"a": 0.0001}, {"a": 0.0}) == 0


def test_an_answer_that_cannot_be_read_has_the_lowest_reward() -> None:
    sample = made.samples(2, 1)[1]
    text = render_answer(sample.metrics, sample.arch, sample.flags, "sig3")
    assert completion_reward(text, sample.truth(), "sig3") > -0.01
    assert completion_reward(text[:-30], sample.truth(), "sig3") == -1
    assert completion_reward("no answer", sample.truth(), "sig3") == -1


def test_a_base_must_be_a_trained_model_that_writes_whole_answers(tmp_path: Path) -> None:
    samples = made.samples(12, 1)
    config = replace(load_config("grpo"), base=str(tmp_path / "base"))
    with pytest.raises(MissingDependency, match="no finished model"):
        train_model(tmp_path, config, tmp_path / "out", samples=samples)
    needs.package("torch")
    source = replace(load_config("source"), tiny=SHAPE, max_steps=1, batch=2)
    train_model(tmp_path, source, tmp_path / "base", samples=samples)
    with pytest.raises(UsageError, match="side by side"):
        train_model(tmp_path, config, tmp_path / "out", samples=samples)


@pytest.mark.full
def test_reinforcement_runs_end_to_end(tmp_path: Path) -> None:
    needs.package("trl")
    samples = made.samples(12, 1)
    train_model(tmp_path, TOY, tmp_path / "base", samples=samples)
    config = replace(load_config("grpo"), base=str(tmp_path / "base"), max_steps=2, batch=2, generations=2)
    record = train_model(tmp_path, config, tmp_path / "out", samples=samples)
    assert record["steps"] == 2
    assert set(record["scores"]["before"]) == set(record["scores"]["after"])
    assert -1 <= record["scores"]["after"]["lineage"]["reward"] <= 0
    assert Predictor.load(tmp_path / "out").predict(samples[0].text, "gfx942", "-O3").metrics
