"""Attacks on the files and names of corpora and program folders: nothing outside is read, hung on, or written.

What lies outside is a file of the test; whether it was read shows in the error, in the results and in its access time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_samples import METRICS, fill, item
from profiling_samples import program

from hipsynth.core.errors import BadInput
from hipsynth.core.journal import Journal, encode_record, read_records
from hipsynth.core.program import GENERATE_RUN, INDEX, Program, iter_programs, load_program, write_programs
from hipsynth.core.store import SCHEMA_VERSION, Corpus, CorpusWriter, corpus
from hipsynth.source.parse import ParseConfig, load_source
from hipsynth.synth.frontend.augment import JOURNAL as AUGMENT_JOURNAL
from hipsynth.synth.frontend.augment import augment_programs, find_items
from hipsynth.synth.generate.writer import PARTIAL, generate_into

SECRET = "secret of another folder"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    return folder / "secret"


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    fill(tmp_path / "corpus", [item(n) for n in range(4)], programs=4)
    return tmp_path / "corpus"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    write_programs(tmp_path / "programs", [program(n) for n in range(3)])
    return tmp_path / "programs"


def refused(action: Callable[[], object]) -> BadInput:
    with pytest.raises(BadInput) as caught:
        action()
    error = caught.value
    assert SECRET not in str(error) and error.what and error.remedy, str(error)
    return error


def both_refuse(folder: Path) -> BadInput:
    refused(lambda: CorpusWriter(folder, METRICS))
    return refused(lambda: Corpus.open(folder))


# --- manifests and shards -------------------------------------------------------------------------------------------

PATHS = [
    "../outside/secret",
    "/etc/passwd",
    "programs/../../outside/secret",
    "programs/x.parquet",
    "",
    "failures",
    "\0",
]


@pytest.mark.parametrize("path", PATHS)
def test_a_manifest_names_only_shards_of_its_folder(stored: Path, outside: Path, path: str) -> None:
    manifest = stored / "manifest.json"
    data = json.loads(manifest.read_text())
    data["shards"]["programs"][0]["path"] = path
    manifest.write_text(json.dumps(data))
    shards = {file: file.read_bytes() for file in stored.rglob("*.parquet")}
    error = both_refuse(stored)
    assert error.reason == "outside" and "move manifest.json away" in error.remedy
    manifest.rename(stored / "manifest.old")  # the remedy
    fill(stored, [])
    assert {file: file.read_bytes() for file in stored.rglob("*.parquet")} == shards
    assert Corpus.open(stored).programs().num_rows == 4
    assert outside.read_text() == SECRET


@pytest.mark.parametrize("target", ["/dev/zero", "../outside/secret"])
def test_a_manifest_that_is_a_link_is_not_followed(stored: Path, outside: Path, target: str) -> None:
    (stored / "manifest.json").unlink()
    (stored / "manifest.json").symlink_to(target)
    assert both_refuse(stored).reason in ("not_a_file", "outside")
    (stored / "manifest.json").unlink()
    assert Corpus.open(stored).programs().num_rows == 4


@pytest.mark.parametrize("name", ["manifest.json", "journal.log"])
def test_a_pipe_does_not_hang_the_reader(stored: Path, name: str) -> None:
    (stored / name).unlink()
    os.mkfifo(stored / name)
    assert both_refuse(stored).reason == "not_a_file"


def test_a_shard_that_is_a_link_is_damaged_and_repair_keeps_its_target(stored: Path, outside: Path) -> None:
    shard = next((stored / "programs").iterdir())
    shard.rename(outside.parent / shard.name)
    shard.symlink_to(outside.parent / shard.name)
    assert "symbolic link" in str(both_refuse(stored))
    with CorpusWriter(stored, METRICS, repair=True) as writer:
        assert writer.dropped_parts == (f"programs/{shard.name}",)
    assert (outside.parent / shard.name).is_file()
    assert (stored / corpus.LOST / "programs" / shard.name).is_symlink()


def test_a_pipe_in_place_of_a_shard_does_not_hang(stored: Path) -> None:
    shard = next((stored / "programs").iterdir())
    shard.unlink()
    os.mkfifo(shard)
    assert both_refuse(stored).reason == "corrupt"
    (stored / "manifest.json").unlink()
    assert both_refuse(stored).reason == "corrupt"


def test_a_folder_of_shards_that_is_a_link_is_refused(stored: Path, outside: Path) -> None:
    (stored / "programs").rename(outside.parent / "programs")
    (stored / "programs").symlink_to(outside.parent / "programs")
    before = sorted((outside.parent / "programs").iterdir())
    assert both_refuse(stored).reason == "outside"
    assert sorted((outside.parent / "programs").iterdir()) == before


def test_a_shard_of_another_kind_under_a_right_name_and_hash(stored: Path) -> None:
    manifest = stored / "manifest.json"
    data = json.loads(manifest.read_text())
    wrong = data["shards"]["measurements"][0]
    moved = stored / "programs" / Path(wrong["path"]).name
    (stored / wrong["path"]).rename(moved)
    data["shards"]["programs"] = [{**wrong, "path": f"programs/{moved.name}"}]
    data["shards"]["measurements"] = []
    manifest.write_text(json.dumps(data))
    assert "its column id" in str(both_refuse(stored))
    with CorpusWriter(stored, METRICS, repair=True):
        pass
    assert Corpus.open(stored).programs().num_rows == 0


# --- journals and locks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [corpus.JOURNAL, corpus.LOCK])
def test_a_link_in_place_of_journal_or_lock_is_not_written_through(stored: Path, outside: Path, name: str) -> None:
    (stored / name).unlink()
    (stored / name).symlink_to(outside)
    refused(lambda: CorpusWriter(stored, METRICS))
    assert outside.read_text() == SECRET


def test_a_journal_without_line_ends_is_bounded(tmp_path: Path) -> None:
    with (tmp_path / corpus.JOURNAL).open("wb") as file:
        file.truncate(1 << 30)  # sparse: one line of a GiB
    error = refused(lambda: Corpus.open(tmp_path))
    assert "journal.log:1" in error.what


@pytest.mark.parametrize("name", ["../outsider", "a/b", "", "x" * 16, None, 7])
def test_a_journal_names_programs_by_ids_only(tmp_path: Path, name: object) -> None:
    with Journal(tmp_path / corpus.JOURNAL) as journal:
        journal.append({"kind": "header", "schema_version": SCHEMA_VERSION, "metric_ids": []})
        journal.append({"kind": "programs", "row": {"id": name, "text": ""}})
    assert "journal.log:2" in both_refuse(tmp_path).what


# --- folders of programs --------------------------------------------------------------------------------------------


def with_record(folder: Path, **changes: object) -> None:
    record = program(0).record() | changes
    (folder / INDEX).write_text(json.dumps(record) + "\n")


@pytest.mark.parametrize("name", ["../outside/secret", "/etc/passwd", "a/../b", "..", "", 7, None, ["x"], "\u001b[2J"])
def test_an_id_is_never_a_path(programs: Path, outside: Path, name: object) -> None:
    outside.with_suffix(".hip").write_text(SECRET)
    with_record(programs, id=name)
    error = refused(lambda: list(iter_programs(programs)))
    assert error.reason == "bad_record"
    problem = find_items(programs)[0]
    assert problem.problem is not None and problem.problem.reason == "bad_record"
    assert problem.name == f"{INDEX}:1"


BROKEN: dict[str, object] = {
    "origin": 7, "name": "\ud800", "choices": [2**70], "params": [1], "expected": "text", "derivation": [3],
}  # fmt: skip


@pytest.mark.parametrize("field", BROKEN)
def test_a_record_that_no_shard_could_hold_is_refused(programs: Path, field: str) -> None:
    with_record(programs, **{field: BROKEN[field]})
    assert refused(lambda: list(iter_programs(programs))).reason == "bad_record"


def test_a_record_nested_without_end_is_refused(programs: Path) -> None:
    (programs / INDEX).write_text("[" * 500_000 + "\n")
    assert refused(lambda: list(iter_programs(programs))).reason == "bad_record"


@pytest.mark.parametrize("indexed", [True, False])
def test_a_program_that_is_a_link_out_of_the_folder_is_refused(programs: Path, outside: Path, indexed: bool) -> None:
    path = programs / f"{program(0).id}.hip"
    path.unlink()
    path.symlink_to(outside)
    if not indexed:
        (programs / INDEX).unlink()
    assert refused(lambda: list(iter_programs(programs))).reason == "outside"
    bad: list[BadInput] = []
    assert len(list(iter_programs(programs, bad.append))) == 2
    assert [error.reason for error in bad] == ["outside"]


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin"])
def test_devices_and_pipes_are_no_programs(programs: Path, target: str) -> None:
    path = programs / f"{program(0).id}.hip"
    path.unlink()
    path.symlink_to(target)
    assert refused(lambda: list(iter_programs(programs))).reason in ("not_a_file", "outside")
    path.unlink()
    os.mkfifo(path)
    assert refused(lambda: load_program(path)).reason == "not_a_file"
    assert load_source(path)[1][0].reason == "not_a_file"


def test_a_huge_source_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.hip"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    assert refused(lambda: load_program(path)).reason == "too_large"
    assert load_source(path)[1][0].reason == "too_large"


@pytest.mark.parametrize("kind", ["pipe", "link"])
def test_an_index_that_is_no_file(programs: Path, outside: Path, kind: str) -> None:
    (programs / INDEX).unlink()
    if kind == "pipe":
        os.mkfifo(programs / INDEX)
    else:
        (programs / INDEX).symlink_to(outside)
    assert refused(lambda: list(iter_programs(programs))).reason in ("not_a_file", "outside")


# --- resumed runs ---------------------------------------------------------------------------------------------------


def test_augment_neither_trusts_nor_follows_its_journal(programs: Path, tmp_path: Path, outside: Path) -> None:
    config = ParseConfig((), tmp_path / "cache")  # no compiler arguments: every program fails to parse
    items = find_items(programs)
    outside.with_suffix(".hip").write_text(SECRET)
    out = tmp_path / "out"
    first = augment_programs(programs, out, config, items=items)
    lines = [record for _, _, record in read_records(out / AUGMENT_JOURNAL)]
    for line in lines:
        line["result"]["programs"] = [program(0).record() | {"id": "../outside/secret"}]
    (out / AUGMENT_JOURNAL).write_bytes(b"".join(map(encode_record, lines)))
    again = augment_programs(programs, out, config, items=items)
    assert (again.reused, again.programs, again.reasons) == (0, first.programs, first.reasons)
    (out / AUGMENT_JOURNAL).unlink()
    (out / AUGMENT_JOURNAL).symlink_to(outside)
    assert refused(lambda: augment_programs(programs, out, config, items=items)).reason == "outside"
    assert outside.read_text() == SECRET


def test_generate_makes_forged_records_again(tmp_path: Path, outside: Path) -> None:
    out = tmp_path / "out"
    generate_into(out, 3, seed=1)
    whole = {path.name: path.read_bytes() for path in out.iterdir()}
    forged = Program(SECRET, "synthetic", "stream").record() | {"id": "../outside/secret"}
    (out / INDEX).rename(out / PARTIAL)
    lines = (out / PARTIAL).read_text().splitlines(keepends=True)
    (out / PARTIAL).write_text(lines[0] + json.dumps(forged) + "\n" + lines[2])
    assert generate_into(out, 3, seed=1).reused == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == whole
    (out / INDEX).rename(out / PARTIAL)
    for read in (lambda: list(iter_programs(out)), lambda: find_items(out)):
        assert "not finished" in refused(read).what
    (out / GENERATE_RUN).unlink()
    (out / GENERATE_RUN).symlink_to("/dev/zero")
    assert "another run" in refused(lambda: generate_into(out, 3, seed=1)).what


@pytest.mark.parametrize(
    "runs",
    [7, ["x"], [{}], [{"arguments": "abc", "params": {}}], [{"arguments": ["a\0b"], "params": {}}],
     [{"arguments": [7], "params": {}}], [{"arguments": ["7"], "params": {"size": "7"}}],
     [{"arguments": ["7"], "params": [7]}], [{"arguments": ["\ud800"], "params": {}}]],
)  # fmt: skip
def test_runs_of_a_record_are_checked(programs: Path, runs: object) -> None:
    lines = (programs / INDEX).read_text().splitlines()
    (programs / INDEX).write_text("\n".join([json.dumps({**json.loads(lines[0]), "runs": runs}), *lines[1:]]) + "\n")
    assert refused(lambda: list(iter_programs(programs))).reason == "bad_record"
