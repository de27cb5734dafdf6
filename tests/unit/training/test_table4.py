"""The protocol of the paper's Table 4: renamed copies in the pool, a random split, sets without relatives, rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.core.errors import BadInput
from hipsynth.core.program import Program, write_programs
from hipsynth.training.data.dataset import LabelledSample, measure_leak
from hipsynth.training.data.random_split import add_copies, split_at_random
from hipsynth.training.evaluation.table4 import (
    PAPER,
    PRINTED,
    RANDOM,
    collect_sets,
    pool_of,
    predict_baselines,
    rows_of_metrics,
    rows_of_sets,
    score_sets,
    share_code,
)
from hipsynth.training.models.base import TinyShape
from hipsynth.training.models.config import load_config
from hipsynth.training.models.train import train_model

POOL = made.samples(40, 3)


def copies_of(samples: list[LabelledSample], folder: Path) -> Path:
    """A folder of renamed copies of the samples' programs, as `synth augment` writes it."""
    write_programs(folder, (Program(s.text, s.origin, s.family, lineage=s.lineage) for s in samples))
    return folder


def test_copies_have_their_originals_labels(tmp_path: Path) -> None:
    renamed = [s for s in made.samples(3, 3) if s.program_id != s.lineage and (s.arch, s.flags) == made.TARGETS[0]]
    originals = made.samples(3, 1)
    pool = add_copies(originals, copies_of(renamed, tmp_path))
    assert len(pool) == 3 * len(originals)  # the original and two copies on each target
    by_key = {s.key: s for s in made.samples(3, 3)}
    assert {s.key for s in pool} == set(by_key)
    assert all(s.metrics == by_key[s.key].metrics and s.text == by_key[s.key].text for s in pool)


def test_a_copy_reads_the_arguments_of_the_labelled_run(tmp_path: Path) -> None:
    original = replace(made.sample(0, 0, "gfx90a", "-O3"), arguments="17")
    renamed = made.sample(0, 1, "gfx90a", "-O3")
    text = renamed.text.replace("const int n = 65536;", "const int n = argc > 1 ? std::atoi(argv[1]) : 65536;")
    pool = add_copies([original], copies_of([replace(renamed, text=text)], tmp_path))
    assert "std::atoi(argv[1]) : 17;" in pool[1].text


def test_copies_of_other_programs_are_an_error(tmp_path: Path) -> None:
    folder = copies_of([made.sample(7, 1, "gfx90a", "-O3")], tmp_path)
    with pytest.raises(BadInput, match="no renamed copy of the corpus' programs"):
        add_copies([made.sample(0, 0, "gfx90a", "-O3")], folder)


def test_the_random_split_leaves_relatives_in_training() -> None:
    parts = split_at_random(POOL)
    keys = [{s.key for s in parts[name]} for name in ("train", "valid", RANDOM)]
    assert sum(map(len, keys)) == len(set().union(*keys)) == len(POOL)
    assert 0.05 < len(parts[RANDOM]) / len(POOL) < 0.15
    assert measure_leak(parts["train"], parts[RANDOM]).share > 0.9
    assert split_at_random(reversed(POOL)) == parts
    assert not parts["lineage"]


def test_other_sets_have_no_program_of_the_pool_under_any_name() -> None:
    strangers = [replace(s, origin="handwritten") for s in made.samples(60, 2) if s.lineage not in _lineages(POOL)]
    relatives = [replace(s, origin="handwritten") for s in POOL[:20]]
    tests = collect_sets(POOL, strangers + relatives)
    assert set(tests.sets) == {RANDOM, "handwritten"}
    assert tests.sets["handwritten"]
    assert measure_leak(tests.train, tests.sets["handwritten"]).share == 0.0
    assert _lineages(tests.sets["handwritten"]) <= _lineages(strangers)


def _lineages(samples: object) -> set[str]:
    return {s.lineage for s in samples}  # type: ignore[attr-defined]


def test_families_of_other_tests_are_left_out_of_the_pool() -> None:
    held_out = replace(POOL[0], family="histogram")
    assert pool_of([POOL[1], held_out]) == [POOL[1]]


def test_copies_share_their_originals_disassembly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("hipsynth.training.evaluation.table4.cached_disassembly", lambda *what: asked.append(what))
    disassemble = share_code(POOL)
    disassemble(POOL[4].text, "gfx90a", "-O3")
    disassemble("another program", "gfx90a", "-O3")
    assert POOL[4].lineage != POOL[4].program_id
    assert asked == [(POOL[0].text, "gfx90a", "-O3"), ("another program", "gfx90a", "-O3")]


def test_a_lookup_repeats_the_papers_figure_where_copies_are_known() -> None:
    tests = collect_sets(POOL, [])
    scores = score_sets(tests, predict_baselines(tests, lambda *_: None))
    assert scores[RANDOM].relatives > 0.9
    rows = {who: [float(share) for share in shares] for _, _, _, who, *shares in rows_of_sets(scores)}
    assert rows["nearest neighbour"][0] > 90.0 > rows["constant"][0]
    unrounded, rounded, strict = rows[PRINTED]
    assert rounded == 100.0 > unrounded >= strict  # three decimals lose small values


def test_the_papers_figures_stand_beside_ours() -> None:
    tests = collect_sets(POOL, [])
    rows = rows_of_metrics(score_sets(tests, predict_baselines(tests, lambda *_: None))[RANDOM], PRINTED)
    assert [row[0].replace(" ", "_") for row in rows[:-1]] == list(PAPER)
    assert rows[0] == ["L1 Cache Hit Rate", *(f"100.0 ({paper})" for paper in PAPER["L1_Cache_Hit_Rate"])]
    assert rows[-1][-1] == "100.0 (94.6)"  # the paper's mean of ten metrics


def test_the_recipe_trains_on_the_random_split(tmp_path: Path) -> None:
    needs.package("torch")
    config = load_config("table4")
    shape = TinyShape(vocab=800, hidden=32, layers=1, heads=2, ff=64)
    config = replace(config, max_steps=2, batch=2, bf16="no", tiny=shape)
    record = train_model(tmp_path, config, tmp_path / "model", samples=POOL, divide=split_at_random)
    assert record["steps"] == 2
    assert record["leak"][RANDOM] > 0.9
