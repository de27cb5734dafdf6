"""The tables of the default predictor, made from documents of `synth evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hipsynth.core.documents import to_json
from hipsynth.training.evaluation.documents import (
    BaselineScores,
    DurationScores,
    EvaluatedModel,
    EvaluationDocument,
    MetricScores,
    OrderScores,
    PartScores,
    PredictorScores,
    RankingScores,
)
from studies import prediction_tables

BOUNDS = ("2", "4", "6", "8", "10")


def metric(share: float) -> MetricScores:
    within = dict.fromkeys(BOUNDS, share)
    return MetricScores(
        n=10, zeros=0, within=within, within_rounded=within, within_strict=within, median_rel_error=0.5, spearman=1.0
    )


def evaluation(*splits: str) -> EvaluationDocument:
    part = PartScores(n=10, valid_json=None, metrics={"a": metric(0.9), "b": metric(0.7)})
    order = OrderScores(kendall_tau=0.5, regret=0.0)
    scores = PredictorScores(
        **vars(part),
        valid_json_n=0,
        leak=0.0,
        duration=DurationScores(**vars(metric(0.6)), without={"preview": metric(0.3)}),
        inside_intervals={"a": 0.8, "b": 0.9, "duration_ns": 0.75},
        no_preview=1,
        bottleneck_agreement=0.95,
        ranking={"problem sizes": RankingScores(groups=3, predictors={"model": order})},
        devices={"mi250": metric(0.4)},
    )
    weak = PartScores(n=10, valid_json=None, metrics={"a": metric(0.1), "b": metric(0.2)})
    baseline = BaselineScores(**vars(weak), splits=dict.fromkeys(splits, weak))
    return EvaluationDocument(
        model=EvaluatedModel("m", "", "analytic"),
        format="",
        train_samples=1234,
        backends=("sim",),
        splits=dict.fromkeys(splits, scores),
        baselines={"constant": baseline},
        about_baselines={},
        without_code_features=0,
        excluded={},
        fingerprint="",
    )


def test_a_row_has_the_model_beside_the_best_baseline() -> None:
    text = prediction_tables.render_tables([evaluation("lineage"), evaluation("handwritten")])
    rows = [line for line in text.splitlines() if line.startswith("| lineages |")]
    assert rows[0] == "| lineages | 10 | 1 | 80.0 | 70.0 (b) | 15.0 | 60.0 | 30.0 | 50.0 | 85.0 | 75.0 | 95.0 |"
    assert rows[1] == "| lineages | mi250 | 10 | 40.0 | 50.0 |"
    assert "| handwritten programs, default sizes | 10 |" in text
    assert "1,234 samples" in text and "problem sizes of lineages: 0.50 in 3 groups" in text


def test_only_the_marked_part_of_the_page_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, scores = tmp_path / "page.md", tmp_path / "scores.json"
    page.write_text("before\n<!-- tables: command -->\nstale table\n<!-- end -->\nafter\n")
    scores.write_text(json.dumps(to_json(evaluation("families"))))
    monkeypatch.setattr(prediction_tables, "PAGE", page)
    prediction_tables.main([str(scores), "--page"])
    text = page.read_text()
    assert text.startswith("before\n<!-- tables: command -->\n") and text.endswith("<!-- end -->\nafter\n")
    assert "stale table" not in text and "families and compositions" in text
