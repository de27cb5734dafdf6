"""The learned correction on made-up examples whose truth is known."""

from __future__ import annotations

import gzip
import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipsynth.core.errors import BadInput
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.analytic import trees
from hipsynth.training.analytic.model import (
    DURATION,
    AnalyticModel,
    Example,
    apply_threshold,
    best_threshold,
    prediction_interval,
)
from hipsynth.training.analytic.quantities import NAMES, metric_quantities, metrics_of

SEEN = {
    "duration": 1e5,
    "flops": 4e6,
    "lookups": 1e6,
    "l1_requests": 5e5,
    "l2_requests": 5e5,
    "l2_misses": 2e5,
    "fabric_read": 2e7,
    "fabric_write": 1e7,
}


def made(count: int, noise: float, bias: float) -> list[Example]:
    """Previews that are `bias` too short (as a log ratio) wherever the feature `kind` is 1, with noise."""
    rng = np.random.default_rng(5)
    found = []
    for i in range(count):
        kind = i % 2
        size = 2.0 ** rng.uniform(-4, 4)
        seen = {name: value * size for name, value in SEEN.items()}
        ratio = bias * kind + noise * rng.standard_normal()
        truth = {**seen, "duration": seen["duration"] * math.exp(ratio)}
        found.append(Example({"kind": float(kind), "size": size}, seen, truth, "gfx90a", f"program{i // 4}"))
    return found


@pytest.fixture(scope="module")
def biased() -> AnalyticModel:
    return AnalyticModel.fit(made(600, 0.05, 0.7))


def ask(model: AnalyticModel, kind: float) -> float:
    found = model.predict([{"kind": kind, "size": 1.0}], [SEEN], ["gfx90a"])[0]
    return found.duration_ns / SEEN["duration"]


def test_a_bias_is_corrected_where_it_is(biased: AnalyticModel) -> None:
    assert ask(biased, 1.0) == pytest.approx(math.exp(0.7), rel=0.05)
    assert ask(biased, 0.0) == pytest.approx(1.0, rel=0.05)


def test_noise_is_not_learned() -> None:
    """What cannot be predicted is left as it was previewed."""
    model = AnalyticModel.fit(made(300, 0.05, 0.0))
    assert model.thresholds["duration"] >= 0.02
    assert ask(model, 1.0) == 1.0


def test_exact_previews_stay_exact(biased: AnalyticModel) -> None:
    found = biased.predict([{"kind": 1.0, "size": 1.0}], [SEEN], ["gfx90a"])[0]
    assert found.metrics["L1_Cache_Hit_Rate"] == pytest.approx(50)
    assert found.metrics["L2_Cache_Hit_Rate"] == pytest.approx(60)
    assert found.metrics["HBM_Arithmetic_Intensity"] == pytest.approx(4e6 / 3e7)


def test_intervals_hold_as_many_as_they_say(biased: AnalyticModel) -> None:
    fresh = [replace(e, family="new") for e in made(400, 0.05, 0.7)[200:]]
    found = biased.predict([e.features for e in fresh], [e.previewed for e in fresh], ["gfx90a"] * len(fresh))
    inside = [
        c.intervals[DURATION][0] <= e.truth["duration"] <= c.intervals[DURATION][1]
        for c, e in zip(found, fresh, strict=True)
    ]
    assert 0.7 < sum(inside) / len(inside) < 0.95


def test_a_saved_model_predicts_the_same_and_bytes_are_equal(biased: AnalyticModel, tmp_path: Path) -> None:
    biased.save(tmp_path / "a.json.gz")
    again = AnalyticModel.load(tmp_path / "a.json.gz")
    again.save(tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert ask(again, 1.0) == ask(biased, 1.0)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not gzip",
        gzip.compress(bytes(4000), mtime=0)[:12] + b"x" * 40,
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b"[]", mtime=0),
        gzip.compress(b"{}", mtime=0),
        gzip.compress(json.dumps({"version": 999}).encode(), mtime=0),
        gzip.compress(
            json.dumps({"version": 1, "corrections": {"duration": "tree"}, "widths": {}, "columns": {}}).encode(),
            mtime=0,
        ),
    ],
    ids=["empty", "not_gzip", "bad_blocks", "deep", "list", "no_version", "future_version", "no_trees"],
)
def test_a_damaged_model_is_bad_input(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "predictor.json.gz"
    path.write_bytes(data)
    with pytest.raises(BadInput, match="not a usable model"):
        AnalyticModel.load(path)


def test_a_small_file_that_unpacks_to_a_large_text_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MOST_TEXT_BYTES", 1 << 20)
    path = tmp_path / "predictor.json.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20), mtime=0) * 64)
    tracemalloc.start()
    try:
        with pytest.raises(BadInput, match="longer than"):
            AnalyticModel.load(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_too_few_examples_are_bad_input() -> None:
    with pytest.raises(BadInput, match="too few"):
        AnalyticModel.fit(made(3, 0.1, 0.0))


SIZES = st.floats(1, 1e12, allow_nan=False)


@given(st.fixed_dictionaries(dict.fromkeys(NAMES, SIZES)), st.sampled_from(["gfx90a", "gfx942"]))
def test_metrics_and_quantities_agree(found: dict[str, float], arch: str) -> None:
    found["l1_requests"] = min(found["l1_requests"], found["lookups"])
    found["l2_misses"] = min(found["l2_misses"], found["l2_requests"])
    metrics = metrics_of(found, arch)
    assert set(metrics) == set(answer_ids())
    again = metric_quantities(metrics, found["duration"], arch)
    for name, value in found.items():
        share = {"l1_requests": "lookups", "l2_misses": "l2_requests"}.get(name)
        tolerance = 1e-9 * (found[share] if share else value)
        assert again[name] == pytest.approx(value, rel=1e-9, abs=tolerance)


def test_thresholds_and_intervals() -> None:
    ratios = np.array([0.005, -0.3, 0.02])
    assert list(apply_threshold(ratios, 0.02)) == [0.0, -0.3, 0.02]
    assert best_threshold(np.array([0.5, 0.5]), np.array([0.5, 0.5])) < 0.5
    assert best_threshold(np.array([0.5, -0.5]), np.array([0.0, 0.0])) == math.inf
    assert best_threshold(np.array([1.0]), np.array([math.nan])) == math.inf
    assert prediction_interval("L2_Cache_Hit_Rate", 95.0, 10.0) == (85.0, 100.0)
    low, high = prediction_interval(DURATION, 100.0, math.log(2))
    assert (low, high) == pytest.approx((50.0, 200.0))
