"""The corpus folder: finished items are never lost or duplicated, and the bytes depend only on the content."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corpus_samples import METRICS, content, fill, item
from profiling_samples import VCOPY_GFX90A, program

from hipsynth.core.errors import BadInput
from hipsynth.core.journal import Journal, read_records
from hipsynth.core.kernel_record import Work
from hipsynth.core.store import Corpus, CorpusWriter, MeasurementKey, corpus, shards, splits
from hipsynth.core.store.schema import KINDS, schema_of


def test_stored_items_read_back(tmp_path: Path) -> None:
    fill(tmp_path, [item(0, kernels=2), item(1), item(2, reason="timeout")], programs=3)
    stored = Corpus.open(tmp_path)
    rows = stored.measurements().to_pylist()
    assert [(row["measurement_id"], row["kernel_index"]) for row in rows] == sorted(
        [(item(0).id, 0), (item(0).id, 1), (item(1).id, 0)]
    )
    row = next(row for row in rows if row["measurement_id"] == item(1).id)
    assert dict(row["counters"]) == {name: float(value) for name, value in VCOPY_GFX90A.items()}
    assert dict(row["provenance"]) == {"rocm": "none", "a": "b"}
    assert (row["grid"], row["block"], row["dispatches"]) == ([4096, 1, 1], [256, 1, 1], 3)
    assert (row["L1_Cache_Hit_Rate"], row["HBM_GFLOPS"]) == (1.0, None)
    assert (row["compiler"], row["headers"], row["backend"], row["lineage"]) == ("clang 22", "7.1", "recorded", "base0")
    assert stored.failures().to_pylist()[0]["reason"] == "timeout"
    texts = {row["id"]: row["text"] for row in stored.programs().to_pylist()}
    assert texts == {program(n).id: program(n).text for n in range(3)}
    assert not list(read_records(tmp_path / corpus.JOURNAL))


def test_the_id_covers_everything_that_affects_a_result() -> None:
    key = MeasurementKey(
        program_id="p", arguments="4096 'a b'", arch="gfx90a", flags="-O3", device="mi250", backend="sim",
        backend_version="1", compiler="clang", headers="7.1",
    )  # fmt: skip
    assert key.measurement_id() == "78050c7d043cd4ac", "corpora name their items by it"
    parts = asdict(key)
    others = {replace(key, **{name: f"{value}x"}).measurement_id() for name, value in parts.items()}
    assert len(others | {key.measurement_id()}) == len(parts) + 1 == 11


def test_bytes_do_not_depend_on_order_or_on_interruptions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "ROWS_PER_SHARD", 8)
    items = [item(n, reason="timeout" if n % 5 == 0 else "", kernels=1 + n % 2) for n in range(40)]
    fill(tmp_path / "a", items, programs=40)
    for part in (items[30:], items[:7], items[7:30][::-1]):
        fill(tmp_path / "b", part, programs=40)
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert len(list((tmp_path / "a" / "measurements").iterdir())) > 2
    assert Corpus.open(tmp_path / "a").measurements().num_rows == sum(len(one.kernels) for one in items)


def test_adding_nothing_changes_nothing(tmp_path: Path) -> None:
    fill(tmp_path, [item(n) for n in range(3)])
    before = content(tmp_path)
    fill(tmp_path, [item(1)])
    fill(tmp_path, [])
    assert content(tmp_path) == before


def test_a_writer_with_nothing_to_do_leaves_no_trace(tmp_path: Path) -> None:
    fill(tmp_path, [item(n) for n in range(3)], programs=3)

    def traces() -> dict[Path, tuple[int, bytes]]:
        paths = [tmp_path, *tmp_path.rglob("*")]
        return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"") for path in paths}

    before = traces()
    assert corpus.JOURNAL in {path.name for path in before}
    fill(tmp_path, [], programs=3)
    assert traces() == before


def test_growth_keeps_unaffected_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "ROWS_PER_SHARD", 10)
    fill(tmp_path, [item(n) for n in range(30)])
    before = content(tmp_path)
    extra = item(100)
    fill(tmp_path, [extra])
    kept = {name for name, data in content(tmp_path).items() if name.endswith("parquet") and before.get(name) == data}
    assert len(kept) == len(before) - 2  # the shard that holds the new row, and the manifest


def test_a_later_result_replaces_a_failure(tmp_path: Path) -> None:
    fill(tmp_path, [item(0, reason="worker_died"), item(1)])
    fill(tmp_path, [item(0)])
    stored = Corpus.open(tmp_path)
    assert stored.failures().num_rows == 0
    assert sorted(stored.measurements()["program_id"].to_pylist()) == sorted([program(0).id, program(1).id])


def test_failures_tell_what_is_done(tmp_path: Path) -> None:
    fill(tmp_path, [item(0)])
    with CorpusWriter(tmp_path, METRICS) as writer:
        writer.add(item(1, reason="timeout"))
        assert [writer.failure(item(n).id) for n in range(3)] == ["", "timeout", None]


def test_an_interrupted_run_is_readable_and_resumes(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path, METRICS)
    writer.add_program(program(0).record(), program(0).text)
    writer.add(item(0))
    writer.close(compact=False)
    assert not (tmp_path / "manifest.json").exists()
    stored = Corpus.open(tmp_path)
    assert stored.measurements().num_rows == 1 and stored.programs().num_rows == 1
    assert stored.metric_ids == METRICS
    fill(tmp_path, [item(1)])
    assert Corpus.open(tmp_path).measurements().num_rows == 2


def test_a_crash_between_manifest_and_journal_doubles_nothing(tmp_path: Path) -> None:
    writer = CorpusWriter(tmp_path, METRICS)
    writer.add(item(0))
    writer.add(item(1, reason="timeout"))
    journal = (tmp_path / corpus.JOURNAL).read_bytes()
    writer.close()
    before = content(tmp_path)
    (tmp_path / corpus.JOURNAL).write_bytes(journal)
    stored = Corpus.open(tmp_path)
    assert (stored.measurements().num_rows, stored.failures().num_rows) == (1, 1)
    fill(tmp_path, [])
    assert content(tmp_path) == before


@pytest.mark.parametrize("cut", [1, 5, 9, 40])
def test_an_incomplete_last_line_is_ignored_and_removed(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "journal.log"
    with Journal(path) as journal:
        for number in range(3):
            journal.append({"n": number, "text": "x" * 50})
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    assert [record["n"] for _, _, record in read_records(path)] == [0, 1]
    with Journal(path) as journal:
        journal.append({"n": 9})
    assert [record["n"] for _, _, record in read_records(path)] == [0, 1, 9]


def test_damage_inside_the_journal_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.log"
    with Journal(path) as journal:
        for number in range(3):
            journal.append({"n": number})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"1}", b"7}") + lines[2])
    with pytest.raises(BadInput, match=r"journal\.log:2") as caught:
        list(read_records(path))
    assert "sed -i 2d" in caught.value.remedy


def test_a_damaged_shard_is_named_and_the_others_stay_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "ROWS_PER_SHARD", 10)
    fill(tmp_path, [item(n) for n in range(30)])
    before = content(tmp_path)
    shards = sorted((tmp_path / "measurements").iterdir())
    data = bytearray(shards[0].read_bytes())
    data[len(data) // 2] ^= 1
    shards[0].write_bytes(bytes(data))
    with pytest.raises(BadInput) as caught:
        Corpus.open(tmp_path)
    assert shards[0].name in caught.value.what and "--repair" in caught.value.remedy
    with pytest.raises(BadInput, match=shards[0].name):
        CorpusWriter(tmp_path, METRICS)
    intact = Corpus.open(tmp_path, skip_damaged=True)
    assert 0 < intact.measurements().num_rows < 30
    assert shards[0].name in intact.damaged[0]

    with CorpusWriter(tmp_path, METRICS, repair=True) as writer:
        assert [Path(name).name for name in writer.dropped_parts] == [shards[0].name]
        lost = [n for n in range(30) if writer.failure(item(n).id) is None]
        assert len(lost) == 30 - intact.measurements().num_rows
        for n in lost:
            writer.add(item(n))
    assert content(tmp_path) == before


def test_a_missing_shard_and_a_foreign_manifest(tmp_path: Path) -> None:
    fill(tmp_path, [item(0)])
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    shard = next((tmp_path / "measurements").iterdir())
    shard.rename(tmp_path / "elsewhere")
    with pytest.raises(BadInput, match=shard.name):
        Corpus.open(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 99}))
    with pytest.raises(BadInput, match="schema version 99"):
        Corpus.open(tmp_path)
    (tmp_path / "manifest.json").unlink()
    with Journal(tmp_path / corpus.JOURNAL) as journal:  # of a first run that was interrupted, by version 1
        journal.append({"kind": "header", "metric_ids": list(METRICS)})
    with pytest.raises(BadInput, match="schema version 1,") as caught:
        Corpus.open(tmp_path)
    assert "profile into a new folder" in caught.value.remedy
    (tmp_path / corpus.JOURNAL).unlink()
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(BadInput, match="not a corpus manifest"):
        Corpus.open(tmp_path)
    with pytest.raises(BadInput, match="not a corpus"):
        Corpus.open(tmp_path / "nowhere")


@pytest.mark.parametrize("opener", [Corpus.open, lambda path: CorpusWriter(path, METRICS)])
def test_a_corpus_of_the_version_before_arguments_is_refused(tmp_path: Path, opener: Any) -> None:
    fill(tmp_path, [item(0)])
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": 2}))
    before = content(tmp_path)
    with pytest.raises(BadInput, match="schema version 2, this installation reads 3") as caught:
        opener(tmp_path)
    assert caught.value.reason == "schema_version" and "profile into a new folder" in caught.value.remedy
    assert content(tmp_path) == before


def _rewrite_shard(root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Replaces the one measurements shard of a corpus, as if it had been written so."""
    manifest = shards.read_manifest(root)
    old = manifest.shards["measurements"][0]
    new = shards.write_shard(root, "measurements", change(pq.read_table(root / old.path)), "measurement_id")
    (root / old.path).unlink()
    shards.write_manifest(root, replace(manifest, shards={**manifest.shards, "measurements": (new,)}))


def _without_packed_work(table: pa.Table) -> pa.Table:
    work = table["work"].combine_chunks()
    names = [part.name for part in work.type if part.name != "valu_packed"]
    index = table.schema.get_field_index("work")
    return table.set_column(index, "work", pa.StructArray.from_arrays([work.field(name) for name in names], names))


@pytest.mark.parametrize(
    "change",
    [
        _without_packed_work,
        lambda table: table.drop_columns(["same_shape"]),
        lambda table: table.drop_columns(["language", "meta"]),
    ],
)
def test_a_corpus_from_before_a_field_existed_has_its_default(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    kernel = replace(item(0).kernels[0], work=Work(valu_full=3))
    fill(tmp_path, [replace(item(0), kernels=(kernel,))], programs=1)
    before = Corpus.open(tmp_path).measurements()
    _rewrite_shard(tmp_path, change)
    assert Corpus.open(tmp_path).measurements() == before
    fill(tmp_path, [item(1)], programs=1)
    assert Corpus.open(tmp_path).measurements().num_rows == 2


def test_a_corpus_without_a_field_that_has_no_default_is_damaged(tmp_path: Path) -> None:
    fill(tmp_path, [item(0)], programs=1)
    _rewrite_shard(tmp_path, lambda table: table.drop_columns(["dispatches"]))
    with pytest.raises(BadInput, match="its column dispatches is not that of schema version"):
        Corpus.open(tmp_path)


def test_runs_of_one_build_are_separate_items(tmp_path: Path) -> None:
    runs = [item(0), item(0, arguments="128"), item(0, arguments="'a b' 7")]
    fill(tmp_path, runs)
    rows = Corpus.open(tmp_path).measurements().to_pylist()
    assert {row["measurement_id"]: row["arguments"] for row in rows} == {one.id: one.arguments for one in runs}


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path, METRICS), pytest.raises(BadInput, match="another command"):
        CorpusWriter(tmp_path, METRICS)


def test_a_new_metric_column_is_added(tmp_path: Path) -> None:
    fill(tmp_path, [item(0)])
    with CorpusWriter(tmp_path, (*METRICS, "Duration")):
        pass
    assert Corpus.open(tmp_path).measurements()["Duration"].to_pylist() == [None]


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = CorpusWriter(tmp_path, METRICS)
    writer.add(item(0))
    real = os.write

    def half(fd: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{fd}").readlink().name != "journal.log":
            return real(fd, data)
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[: len(data) - 50])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(BadInput, match="no space") as caught:
        writer.add(item(1))
    assert caught.value.reason == "disk_full" and caught.value.exit_code == 3
    monkeypatch.undo()
    writer.add(item(2))
    writer.close()
    assert sorted(Corpus.open(tmp_path).measurements()["program_id"].to_pylist()) == sorted(
        [program(0).id, program(2).id]
    )


@pytest.mark.parametrize("failing", ["measurements", "programs", "manifest"])
def test_a_disk_that_fills_up_while_shards_are_written_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    fill(tmp_path, [item(0)], programs=1)
    writer = CorpusWriter(tmp_path, METRICS)
    writer.add_program(program(1).record(), program(1).text)
    writer.add(item(1))
    real = Path.open

    def full(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "w" in mode and failing in str(self):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(BadInput, match="no space") as caught:
        writer.close()
    assert caught.value.reason == "disk_full"
    monkeypatch.undo()
    stored = Corpus.open(tmp_path)
    assert (stored.measurements().num_rows, stored.programs().num_rows) == (2, 2)
    fill(tmp_path, [])
    fill(tmp_path / "whole", [item(0), item(1)], programs=2)
    assert content(tmp_path) == content(tmp_path / "whole")


FILE_LIMIT = """
import resource, signal, sys
from corpus_samples import METRICS, item
from hipsynth.core.store import CorpusWriter
from hipsynth.core.errors import BadInput
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
writer = CorpusWriter(sys.argv[1], METRICS)
try:
    for n in range(1000):
        writer.add(item(n))
except BadInput as error:
    print(n, error.reason)
"""


def test_a_real_write_limit_stops_cleanly(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FILE_LIMIT, str(tmp_path)], capture_output=True, text=True, env=child_environment()
    )
    assert done.stdout, done.stderr
    count, reason = done.stdout.split()
    assert reason == "disk_full" and int(count) > 0, done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 20000
    fill(tmp_path, [item(1000)])
    assert Corpus.open(tmp_path).measurements().num_rows == int(count) + 1


def child_environment() -> dict[str, str]:
    here = Path(__file__).resolve()
    return {**os.environ, "PYTHONPATH": f"{here.parents[3]}:{here.parents[2] / 'support'}:{here.parent}"}


WRITER = """
import sys
from corpus_samples import METRICS, item
from hipsynth.core.store import CorpusWriter, corpus
corpus.ROWS_PER_SHARD = 16
while True:
    with CorpusWriter(sys.argv[1], METRICS) as writer:
        done = 0
        for n in range(int(sys.argv[2])):
            if writer.failure(item(n).id) is None:
                writer.add(item(n, reason="timeout" if n % 7 == 0 else ""))
                print(n, flush=True)
                done += 1
                if done == 20:
                    break
    if not done:
        break
"""


def test_kill_at_any_moment_neither_loses_nor_repeats_finished_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total, finished = 150, set()
    command = [sys.executable, "-c", WRITER, str(tmp_path / "killed"), str(total)]
    for attempt in range(12):
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environment())
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(0.003 * attempt)
        if attempt < 11:
            child.send_signal(signal.SIGKILL)
        lines = [first, *child.stdout.read().splitlines(keepends=True)]
        child.wait()
        printed = [int(line) for line in lines if line.endswith("\n")]
        assert not finished & set(printed), "finished work was done again"
        finished |= set(printed)
        stored = Corpus.open(tmp_path / "killed")
        ids = stored.measurements()["measurement_id"].to_pylist() + stored.failures()["measurement_id"].to_pylist()
        assert len(ids) == len(set(ids)) and {item(n).id for n in finished} <= set(ids)
    # At most one item per kill was stored and not yet printed.
    assert total - len(finished) <= 11
    monkeypatch.setattr(corpus, "ROWS_PER_SHARD", 16)
    fill(tmp_path / "whole", [item(n, reason="timeout" if n % 7 == 0 else "") for n in range(total)])
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


def test_splits_keep_a_lineage_together_and_move_nothing_when_the_corpus_grows(tmp_path: Path) -> None:
    fill(tmp_path / "small", [item(n) for n in range(60)])
    fill(tmp_path / "large", [item(n) for n in range(200)])
    parts: list[dict[str, str]] = []
    for name in ("small", "large"):
        table = Corpus.open(tmp_path / name).measurements()
        found: dict[str, set[str]] = {}
        for lineage, part in zip(table["lineage"].to_pylist(), splits(table), strict=True):
            found.setdefault(lineage, set()).add(part)
        assert all(len(part) == 1 for part in found.values())
        parts.append({lineage: next(iter(part)) for lineage, part in found.items()})
    assert all(parts[1][lineage] == part for lineage, part in parts[0].items())
    assert set(parts[0].values()) == {"train", "validation", "test"}
    assert set(splits(table, "random")) == {"train", "validation", "test"}


def test_a_tiny_corpus_has_no_empty_part(tmp_path: Path) -> None:
    fill(tmp_path, [item(n) for n in range(6)])
    assert set(splits(Corpus.open(tmp_path).measurements())) == {"train", "validation", "test"}


def test_the_reference_page_names_every_column() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "corpus.md").read_text()
    for kind in KINDS:
        for name in schema_of(kind, ()).names:
            assert f"`{name}`" in page, f"{kind}: {name}"
