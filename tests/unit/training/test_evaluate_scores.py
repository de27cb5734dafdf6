"""The scoring rules: relative error, zero truths, shares, rank correlation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hipsynth.training.evaluation.documents import PartScores
from hipsynth.training.evaluation.scores import (
    BOUNDS,
    mean_within,
    rank_correlation,
    relative_error,
    score_metric,
    score_metrics,
)


def test_relative_error_is_relative_to_the_truth() -> None:
    assert relative_error(0.5, 0.55) == pytest.approx(0.1)
    assert relative_error(0.5, 0.45) == pytest.approx(0.1)
    assert relative_error(-0.5, -0.45) == pytest.approx(0.1)


def test_a_true_value_of_zero_needs_a_prediction_that_rounds_to_zero() -> None:
    assert relative_error(0.0, 0.0) == 0.0
    assert relative_error(0.0, 0.00049) == 0.0
    assert relative_error(0.0, 0.0005) == math.inf


def test_missing_predictions_are_wrong_and_missing_truths_left_out() -> None:
    found = score_metric([1.0, 1.0, None], [1.0, None, 1.0])
    assert found.n == 2
    assert found.within == {str(b): 0.5 for b in BOUNDS}


def test_bounds_are_inclusive() -> None:
    truths = [1.0] * 5
    found = score_metric(truths, [1.02, 1.04, 1.06, 1.08, 1.10])
    assert list(found.within.values()) == [0.2, 0.4, 0.6, 0.8, 1.0]


def test_rounding_first_gives_higher_scores_for_small_values() -> None:
    found = score_metric([0.0014], [0.0006])
    assert found.within["10"] == 0.0
    assert found.within_rounded["10"] == 1.0


def test_counts_of_zeros_and_an_infinite_median() -> None:
    found = score_metric([0.0, 0.0, 1.0], [1.0, 1.0, 1.0])
    assert found.zeros == 2
    assert found.median_rel_error is None


def test_empty_splits_have_no_shares() -> None:
    found = score_metrics(["a"], [], [])
    assert found.n == 0
    assert found.metrics["a"].within["10"] is None
    assert mean_within(found) is None


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.sampled_from([0.0, 1.0, 2.0, 3.5])), min_size=3, max_size=40))
def test_spearman_is_pearson_of_average_ranks(pairs: list[tuple[float, float]]) -> None:
    from scipy.stats import rankdata

    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    found = rank_correlation(a, b)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(float(np.corrcoef(rankdata(a), rankdata(b))[0, 1]), abs=1e-9)


def test_spearman_sees_monotone_relations() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 100, 1000, 10000]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1.0], [1.0]) is None


def test_a_strict_zero_accepts_no_small_value() -> None:
    found = score_metric([0.0, 0.0, 0.0002], [0.0004, 0.0, 0.0002])
    assert found.within["2"] == 1.0
    assert found.within_strict["2"] == pytest.approx(2 / 3)
    both = PartScores(n=3, valid_json=None, metrics={"a": found})
    assert mean_within(both, 2, "within_strict") == pytest.approx(2 / 3)
