"""Previews that were made before an interruption are not made again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from training_corpus import sample

from hipsynth.core.errors import BadInput
from hipsynth.training.analytic import preview_journal
from hipsynth.training.analytic.examples import preview_samples
from hipsynth.training.analytic.preview_journal import PreviewFeatures, PreviewJournal

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
