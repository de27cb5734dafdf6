"""Whatever happens to a corpus's files, no shard is lost and every item is read exactly once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from corpus_samples import METRICS, content, fill, item
from profiling_samples import program

from hipsynth.core.errors import BadInput
from hipsynth.core.journal import Journal
from hipsynth.core.store import SCHEMA_VERSION, Corpus, CorpusWriter, corpus

ITEMS = [item(n, reason="timeout" if n % 5 == 0 else "", kernels=1 + n % 2) for n in range(40)]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "ROWS_PER_SHARD", 8)


def rows(path: Path) -> list[tuple[str, int]]:
    table = Corpus.open(path).measurements()
    return list(zip(table["measurement_id"].to_pylist(), table["kernel_index"].to_pylist(), strict=True))


DAMAGE = {
    "missing": None,
    "empty": b"",
    "truncated": -40,
    "garbage": b"\0\xff not JSON",
    "other JSON": b"[]",
    "incomplete": b'{"schema_version": 3, "metric_ids": [], "shards": {}}',
    "too deep": b"[" * 100_000,
    "wrong types": b'{"schema_version": 3, "metric_ids": [7], "shards": {"programs": 1}}',
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(corpus, "ROWS_PER_SHARD", 8)
        fill(folder, ITEMS, programs=40)
    return folder


@pytest.mark.parametrize("how", DAMAGE)
def test_a_lost_manifest_is_rebuilt_byte_for_byte(filled: Path, tmp_path: Path, how: str) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    before, expected = content(tmp_path), rows(tmp_path)
    manifest = tmp_path / "manifest.json"
    damage = DAMAGE[how]
    if damage is None:
        manifest.unlink()
    else:
        manifest.write_bytes(manifest.read_bytes()[:damage] if isinstance(damage, int) else damage)
    found = Corpus.open(tmp_path)
    assert rows(tmp_path) == expected
    assert (found.programs().num_rows, found.failures().num_rows, found.metric_ids) == (40, 8, METRICS)
    assert "rebuilt from the shards in the folder" in found.notes[0] and "manifest.json" in found.notes[0]
    with CorpusWriter(tmp_path, METRICS) as writer:
        assert writer.notes == found.notes
        assert [writer.failure(one.id) for one in ITEMS] == [one.reason for one in ITEMS]
    assert content(tmp_path) == before
    assert Corpus.open(tmp_path).notes == ()


def test_adding_to_a_corpus_without_manifest_keeps_what_it_held(tmp_path: Path) -> None:
    fill(tmp_path / "whole", ITEMS, programs=40)
    fill(tmp_path / "part", ITEMS[:30], programs=40)
    (tmp_path / "part" / "manifest.json").unlink()
    fill(tmp_path / "part", ITEMS[30:])
    assert content(tmp_path / "part") == content(tmp_path / "whole")


def test_shards_of_an_interrupted_rewrite_count_once(tmp_path: Path) -> None:
    """Old and new shards lie side by side, an item has failed in the old ones, and the manifest is lost."""
    fill(tmp_path / "old", [*ITEMS[:30], item(35, reason="worker_died")], programs=30)
    fill(tmp_path / "new", ITEMS, programs=40)
    whole, expected = content(tmp_path / "new"), rows(tmp_path / "new")
    for name, data in content(tmp_path / "old").items():
        if name.endswith(".parquet"):
            (tmp_path / "new" / name).write_bytes(data)
    (tmp_path / "new" / "manifest.json").unlink()
    found = Corpus.open(tmp_path / "new")
    assert rows(tmp_path / "new") == expected
    assert sorted(found.programs()["id"].to_pylist()) == sorted(program(n).id for n in range(40))
    assert sorted(found.failures()["measurement_id"].to_pylist()) == sorted(one.id for one in ITEMS if one.reason)
    fill(tmp_path / "new", [])
    assert content(tmp_path / "new") == whole


def test_leftovers_of_an_interrupted_rewrite_are_removed_only_if_stored(tmp_path: Path) -> None:
    fill(tmp_path / "more", ITEMS[20:])
    fill(tmp_path / "c", ITEMS[:20], programs=20)
    extra = {name for name in content(tmp_path / "more") if name.endswith(".parquet")}
    for name in extra:  # their items are not in the corpus
        (tmp_path / "c" / name).write_bytes((tmp_path / "more" / name).read_bytes())
    (tmp_path / "c" / "programs" / "x.parquet.77-78.partial").write_text("half")
    with CorpusWriter(tmp_path / "c", METRICS) as writer:
        writer.add(item(50))
        assert {str(path.relative_to(tmp_path / "c")) for path in writer.unlisted_files()} == extra
    assert extra < set(content(tmp_path / "c"))
    assert not list((tmp_path / "c").rglob("*.partial"))
    fill(tmp_path / "c", ITEMS[20:], programs=40)  # now they are
    fill(tmp_path / "whole", [*ITEMS, item(50)], programs=40)
    assert content(tmp_path / "c") == content(tmp_path / "whole")


def test_foreign_files_stay(tmp_path: Path) -> None:
    fill(tmp_path, ITEMS[:3], programs=3)
    foreign = tmp_path / "programs" / "mine.parquet"
    foreign.write_bytes(next((tmp_path / "programs").iterdir()).read_bytes())
    (tmp_path / "manifest.json").unlink()
    assert Corpus.open(tmp_path).programs().num_rows == 3
    with CorpusWriter(tmp_path, METRICS) as writer:
        assert writer.unlisted_files() == [foreign]
    assert foreign.exists()


def test_a_damaged_shard_without_manifest_is_named_and_repaired(tmp_path: Path) -> None:
    fill(tmp_path, ITEMS, programs=40)
    before = content(tmp_path)
    (tmp_path / "manifest.json").unlink()
    shard = sorted((tmp_path / "measurements").iterdir())[0]
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(BadInput, match=shard.name) as caught:
        Corpus.open(tmp_path)
    assert "--repair" in caught.value.remedy
    assert 0 < Corpus.open(tmp_path, skip_damaged=True).measurements().num_rows < len(ITEMS) + 16
    with CorpusWriter(tmp_path, METRICS, repair=True) as writer:
        assert writer.dropped_parts == (f"measurements/{shard.name}",)
        for one in ITEMS:
            if writer.failure(one.id) is None:
                writer.add(one)
    assert content(tmp_path) == before


def test_a_dropped_shard_is_set_aside(tmp_path: Path) -> None:
    fill(tmp_path, ITEMS[:4])
    shard = next((tmp_path / "measurements").iterdir())
    shard.write_bytes(b"garbage")
    with CorpusWriter(tmp_path, METRICS, repair=True):
        pass
    assert (tmp_path / corpus.LOST / "measurements" / shard.name).read_bytes() == b"garbage"
    assert Corpus.open(tmp_path).measurements().num_rows == 0


def test_the_first_run_needs_no_note(tmp_path: Path) -> None:
    """Killed while it wrote its first shards: there is no manifest yet, but the journal holds everything."""
    fill(tmp_path / "whole", ITEMS, programs=40)
    writer = CorpusWriter(tmp_path / "c", METRICS)
    for one in ITEMS:
        writer.add(one)
    for number in range(40):
        writer.add_program(program(number).record(), program(number).text)
    list(writer._write_kind("measurements"))
    writer.close(compact=False)
    assert Corpus.open(tmp_path / "c").notes == ()
    assert rows(tmp_path / "c") == rows(tmp_path / "whole")
    fill(tmp_path / "c", [])
    assert content(tmp_path / "c") == content(tmp_path / "whole")


def test_a_manifest_of_another_version_is_not_rebuilt(tmp_path: Path) -> None:
    fill(tmp_path, ITEMS[:3])
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 99}))
    for opener in (Corpus.open, lambda path: CorpusWriter(path, METRICS)):
        with pytest.raises(BadInput) as caught:
            opener(tmp_path)
        assert caught.value.reason == "schema_version"
    assert "99" in manifest.read_text()


@pytest.mark.parametrize("garbage", [b"garbage\n", b"\0" * 4096 + b"\n", b"00000000 {}\n"])
def test_both_remedies_for_a_damaged_journal_work(tmp_path: Path, garbage: bytes) -> None:
    writer = CorpusWriter(tmp_path / "my corpus", METRICS)
    for one in ITEMS[:6]:
        writer.add(one)
    writer.close(compact=False)
    path = tmp_path / "my corpus" / corpus.JOURNAL
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], garbage, *lines[3:], b"torn"]))
    damaged = path.read_bytes()
    with pytest.raises(BadInput, match=r"journal\.log:4") as caught:
        Corpus.open(path.parent)
    command = caught.value.remedy.partition("`")[2].partition("`")[0]
    run_shell(command)
    assert len(Corpus.open(path.parent).measurements()["measurement_id"].unique()) == 4
    path.write_bytes(damaged)
    with CorpusWriter(path.parent, METRICS, repair=True) as writer:
        assert writer.dropped_parts == ("journal.log:4",)
    fill(tmp_path / "whole", ITEMS[:6])
    assert content(path.parent) == content(tmp_path / "whole")


def run_shell(command: str) -> None:
    assert command.startswith("sed -i ")
    subprocess.run(["/bin/sh", "-c", command], check=True)


def test_a_record_of_something_else_is_a_damaged_record(tmp_path: Path) -> None:
    with Journal(tmp_path / corpus.JOURNAL) as journal:
        journal.append({"kind": "header", "schema_version": SCHEMA_VERSION, "metric_ids": list(METRICS)})
        journal.append({"kind": "item", "row": {"program_id": 7}})
    with pytest.raises(BadInput, match=r"journal\.log:2"):
        Corpus.open(tmp_path)
    with pytest.raises(BadInput, match=r"journal\.log:2"):
        CorpusWriter(tmp_path, METRICS)
