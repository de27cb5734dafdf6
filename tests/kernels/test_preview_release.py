"""A release of previews: made by seed on any number of workers, resumed, checked, repaired, described by its card."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hipsynth.core.cache import REPOSITORY
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.store import Corpus, CorpusWriter
from hipsynth.core.store.release import FACTS, Release, ReleaseFacts
from hipsynth.profiling import metrics
from hipsynth.profiling.matrix.collect import MatrixOptions
from hipsynth.simulator import label_model
from hipsynth.synth.generate.writer import grammar_digest
from hipsynth.synth.release.dataset_card import render_card
from hipsynth.synth.release.make_shards import make_shards
from hipsynth.synth.release.pack import pack_release
from hipsynth.synth.release.release_plan import (
    MOST_SHARDS,
    Folders,
    ReleasePlan,
    ShardKind,
    choose_shards,
    load_plan,
    load_plans,
)
from hipsynth.synth.release.verify import check_seeds, choose_ids, find_leaks, verify_labels

SMALL = ReleasePlan(
    programs=2,
    first_seed=1_000_000,
    sizes=2,
    shards_per_file=2,
    kinds=(ShardKind(("-O3",), ("mi250",)),),
    backend="preview",
    shards=2,
)
BOTH = (0, 1)
KEPT = REPOSITORY / "corpus" / "release" / "previews"


def ignore(text: str) -> None:
    """Takes a note."""


def pack_both(work: Path, out: Path) -> Release:
    assert pack_release(SMALL, work, out, BOTH, ignore).added == list(BOTH)
    return Release.load(out)


def parquet_bytes(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*.parquet"))}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both shards of the small plan, by one worker."""
    folder = tmp_path_factory.mktemp("work")
    assert make_shards(SMALL, folder, BOTH, MatrixOptions()) == 2
    return folder


@pytest.fixture(scope="module")
def release(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return pack_both(work, tmp_path_factory.mktemp("packed") / "release")


def test_the_plan_of_previews_is_large_and_shares_no_seed() -> None:
    plan, labels = load_plan("previews"), load_plan()
    assert plan.backend == "preview" and plan.shards * plan.programs >= 60_000
    assert sum(plan.planned_items(shard) for shard in range(plan.shards)) >= 300_000
    assert plan.shards <= MOST_SHARDS and plan.first_seed >= labels.first_seed + MOST_SHARDS
    assert choose_shards(plan, "") == range(plan.shards) and choose_shards(plan, "4:6") == range(4, 6)
    with pytest.raises(UsageError, match="no last shard"):
        choose_shards(labels, "")
    with pytest.raises(UsageError, match="no plan called") as found:
        load_plan("preview")
    assert found.value.remedy == f"one of: {', '.join(load_plans())}"


def test_rows_are_previews_with_the_hash_of_their_code(release: Release) -> None:
    rows = release.measurements().to_pylist()
    assert {row["backend"] for row in rows} == {"preview"}
    assert {row["backend_version"] for row in rows} == {label_model.preview_version()}
    labels = release.read("labels").to_pylist()
    assert all(re.fullmatch("[0-9a-f]{16}", row["code"]) and row["duration_ns"] > 0 for row in labels)
    assert all(row["duration_error"] is None and row["hbm_read_bytes"] is None for row in labels)
    assert release.opcodes() >= {"s_endpgm"}


def test_shards_depend_on_neither_workers_nor_order(release: Release, tmp_path: Path) -> None:
    for shard in reversed(BOTH):
        make_shards(SMALL, tmp_path, [shard], MatrixOptions(workers=2))
    pack_both(tmp_path, tmp_path / "release")
    assert parquet_bytes(tmp_path / "release") == parquet_bytes(release.root)


class CountedProgress:
    """Counts items; interrupts the run at one."""

    def __init__(self, interrupt_at: int = 0) -> None:
        self.interrupt_at, self.steps, self.skipped = interrupt_at, 0, 0

    def step(self, note: str = "") -> None:
        self.steps += 1
        if self.steps == self.interrupt_at:
            raise KeyboardInterrupt

    def skip(self, items: int) -> None:
        self.skipped += items


def test_an_interrupted_run_is_continued(release: Release, tmp_path: Path) -> None:
    planned = []
    with pytest.raises(KeyboardInterrupt):
        make_shards(SMALL, tmp_path, BOTH, MatrixOptions(), lambda items: CountedProgress(3))
    assert not Folders(tmp_path).done_marker(0).exists()
    before = Corpus.open(Folders(tmp_path).corpus(0)).measurements()["measurement_id"].to_pylist()
    assert before
    shown = CountedProgress()

    def start(items: int) -> CountedProgress:
        planned.append(items)
        return shown

    assert make_shards(SMALL, tmp_path, BOTH, MatrixOptions(), start) == 2
    assert planned == [sum(map(SMALL.planned_items, BOTH))] == [shown.steps + shown.skipped]
    assert shown.skipped >= len(before)
    assert set(before) <= set(Corpus.open(Folders(tmp_path).corpus(0)).measurements()["measurement_id"].to_pylist())
    continued = pack_both(tmp_path, tmp_path / "release")
    assert parquet_bytes(continued.root) == parquet_bytes(release.root)
    origins = [continued.facts.shard(shard).origin for shard in BOTH]
    assert origins[0] and origins[0].seconds is None and origins[1] and origins[1].seconds
    assert make_shards(SMALL, tmp_path, BOTH, MatrixOptions()) == 0


def test_a_sample_is_rebuilt_and_drawn_again(release: Release) -> None:
    ids = choose_ids(release, "", 2)
    assert [(row.status, row.differences, row.notes) for row in verify_labels(release, ids, ignore)] == [
        ("same", [], []),
        ("same", [], []),
    ]
    every = sorted(set(release.read("labels")["id"].to_pylist()))
    assert [(check.shard, check.status) for check in check_seeds(release, every)] == [(0, "same"), (1, "same")]


def test_programs_of_another_seed_are_named(release: Release) -> None:
    opened = Release.load(release.root)
    opened.facts = with_origin(opened.facts, seed=7)
    (first,) = [check for check in check_seeds(opened, ids_of(opened, 1)) if check.shard == 1]
    assert first.status == "differs" and len(first.programs) == SMALL.programs
    opened.facts = with_origin(opened.facts, grammar="0" * 16)
    assert [check.status for check in check_seeds(opened, ids_of(opened, 1))] == ["not checked"]


def with_origin(facts: ReleaseFacts, **changes: Any) -> ReleaseFacts:
    """The facts with another origin of shard 1."""
    shard = facts.shard(1)
    assert shard.origin
    return replace(facts, shards={**facts.shards, "0001": replace(shard, origin=replace(shard.origin, **changes))})


def ids_of(release: Release, shard: int) -> list[str]:
    return [row["id"] for row in release.read("labels").to_pylist() if row["shard"] == shard]


def test_the_card_counts_what_there_is(release: Release) -> None:
    card = (release.root / "README.md").read_text()
    labels, programs = release.read("labels"), release.read("programs")
    lineages, families = (len(set(programs[name].to_pylist())) for name in ("lineage", "family"))
    assert (
        f"{labels.num_rows:,} labels of {programs.num_rows:,} programs, {lineages:,} lineages, {families:,} families"
        in card
    )
    assert "pretty_name: hipsynth previews" in card and "**All labels are previews" in card
    assert "synth release make --plan previews" in card and "It has 2 of the 610 shards" in card
    facts = json.loads((release.root / FACTS).read_text())["shards"]
    seconds = sum(shard["origin"]["seconds"] for shard in facts.values())
    assert f"2 of these shards say what they took: {seconds:,.0f} s, {seconds:,.0f} s of workers." in card
    tools = facts["0000"]["tools"]
    row = f"| 0-1 | {grammar_digest()} | {label_model.preview_version()} | {tools['compiler']} | {tools['headers']} |"
    assert row in card


def test_a_damaged_shard_is_named_and_made_again(work: Path, release: Release, tmp_path: Path) -> None:
    for shard in BOTH:
        folder, copy = Folders(work), Folders(tmp_path)
        for source in (folder.programs(shard), folder.corpus(shard)):
            for path in (path for path in source.rglob("*") if path.is_file()):
                target = tmp_path / path.relative_to(work)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(path.read_bytes())
        copy.done_marker(shard).write_bytes(folder.done_marker(shard).read_bytes())
    part = max(Folders(tmp_path).corpus(1).rglob("*.parquet"), key=lambda path: path.stat().st_size)
    part.write_bytes(part.read_bytes()[:-9] + b"123456789")
    with pytest.raises(BadInput, match=r"shard 0001: .*" + part.name) as found:
        pack_release(SMALL, tmp_path, tmp_path / "release", BOTH, ignore)
    assert found.value.reason == "corrupt" and found.value.remedy.startswith("synth release make --repair")
    assert make_shards(SMALL, tmp_path, BOTH, MatrixOptions()) == 0
    assert make_shards(SMALL, tmp_path, BOTH, replace(MatrixOptions(), repair=True)) == 1
    pack_both(tmp_path, tmp_path / "again")
    assert parquet_bytes(tmp_path / "again") == parquet_bytes(release.root)


def test_a_damaged_marker_is_an_error(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    with CorpusWriter(folders.corpus(0), metrics.all_ids()):
        folders.done_marker(0).write_text("{")
    with pytest.raises(BadInput, match=r"s0000\.done: damaged"):
        folders.read_origin(0)


def test_the_first_piece_in_the_repository_is_sound_and_small() -> None:
    opened = Release.load(KEPT)
    tables = {config: opened.read(config) for config in ("labels", "programs")}
    assert not find_leaks(opened)
    assert (KEPT / "README.md").read_text() == render_card(KEPT, opened.facts, tables)
    assert tables["labels"].num_rows >= 600 and set(opened.measurements()["backend"].to_pylist()) == {"preview"}
    assert sum(path.stat().st_size for path in KEPT.rglob("*") if path.is_file()) < 4e6
    (check,) = verify_labels(opened, choose_ids(opened, "", 1), ignore)
    assert check.status == "same" or check.notes, check
