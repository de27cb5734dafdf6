"""Previews that were made before an interruption are not made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from training_corpus import TARGETS, sample

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.core.workers import ItemOutcome
from hipsynth.training.analytic import examples, preview_journal, train
from hipsynth.training.analytic.examples import group_builds, preview_build, preview_samples
from hipsynth.training.analytic.predict import SHIPPED
from hipsynth.training.analytic.preview_journal import PREVIEWS, PreviewFeatures, PreviewJournal
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.evaluation.evaluate import ScoredAnalyticPredictor, open_predictor
from hipsynth.training.models.config import load_config

SAMPLE = sample(0, 0, "gfx90a", "-O3")
PREVIEW = PreviewFeatures({"groups": 4.0}, {"duration": 1.5}, "hbm", 1.25)


def test_previews_are_read_back_and_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "model" / "previews.jsonl"
    other = sample(1, 0, "gfx90a", "-O3")
    PreviewJournal(path).keep_previews([(SAMPLE, PREVIEW), (other, None)])
    with path.open("a") as file:
        file.write('{"launches": "cut')
    journal, notes = PreviewJournal(path), list[str]()
    assert preview_samples([other, SAMPLE], 1, notes.append, journal) == [None, PREVIEW]
    assert notes == ["2 of 2 samples were previewed before"]
    assert replace(SAMPLE, arguments="4096") not in journal and replace(SAMPLE, flags="-O2") not in journal
    journal.remove_file()
    assert not path.exists()


def test_a_full_disk_is_no_missing_preview(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BadInput("no space for it", reason=reason)

    monkeypatch.setattr(examples, "previews_of", fail)
    [build] = group_builds([SAMPLE])
    reason = Reason.NO_KERNEL
    assert preview_build(build) == [None]
    reason = Reason.DISK_FULL
    with pytest.raises(BadInput, match="no space"):
        preview_build(build)
    full = ItemOutcome[list[PreviewFeatures | None]](0, error=BadInput("no space for it", reason=reason))
    monkeypatch.setattr(examples, "map_unordered", lambda *_: iter([full]))
    with pytest.raises(BadInput, match="no space"):
        preview_samples([SAMPLE], 1, journal=PreviewJournal(tmp_path / "previews.jsonl"))
    assert not (tmp_path / "previews.jsonl").exists()


def test_previews_of_another_version_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "previews.jsonl"
    PreviewJournal(path).keep_previews([(SAMPLE, PREVIEW)])
    monkeypatch.setattr(preview_journal, "preview_version", lambda: "labels-99-preview-1")
    assert SAMPLE not in PreviewJournal(path)


def test_a_damaged_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "previews.jsonl"
    path.write_text('{"launches": 1}\n')
    with pytest.raises(BadInput, match="line 1 is no JournalEntry"):
        PreviewJournal(path)


def test_a_training_keeps_its_previews_in_the_model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [sample(index, 0, *TARGETS[0]) for index in range(40)]
    known: list[int] = []

    def preview_half(
        batch: Sequence[LabelledSample], workers: int, note: Callable[[str], None], journal: PreviewJournal
    ) -> None:
        known.append(sum(one in journal for one in batch))
        journal.keep_previews((one, PREVIEW) for one in batch[: len(batch) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "preview_samples", preview_half)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            train.train_analytic(tmp_path, load_config("analytic"), tmp_path / "model", samples)
    assert known[0] == 0 and known[1] > 0 and (tmp_path / "model" / PREVIEWS).exists()


def test_an_evaluation_reads_the_journal(tmp_path: Path) -> None:
    path = tmp_path / PREVIEWS
    PreviewJournal(path).keep_previews([(SAMPLE, PREVIEW)])
    predictor = open_predictor(SHIPPED, PreviewJournal(path))
    assert isinstance(predictor, ScoredAnalyticPredictor) and predictor.previews([SAMPLE]) == [PREVIEW]
