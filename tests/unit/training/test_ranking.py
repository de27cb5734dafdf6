"""The order of variants: Kendall's tau, regret, and which samples are variants of each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import training_corpus as made
from hypothesis import given
from hypothesis import strategies as st

from hipsynth.training.evaluation.documents import OrderScores
from hipsynth.training.evaluation.ranking import kendall_tau, rank_variants, slowdown_of_choice

TIMES = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8)


@given(TIMES)
def test_the_truth_is_in_order_and_its_inverse_is_not(times: list[float]) -> None:
    tau = kendall_tau(times, times)
    assert tau in (None, 1.0)
    assert kendall_tau(times, [-t for t in times]) == (None if tau is None else -1.0)
    assert slowdown_of_choice(times, times) == 0.0


@given(TIMES, st.floats(1e-3, 1e3))
def test_a_common_factor_changes_nothing(times: list[float], factor: float) -> None:
    guess: list[float | None] = [t + 1 for t in times]
    scaled = [None if g is None else g * factor for g in guess]
    assert kendall_tau(times, scaled) == kendall_tau(times, guess)


def test_known_orders() -> None:
    assert kendall_tau([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]) == pytest.approx(1 / 3)
    assert kendall_tau([1.0, 1.005], [2.0, 1.0]) is None, "such variants have no order"
    assert slowdown_of_choice([1.0, 2.0, 4.0], [3.0, 1.0, 2.0]) == 1.0
    assert slowdown_of_choice([1.0, 2.0, 3.0], [None, None, None]) == 1.0
    assert slowdown_of_choice([1.0, 2.0], [None, 5.0]) == 1.0
    assert slowdown_of_choice([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]) == 1.0, "a tie is a blind choice"
    assert slowdown_of_choice([1.0, 2.0, 9.0], [5.0, 5.0, 7.0]) == 0.5


def test_groups_of_variants() -> None:
    sample = made.sample(1, 0, "gfx90a", "-O3")
    sizes = [replace(sample, arguments=str(n), duration_ns=float(n)) for n in (100, 200, 400)]
    flags = [replace(s, flags="-O1", duration_ns=2 * s.duration_ns) for s in sizes]
    hand = [made.sample(300 + i, 0, "gfx90a", "-O3", "handwritten") for i in range(3)]
    steps = [replace(s, family="gemm", duration_ns=10.0**i) for i, s in enumerate(hand)]
    samples = [*sizes, *flags, *steps]
    found = rank_variants(samples, {"blind": [1.0] * len(samples), "right": [s.duration_ns for s in samples]})
    assert {kind: row.groups for kind, row in found.items()} == {"sizes": 2, "flags": 3, "steps": 1}
    for row in found.values():
        assert row.predictors["right"] == OrderScores(kendall_tau=1.0, regret=0.0)
        assert row.predictors["blind"].kendall_tau == 0.0
