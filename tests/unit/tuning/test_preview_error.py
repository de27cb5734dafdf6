"""What a preview expects of itself: learned from errors, not from its own lineage, and kept in a file."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.tuning.prediction.preview_error import (
    PREVIEW_ERROR,
    JudgedPreview,
    PreviewErrorModel,
    expect_unseen_shares,
)


def judged_previews(count: int) -> list[JudgedPreview]:
    """Previews that are wrong where what they reread is much, twenty lineages."""
    draw = random.Random(7)
    rows = []
    for number in range(count):
        reread = draw.uniform(0, 10)
        features = {"missed_buffers": reread, "groups": draw.uniform(0, 10)}
        rows.append(JudgedPreview(features, f"lineage{number % 20}", 0.3 if reread > 6 else 1.0))
    return rows


def test_it_expects_little_of_previews_like_those_that_were_wrong() -> None:
    model = PreviewErrorModel.fit(judged_previews(400))
    wrong, right = model.expect_shares([{"missed_buffers": 9.0, "groups": 5.0}, {"missed_buffers": 2.0, "groups": 5.0}])
    assert wrong < 0.4 and right > 0.95


def test_unseen_shares_do_not_know_the_lineage_that_is_asked_for() -> None:
    """A lineage whose previews are wrong for a reason of its own is expected to be as right as the others."""
    others = judged_previews(400)
    strange = [JudgedPreview({"missed_buffers": 1.0, "groups": 500.0}, "strange", 0.0)] * 60
    assert PreviewErrorModel.fit([*others, *strange]).expect_shares([strange[0].features])[0] < 0.1
    assert min(expect_unseen_shares([*others, *strange])[len(others) :]) > 0.9


def test_a_model_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = judged_previews(100)
    model, features = PreviewErrorModel.fit(rows), [row.features for row in rows]
    model.save(tmp_path / PREVIEW_ERROR)
    first = (tmp_path / PREVIEW_ERROR).read_bytes()
    assert PreviewErrorModel.load(tmp_path / PREVIEW_ERROR).expect_shares(features) == model.expect_shares(features)
    PreviewErrorModel.fit(rows).save(tmp_path / PREVIEW_ERROR)
    assert (tmp_path / PREVIEW_ERROR).read_bytes() == first
    (tmp_path / PREVIEW_ERROR).write_bytes(b"no model")
    with pytest.raises(BadInput):
        PreviewErrorModel.load(tmp_path / PREVIEW_ERROR)


def test_too_few_previews_give_their_mean() -> None:
    rows = [JudgedPreview({"groups": 1.0}, "a", 0.5), JudgedPreview({"groups": 2.0}, "b", 1.0)]
    assert PreviewErrorModel.fit(rows).expect_shares([{}, {}]) == [0.75, 0.75]
    assert PreviewErrorModel.fit([]).expect_shares([{}]) == [1.0]
