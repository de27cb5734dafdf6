"""A release: packed from labelled shards, read as a corpus, checked, and split without leaks."""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import needs
import numpy as np
import pyarrow.parquet as pq
import pytest
import release_samples
from release_samples import PLAN, labelled

from hipsynth.cli.main import main
from hipsynth.core.cache import REPOSITORY
from hipsynth.core.errors import BadInput, PartialFailure, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.core.store import Corpus, CorpusWriter, held_out_device, held_out_family, splits_of
from hipsynth.core.store.release import FACTS, SUMS, Release
from hipsynth.profiling import metrics
from hipsynth.profiling.matrix.collect import MatrixOptions, MatrixSummary
from hipsynth.profiling.reports.corpus_statistics import corpus_statistics
from hipsynth.simulator import label_model
from hipsynth.synth.release import make_shards as make
from hipsynth.synth.release import staged_files, verify
from hipsynth.synth.release.column_dictionary import column_lines, describe_column
from hipsynth.synth.release.make_shards import make_shards
from hipsynth.synth.release.pack import PackResult, pack_release
from hipsynth.synth.release.release_plan import ReleasePlan, ShardKind, load_plan, shard_numbers
from hipsynth.synth.release.release_rows import kept_counters
from hipsynth.synth.release.verify import choose_ids, find_leaks, verify_labels
from hipsynth.training.data.dataset import load_samples, require_no_leak, split_samples

V1 = REPOSITORY / "corpus" / "release" / "v1"


def packed(work: Path, out: Path, *shards: int) -> PackResult:
    return pack_release(PLAN, work, out, shards, lambda text: None)


def content(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    for shard in range(3):
        labelled(folder, shard)
    return folder


@pytest.fixture(scope="module")
def whole(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "release"
    packed(work, folder, 0, 1, 2)
    return folder


@pytest.fixture
def release(whole: Path, tmp_path: Path) -> Path:
    """A copy of the packed release, which the test may change."""
    return Path(shutil.copytree(whole, tmp_path / "release"))


def test_a_release_reads_like_the_corpora_that_it_was_packed_from(work: Path, release: Path) -> None:
    ours = Corpus.open(release)
    before = {row["measurement_id"]: row for n in range(3) for row in rows_of(work / f"s{n:04}")}
    after = {row["measurement_id"]: row for row in rows_of(release)}
    assert before.keys() == after.keys()
    for key, row in after.items():
        source = before[key]
        same = ("program_id", "arguments", "arch", "device", "flags", "family", "dispatches", "grid", "block", "kernel")
        same += ("duration_ns", "backend", "backend_version", "compiler", "headers", "registers", "traffic", "source")
        assert {name: row[name] for name in same} == {name: source[name] for name in same}
        kept = {name: value for name, value in source["counters"] if name in kept_counters()}
        assert dict(row["counters"]) == kept
        assert row["limits"]["bottleneck"] == "hbm" and row["sampling"]["groups_simulated"] == 64
        assert dict(row["sampling"]["error"])["Duration"] == pytest.approx(0.0125)
        for metric in metrics.all_ids():
            assert row[metric] == (None if source[metric] is None else float(np.float32(source[metric])))
    texts = {p["id"]: (p["text"], p["choices"], p["runs"]) for n in range(3) for p in programs_of(work / f"s{n:04}")}
    assert {p["id"]: (p["text"], p["choices"], p["runs"]) for p in ours.programs().to_pylist()} == texts
    assert ours.failures().num_rows == 0 and "3 failed items" in ours.notes[0]


def rows_of(path: Path) -> list[dict[str, object]]:
    return [row for row in Corpus.open(path).measurements().to_pylist() if row["kernel_index"] == 0]


def programs_of(path: Path) -> list[dict[str, object]]:
    return list(Corpus.open(path).programs().to_pylist())


def test_the_bytes_do_not_depend_on_the_order_of_packing(work: Path, release: Path, tmp_path: Path) -> None:
    for shard in (2, 0, 1):
        packed(work, tmp_path / "other", shard)
    assert content(tmp_path / "other") == content(release)
    again = packed(work, release, 0, 1, 2, 3)
    assert (again.added, again.missing, again.shards) == ([], [3], 3)


def test_metrics_follow_from_the_kept_counters(release: Path) -> None:
    rows = Corpus.open(release).measurements().to_pylist()[:5]
    assert len(rows) == 5
    for row in rows:
        found = metrics.compute_metrics(dict(row["counters"]), row["duration_ns"], row["arch"])
        assert {name: row[name] for name in found} == pytest.approx(found, rel=1e-6)


def test_splits_follow_lineage_family_and_device(release: Path) -> None:
    opened = Release.load(release)
    assert not find_leaks(opened)
    for part in ("train", "validation", "test"):
        labels = opened.read("labels", part)
        assert not any(map(held_out_family, labels["family"].to_pylist()))
        assert not any(map(held_out_device, labels["device"].to_pylist()))
    assert splits_of(["paper", "histogram"], ["a", "a"]) == [splits_of(["paper"], ["a"])[0], "other"]
    assert splits_of(["histogram"], ["a"], ["mi210"]) == ["unseen_families"]
    assert {splits_of(["paper"], [str(n)], ["mi210"])[0] for n in range(40)} == {"unseen_devices", "other"}


def test_a_copy_of_a_program_lies_in_its_split(tmp_path: Path) -> None:
    base = release_samples.programs(0)
    labelled(tmp_path, 0, base)
    labelled(tmp_path, 1, [release_samples.copy_of(program) for program in base])
    packed(tmp_path, tmp_path / "release", 0, 1)
    opened = Release.load(tmp_path / "release")
    assert opened.read("programs").num_rows == 2 * len(base)
    assert len(set(opened.programs()["lineage"].to_pylist())) == len(base)
    assert not find_leaks(opened)


def test_a_copy_that_crosses_is_found(release: Path) -> None:
    """A release whose files were moved between splits is not sound, whatever its checksums say."""
    opened = Release.load(release)
    split = next(s for s in ("train", "validation") if opened.read("programs", s).num_rows)
    source = next(release.glob(f"programs/{split}-*"))
    table = pq.read_table(source)
    text = release_samples.copy_of(first_program(table.to_pylist()[0]["id"])).text
    shutil.copy(source, release / "programs" / "test-0100-0101.parquet")
    row = {**table.to_pylist()[0], "id": "0" * 16, "text": text}
    pq.write_table(table.from_pylist([row], schema=table.schema), release / "programs" / "test-0100-0101.parquet")
    opened._named = [*opened._named, "programs/test-0100-0101.parquet"]
    assert [line for line in find_leaks(opened) if "token stream" in line and line.startswith("test: 0000000000000000")]


def test_a_row_whose_program_has_no_such_run_is_no_crash(
    release: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    regenerate = verify._regenerate_program
    monkeypatch.setattr(verify, "_regenerate_program", lambda *words: replace(regenerate(*words), runs=()))
    [row] = choose_ids(Release.load(release), "", 1)
    with pytest.raises(SystemExit) as ended:
        main(["release", "verify", str(release), "--row", row, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 5 and document["leaks"] is None  # not looked for
    assert document["rows"][0]["status"] == "failed" and "arguments" in document["rows"][0]["differences"][-1]


def first_program(key: str) -> release_samples.Program:
    return next(p for shard in range(3) for p in release_samples.programs(shard) if p.id == key)


def test_damage_is_named(release: Path) -> None:
    path = next(release.glob("labels/*"))
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    with pytest.raises(BadInput, match=path.name) as found:
        Corpus.open(release)
    assert found.value.reason == "corrupt"
    rest = Corpus.open(release, skip_damaged=True)
    assert rest.damaged and rest.programs().num_rows


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("release.json", "{", "corrupt"),
        ("release.json", '{"format": 99}', "schema_version"),
        (SUMS, "0" * 64 + "  ../../outside\n", "outside"),
        (SUMS, "nothing\n", "corrupt"),
    ],
)
def test_bad_indexes_are_refused(release: Path, name: str, text: str, reason: str) -> None:
    (release / name).write_text(text)
    with pytest.raises(BadInput) as found:
        Corpus.open(release)
    assert found.value.reason == reason


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"failures": 1', '"failures": "1"'),
        ('"version": "', '"edition": "'),
        ('"labels": ', '"labels": null, "programs": '),
        ('"0001"', '"first"'),
    ],
)
def test_damaged_facts_are_refused(release: Path, old: str, new: str) -> None:
    text = (release / FACTS).read_text()
    assert old in text
    (release / FACTS).write_text(text.replace(old, new))
    with pytest.raises(BadInput) as found:
        Corpus.open(release)
    assert found.value.reason == "corrupt"


def test_rows_of_a_shard_that_the_facts_leave_out_are_damage(release: Path) -> None:
    facts = json.loads((release / FACTS).read_text())
    del facts["shards"]["0001"]
    (release / FACTS).write_text(json.dumps(facts))
    with pytest.raises(BadInput, match="nothing of shard 0001"):
        Corpus.open(release, skip_damaged=True).measurements()


def test_a_shard_of_two_versions_is_refused(tmp_path: Path) -> None:
    labelled(tmp_path, 0, mixed=True)
    with pytest.raises(BadInput, match="2 versions of the tools") as found:
        packed(tmp_path, tmp_path / "release", 0)
    assert found.value.reason == "mixed_versions" and not (tmp_path / "release" / "release.json").exists()


def test_shards_of_equal_labels_extend_a_release_and_others_do_not(tmp_path: Path) -> None:
    older = "dev-c93b8a40-fbdc18fc"  # of release v1
    present = label_model.current_version(older)
    for shard, base in enumerate((older, present, "labels-0")):
        labelled(tmp_path, shard, base=base)
    packed(tmp_path, tmp_path / "release", 0)
    assert packed(tmp_path, tmp_path / "release", 1).added == [1]
    named = [shard.tools["version"] for shard in Release.load(tmp_path / "release").facts.shards.values()]
    assert named == [older, present]
    with pytest.raises(BadInput, match="other labels than shard 0000") as found:
        packed(tmp_path, tmp_path / "release", 2)
    assert found.value.reason == "mixed_versions"


@pytest.mark.parametrize("interruption", range(1, 8))
def test_an_interrupted_packing_is_finished_by_the_next(
    work: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: int
) -> None:
    """Killed at each of the moments in which a file takes another's place."""
    packed(work, tmp_path / "release", 0)
    moves = []

    def replace_or_die(source: Path, target: Path) -> None:
        moves.append(target)
        if len(moves) == interruption:
            raise KeyboardInterrupt
        source.replace(target)

    with monkeypatch.context() as patched:
        patched.setattr(staged_files, "_move_file", replace_or_die)
        try:
            packed(work, tmp_path / "release", 1, 2)
        except KeyboardInterrupt:
            with contextlib.suppress(BadInput):  # some of the new files may be there
                Release.load(tmp_path / "release")
    packed(work, tmp_path / "release", 1, 2)
    assert content(tmp_path / "release") == content(whole)


def test_all_of_release_v1_has_labels_of_one_version() -> None:
    tools = [shard.tools for shard in Release.load(V1).facts.shards.values()]
    assert {label_model.current_version(one["version"]) for one in tools} == {"labels-3"}
    assert {label_model.current_version(one["backend_version"]).partition("+")[0] for one in tools} == {"labels-3"}


def test_what_is_not_by_the_generator_is_refused(tmp_path: Path) -> None:
    base = release_samples.programs(0)
    labelled(tmp_path, 0, [release_samples.replace(base[0], derivation=("rename:1",))])
    with pytest.raises(BadInput, match="not a base program"):
        packed(tmp_path, tmp_path / "release", 0)


def test_a_release_is_not_profiled_into(release: Path) -> None:
    with pytest.raises(BadInput, match="is a release"):
        CorpusWriter(release, metrics.all_ids())


def test_the_same_program_of_two_shards_is_kept_once(tmp_path: Path) -> None:
    base = release_samples.programs(0)
    labelled(tmp_path, 0, base)
    labelled(tmp_path, 1, base)
    packed(tmp_path, tmp_path / "one", 1)
    found = packed(tmp_path, tmp_path / "one", 0)
    packed(tmp_path, tmp_path / "both", 0, 1)
    assert found.programs == len(base) and found.repeated
    assert content(tmp_path / "one") == content(tmp_path / "both")


def test_statistics_count_skeletons_opcodes_and_labels(work: Path, release: Path) -> None:
    for path in (work / "s0000", release):
        found = corpus_statistics(Corpus.open(path))
        assert found.opcodes == 2
        assert found.labels == found.measurements.kernels > found.measurements.total
        assert 0 < found.skeletons <= found.programs.total


@pytest.mark.full
def test_training_reads_a_release_and_splits_it_by_its_lineages() -> None:
    samples = load_samples(V1)
    parts = split_samples(samples)
    opened = Release.load(V1)
    for ours, theirs in (("train", "train"), ("random", "train"), ("valid", "validation"), ("lineage", "test")):
        assert {s.program_id for s in parts[ours]} <= set(opened.read("programs", theirs)["id"].to_pylist())
    require_no_leak(parts["train"], parts["lineage"])
    assert parts["train"] and all(sample.text for sample in samples)


def test_the_plan_and_shard_numbers() -> None:
    assert len(load_plan().targets(0)) == 2 and len(load_plan().targets(1)) == 6 and len(load_plan().targets(3)) == 5
    assert load_plan().file_range(27) == (20, 39) and load_plan().seed(5) == 1005
    assert list(shard_numbers("3:6")) == [3, 4, 5] and list(shard_numbers("7")) == [7]
    for text in ("3:3", "x", "1:2:3", "-1:4", "0:999999"):
        with pytest.raises(UsageError):
            shard_numbers(text)


def test_the_verb_packs(work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as code:
        main(["release", "pack", "--shards", "0:4", "--work", str(work), "--out", str(tmp_path / "out"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert not code.value.code and found["added"] == [0, 1, 2] and found["missing"] == [3]


@pytest.mark.full
def test_release_v1_has_no_leak_between_splits() -> None:
    assert not find_leaks(Release.load(V1))


def test_release_v1_is_sound_and_small() -> None:
    """Checksums, and at most 80 MB for 200,000 labels in proportion to what there is."""
    opened = Release.load(V1)
    labels = opened.read("labels").num_rows
    size = sum(path.stat().st_size for path in V1.rglob("*.parquet"))
    assert size < 80e6 and size / labels < 400


@pytest.mark.full
def test_a_shard_is_made_packed_and_rebuilt(tmp_path: Path) -> None:
    """From the plan to the comparison of every value, with the simulator."""
    small = ReleasePlan(
        programs=2, first_seed=1000, sizes=2, shards_per_file=2, kinds=(ShardKind(("-O3",), ("mi250",)),)
    )
    assert (
        make_shards(small, tmp_path, [0], MatrixOptions()) == 1
        and make_shards(small, tmp_path, [0], MatrixOptions()) == 0
    )
    pack_release(small, tmp_path, tmp_path / "release", [0], lambda text: None)
    opened = Release.load(tmp_path / "release")
    assert opened.opcodes() >= {"s_endpgm"} and opened.read("programs").num_rows == 2
    found = verify_labels(opened, choose_ids(opened, "", 2), lambda text: None)
    assert [(one.status, one.notes) for one in found] == [("same", []), ("same", [])], found
    with pytest.raises(UsageError):
        choose_ids(opened, "0" * 16, 1)


def test_a_shard_with_failures_of_the_machine_is_not_finished(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed: dict[str, int] = {Reason.DISK_FULL: 2, Reason.TRAP: 1}
    monkeypatch.setattr(make, "generate_into", lambda *_, **__: None)
    monkeypatch.setattr(make, "collect_matrix", lambda *_: MatrixSummary(failed=failed))
    with pytest.raises(PartialFailure, match="2 of 2 shards are not finished: 0, 1") as raised:
        make_shards(PLAN, tmp_path, [0, 1], MatrixOptions())
    assert raised.value.cause == f"4 items failed, {Reason.DISK_FULL.meaning}"
    del failed[Reason.DISK_FULL]
    assert make_shards(PLAN, tmp_path, [0, 1], MatrixOptions()) == 2
    assert make_shards(PLAN, tmp_path, [0, 1], MatrixOptions()) == 0


@pytest.mark.full
def test_release_v1_rebuilds_and_loads_as_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    datasets = needs.package("datasets")
    for config, table in (("labels", "measurements"), ("programs", "programs")):
        found = datasets.load_dataset(str(V1), config, cache_dir=str(tmp_path))
        assert sum(len(part) for part in found.values()) == getattr(Corpus.open(V1), table)().num_rows
    with pytest.raises(SystemExit) as code:
        main(["release", "verify", str(V1), "--sample", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows[0]["status"] == "same" or rows[0]["notes"], rows
    assert not code.value.code or rows[0]["notes"]


def test_the_card_describes_every_column() -> None:
    release = REPOSITORY / "corpus" / "release" / "v1"
    card = (release / "README.md").read_text()
    for config in ("programs", "labels"):
        names = pq.read_schema(min((release / config).glob("*.parquet"))).names
        assert "\n".join(column_lines(config, names)) in card
    assert describe_column("labels", "HBM_GFLOPS").startswith("HBM GFLOPS in GFLOP/s; null where unknown")
    assert describe_column("labels", "SQ_WAVES") == "wavefronts launched; sum over the dispatches"
