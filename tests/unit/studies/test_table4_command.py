"""`python -m studies.table4`: its stages, what it adds up, and its tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.core.program import Program, write_programs
from hipsynth.training.models.base import TinyShape
from hipsynth.training.models.config import load_config
from studies import table4
from studies.markdown import write_tables


def test_the_corpus_is_made_by_four_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(table4, "run_synth", lambda *arguments: called.append([str(a) for a in arguments]))
    table4.make_corpus(tmp_path, table4.ReproductionSize(12, 4, 100), workers=1)
    assert [(words[0], Path(words[-3]).name) for words in called] == [
        ("generate", "1"),
        ("augment", "1"),
        ("profile", "@default"),
        ("profile", "--flags=-O3"),
    ]
    assert called[0][called[0].index("--count") + 1] == "12"
    assert called[1][called[1].index("--copies") + 1] == "4"
    assert str(tmp_path / "originals") in called[2]  # copies share these labels


def test_processor_time_adds_up_over_calls(tmp_path: Path) -> None:
    (tmp_path / "times.json").write_text('{"train": 1.0, "corpus": 2.0}')
    clock = table4.StageClock(tmp_path, "train")
    sum(range(200_000))
    clock.save_time()
    first = table4.read_times(tmp_path)
    assert first["train"] > 1.0
    assert first["corpus"] == 2.0
    clock.save_time()
    assert first["train"] <= table4.read_times(tmp_path)["train"] < 2.0


def test_the_page_has_a_place_for_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text(table4.PAGE.read_text())
    write_tables(page, "new\n")
    assert "-->\nnew\n<!-- end -->" in page.read_text()
    page.write_text("no place\n")
    with pytest.raises(ValueError, match="no place for tables"):
        write_tables(page, "new\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as `make_corpus` leaves it, of made-up labels, and toy recipes."""
    needs.package("torch")
    made.write_corpus(tmp_path / "corpus", made.samples(12, 1))
    copies = [s for s in made.samples(12, 3) if s.program_id != s.lineage and (s.arch, s.flags) == made.TARGETS[0]]
    write_programs(tmp_path / "programs", (Program(s.text, s.origin, s.family, lineage=s.lineage) for s in copies))
    strangers = [s for s in made.samples(120, 1) if s.lineage not in {c.lineage for c in copies}]
    hand = [made.sample(300, 0, arch, flags, "handwritten") for arch, flags in made.TARGETS]
    made.write_corpus(tmp_path / "handwritten", hand)
    monkeypatch.setattr(table4, "RELEASE", made.write_corpus(tmp_path / "release", strangers))
    monkeypatch.setattr(table4, "share_code", lambda pool: lambda *build: None)
    shape = TinyShape(vocab=800, hidden=32, layers=1, heads=2, ff=64)
    monkeypatch.setattr(
        table4, "load_config", lambda name: replace(load_config(name), max_steps=9, batch=2, tiny=shape)
    )
    return tmp_path


@pytest.mark.full
def test_two_models_are_trained_and_scored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table4.main([str(folder), "--stage", "score", "--json"])
    untrained = json.loads(capsys.readouterr().out)
    assert untrained["models"] == {}
    table4.main([str(folder), "--stage", "train", "--stage", "score", "--steps", "2"])
    printed = capsys.readouterr().out
    found = json.loads((folder / "table4.json").read_text())
    assert {name: (m["steps"], m["format"]) for name, m in found["models"].items()} == {
        "table4": (2, "fixed3"),
        "table4-sig3": (2, "sig3"),
    }
    assert found["models"]["table4-sig3"]["base"] == str(folder / "models" / "table4")
    assert found["sets"]["random"]["relatives"] == 1.0
    assert found["sets"]["handwritten"]["relatives"] == found["sets"]["lineage"]["relatives"] == 0.0
    who = {"table4", "table4-sig3", "constant", "nearest neighbour", "gradient boosting"}
    assert who < set(found["sets"]["lineage"]["predictors"])
    assert "**Table 4, table4**" in printed
    assert "| unseen lineages |" in printed
    assert "| language model `table4-sig3` |" in printed
    assert set(found["times"]) == {"train", "score"}
