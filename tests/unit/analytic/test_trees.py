"""Fitted trees answer as LightGBM does, in every bit, and refuse damaged models."""

from __future__ import annotations

import re

import needs
import numpy as np
import pytest

from hipsynth.training.analytic.trees import Trees

COLUMNS = 6


def fitted(rounds: int = 40, leaves: int = 15) -> tuple[str, np.ndarray, np.ndarray]:
    """A model's text, a table, and what LightGBM answers for it."""
    lightgbm = needs.package("lightgbm")
    chance = np.random.default_rng(7)
    table = chance.normal(size=(600, COLUMNS)) * 10.0 ** chance.integers(-3, 4, size=(600, COLUMNS))
    target = np.sin(table[:, 0]) + (table[:, 1] > 0) * table[:, 2]
    settings = {"objective": "regression_l1", "num_leaves": leaves, "verbosity": -1, "num_threads": 1}
    model = lightgbm.train(settings, lightgbm.Dataset(table, target), num_boost_round=rounds)
    asked = np.concatenate([table, np.zeros((1, COLUMNS)), np.full((1, COLUMNS), np.inf), -table[:3]])
    return model.model_to_string(), asked, model.predict(asked, num_threads=1)


def test_the_answers_are_those_of_lightgbm() -> None:
    text, table, answers = fitted()
    assert Trees(text).predict(table).tobytes() == answers.tobytes()
    assert Trees(text).predict(table[:0]).shape == (0,)
    assert len(set(answers)) > 100


def test_a_tree_of_one_leaf_is_a_constant() -> None:
    lightgbm = needs.package("lightgbm")
    data = lightgbm.Dataset(np.zeros((50, COLUMNS)), np.full(50, 2.5))
    model = lightgbm.train({"verbosity": -1, "min_data_in_leaf": 1}, data, num_boost_round=3)
    table = np.ones((2, COLUMNS))
    assert Trees(model.model_to_string()).predict(table).tolist() == model.predict(table).tolist()


def test_a_value_that_is_missing_counts_as_zero() -> None:
    text, table, _ = fitted()
    unknown = np.where(np.arange(COLUMNS) == 1, np.nan, table)
    zero = np.where(np.arange(COLUMNS) == 1, 0.0, table)
    assert Trees(text).predict(unknown).tobytes() == Trees(text).predict(zero).tobytes()


def test_damaged_models_and_other_tables_are_refused() -> None:
    text, table, _ = fitted(rounds=3)
    damaged = {
        "no text": "",
        "cut off": text[: len(text) // 2],
        "a word for a number": text.replace("threshold=", "threshold=x ", 1),
        "a value too few": text.replace("leaf_value=", "leaf_weight=", 1),
        "a child that is not there": text.replace("left_child=", "left_child=99 ", 1),
        "a column that is not there": text.replace("split_feature=", "split_feature=77 ", 1),
        "splits in a circle": re.sub(r"left_child=\S+", "left_child=0", text, count=1),
        "splits by categories": text.replace("decision_type=2", "decision_type=1", 1),
    }
    for kind, model in damaged.items():
        assert model != text, kind
        with pytest.raises(ValueError):
            Trees(model).predict(table)
    with pytest.raises(ValueError, match="columns"):
        Trees(text).predict(table[:, :-1])
