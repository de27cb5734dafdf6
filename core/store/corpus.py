"""Reading and writing a corpus folder."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import pyarrow as pa

from hipsynth.core.errors import BadInput
from hipsynth.core.files import PARTIAL, lock_writing
from hipsynth.core.journal import Journal, damaged_record, read_at, read_records, remove_damaged_lines
from hipsynth.core.locks import release_lock
from hipsynth.core.program import ProgramRecord, is_id
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store import rebuild
from hipsynth.core.store import shards as files
from hipsynth.core.store.schema import (
    KEY,
    KINDS,
    SCHEMA_VERSION,
    CorpusItem,
    Row,
    item_rows,
    program_row,
    schema_of,
    to_table,
)

JOURNAL = "journal.log"
LOCK = ".lock"
LOST = "lost"
ROWS_PER_SHARD = 10_000


class Corpus:
    """A corpus opened for reading. Verifies shards by hash and includes the journal of an interrupted run."""

    def __init__(self, root: Path, manifest: files.Manifest, bad: Sequence[tuple[files.Shard, str]]) -> None:
        self.root = root
        self.manifest = manifest
        self.damaged = tuple(f"{root / shard.path}: {why}" for shard, why in bad)
        self._fresh = _JournalIndex(root / JOURNAL)
        self.notes = _rebuild_notes(root, manifest, self._fresh)

    @classmethod
    def open(cls, path: Path | str, *, skip_damaged: bool = False) -> Corpus:
        """Opens CORPUS. Raises BadInput naming damaged shards, unless `skip_damaged` leaves them out."""
        root = Path(path)
        if (root / "release.json").exists():
            from hipsynth.core.store.release import Release  # it is a Corpus itself

            return Release.load(root, skip_damaged=skip_damaged)
        contents = rebuild.read_contents(root)
        if contents is None:
            if not (root / JOURNAL).exists():
                raise BadInput(f"{root}: not a corpus", remedy="run `synth profile DIR --out CORPUS` first")
            contents = files.empty_manifest(_JournalIndex(root / JOURNAL).metric_ids), []
        manifest, bad = contents
        if bad and not skip_damaged:
            raise BadInput(
                "damaged corpus: " + "; ".join(f"{root / shard.path}: {why}" for shard, why in bad),
                cause="the file changed after it was written",
                remedy="restore it from a copy, or run `synth profile DIR --out CORPUS --repair`, which drops it and "
                "measures what it held again; `synth stats` and `export` read the intact ones with --skip-damaged",
                reason=Reason.CORRUPT,
            )
        return cls(root, files.remove_shards(manifest, [shard for shard, _ in bad]), bad)

    @property
    def metric_ids(self) -> tuple[str, ...]:
        return self.manifest.metric_ids

    def programs(self) -> pa.Table:
        """One row per program, sorted by id; `params` and `expected` are JSON text."""
        return self._read_table("programs")

    def measurements(self) -> pa.Table:
        """One row per kernel of each finished item, sorted by measurement_id and kernel_index."""
        return self._read_table("measurements")

    def failures(self) -> pa.Table:
        """One row per failed item, with `reason` and `message`."""
        return self._read_table("failures")

    def opcodes(self) -> set[str]:
        """The opcodes in the builds of its items, where the profile recorded them."""
        opcode_names: set[str] = set()
        for provenance in {tuple(row or ()) for row in self.measurements()["provenance"].to_pylist()}:
            opcode_names.update(dict(provenance).get("opcodes", "").split())
        return opcode_names

    def _read_table(self, kind: str) -> pa.Table:
        if not self._fresh.ids and not self.manifest.rebuilt:
            return self._read_stored_rows(kind)
        rows = _rows_between(self.root, self.manifest, self._fresh, kind, "", None)
        return to_table(kind, rows, self.metric_ids)

    def _read_stored_rows(self, kind: str) -> pa.Table:
        """The rows of the shards, without the journal; no row becomes a Python object."""
        tables = [files.read_shard(self.root, shard) for shard in self.manifest.shards[kind]]
        if not tables:
            return schema_of(kind, self.metric_ids).empty_table()
        return pa.concat_tables(tables).cast(schema_of(kind, self.metric_ids))


class CorpusWriter:
    """Writes a corpus folder, one writer at a time. Each finished item goes to the journal at once; `close` writes the
    shards."""

    def __init__(self, path: Path | str, metric_ids: Sequence[str], *, repair: bool = False) -> None:
        self.root = Path(path)
        self._lock = lock_writing(self.root, self.root / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        try:
            self._dropped: tuple[str, ...] = ()
            self._load_existing(tuple(metric_ids), repair)
        except BaseException:
            release_lock(self._lock)
            raise

    def _load_existing(self, metric_ids: tuple[str, ...], repair: bool) -> None:
        """Reads the existing corpus; `repair` drops its damaged shards and records."""
        if repair:
            self._dropped = tuple(f"{JOURNAL}:{line}" for line in remove_damaged_lines(self.root / JOURNAL))
        if (self.root / "release.json").exists():
            raise BadInput(
                f"{self.root}: is a release, which only `synth release` writes", remedy="profile into another folder"
            )
        manifest = self._read_existing_manifest(metric_ids, repair)
        stored_metrics = manifest.metric_ids
        added = tuple(metric for metric in metric_ids if metric not in stored_metrics)
        self.manifest = replace(manifest, metric_ids=stored_metrics + added)
        self._journal = Journal(self.root / JOURNAL)
        self._fresh = _JournalIndex(self.root / JOURNAL)
        self.notes = _rebuild_notes(self.root, manifest, self._fresh)
        self._programs = set(self._stored_ids("programs")) | set(self._fresh.of("programs"))
        self._failures: dict[str, str] = dict.fromkeys(self._stored_ids("measurements"), Reason.NONE)
        self._failures |= self._stored_reasons()
        self._failures |= {key: reason for key, (reason, _, _) in self._fresh.items.items()}
        self._changed = bool(self._dropped or manifest.rebuilt or (added and stored_metrics))

    def _read_existing_manifest(self, metric_ids: tuple[str, ...], repair: bool) -> files.Manifest:
        contents = rebuild.read_contents(self.root)
        if contents is None:
            return files.empty_manifest(_JournalIndex(self.root / JOURNAL).metric_ids or metric_ids)
        if not repair:
            return Corpus.open(self.root).manifest
        manifest, bad = contents
        self._dropped += tuple(shard.path for shard, _ in bad)
        return files.remove_shards(manifest, [shard for shard, _ in bad])

    @property
    def dropped_parts(self) -> tuple[str, ...]:
        """The damaged shards and records of the journal (as journal.log:LINE) that `repair` left out."""
        return self._dropped

    @property
    def metric_ids(self) -> tuple[str, ...]:
        return self.manifest.metric_ids

    def _stored_ids(self, kind: str) -> Iterator[str]:
        for shard in self.manifest.shards[kind]:
            yield from (key for key in rebuild.ids_of(self.root, shard) if self.manifest.holds_rows(kind, key, shard))

    def _stored_reasons(self) -> dict[str, str]:
        reasons: dict[str, str] = {}
        for shard in self.manifest.shards["failures"]:
            table = files.read_shard(self.root, shard, ["measurement_id", "reason"])
            rows = zip(table["measurement_id"].to_pylist(), table["reason"].to_pylist(), strict=True)
            reasons |= {key: reason for key, reason in rows if self.manifest.holds_rows("failures", key, shard)}
        return reasons

    def failure(self, item_id: str) -> str | None:
        """Why an item failed: a Reason, or what an older corpus has; NONE if it did not, None without a result."""
        return self._failures.get(item_id)

    def add_program(self, record: ProgramRecord, text: str) -> None:
        """Stores a program (a programs.jsonl record and its text) unless the corpus already has it."""
        if record["id"] not in self._programs:
            self._append_record({"kind": "programs", "row": program_row(record, text)})
            self._programs.add(record["id"])

    def add(self, item: CorpusItem) -> None:
        """Stores a finished item; a later result of the same item replaces the earlier one."""
        self._append_record({"kind": "item", "row": item.record()})
        self._failures[item.id] = _failure_of(item)

    def _append_record(self, record: Mapping[str, object]) -> None:
        """Adds a record to the journal, whose first one is a header: a writer that adds nothing leaves no trace."""
        header = {"kind": "header", "schema_version": SCHEMA_VERSION, "metric_ids": list(self.metric_ids)}
        for added in [record] if self._fresh.metric_ids == self.metric_ids else [header, record]:
            self._fresh.add_record(*self._journal.append(added), added)

    def compact(self) -> None:
        """Moves the journal's items into shards: writes the shards, then the manifest, then empties the journal."""
        if not self._fresh.ids and not self._changed and (self.root / files.MANIFEST).exists():
            return
        self._journal.sync()
        shards = {kind: tuple(self._write_kind(kind)) for kind in KINDS}
        replaced = {shard.path for shard in self.manifest.all_shards()}
        self.manifest = files.Manifest(self.manifest.schema_version, self.metric_ids, shards)
        files.write_manifest(self.root, self.manifest)
        self._journal.clear()
        self._fresh = _JournalIndex(self.root / JOURNAL)
        self._changed = False
        self._remove_replaced(replaced)

    def _write_kind(self, kind: str) -> Iterator[files.Shard]:
        """Writes the shards of one kind: equal ranges of the id space, so that they depend only on the rows."""
        fresh = self._fresh.of_kind(kind)
        kept_rows = sum(key not in fresh for key in self._stored_ids(kind))
        bits = _shard_bits(kept_rows + self._fresh.rows(kind))
        for low, high in _id_ranges(bits):
            untouched = self._find_equal_shard(kind, low, high)
            if untouched is not None:
                yield untouched
                continue
            rows = self._rows_of_kind(kind, low, high)
            if rows:
                yield files.write_shard(self.root, kind, to_table(kind, rows, self.metric_ids), KEY[kind])

    def _rows_of_kind(self, kind: str, low: str, high: str | None) -> list[Row]:
        return _rows_between(self.root, self.manifest, self._fresh, kind, low, high)

    def _find_equal_shard(self, kind: str, low: str, high: str | None) -> files.Shard | None:
        """The existing shard that already equals this id range: the only one in it, within it, and without new rows."""
        touching = [shard for shard in self.manifest.shards[kind] if _shard_overlaps(shard, low, high)]
        fresh = self._fresh.of_kind(kind)
        if self._changed or len(touching) != 1 or any(_id_within(key, low, high) for key in fresh):
            return None
        shard = touching[0]
        return shard if _id_within(shard.first, low, high) and _id_within(shard.last, low, high) else None

    def _remove_replaced(self, replaced: set[str]) -> None:
        """Deletes the files that the new manifest replaces: the shards of the previous one, those of interrupted
        rewrites whose items are all stored, and unfinished files. Damaged shards move to lost/; other files stay."""
        named = {shard.path for shard in self.manifest.all_shards()}
        for kind in KINDS:
            for path in rebuild.unnamed_files(self.root, kind, named):
                relative = f"{kind}/{path.name}"
                if relative in self._dropped:
                    self._set_aside(path)
                elif relative in replaced or self._has_all(kind, path):
                    path.unlink()
            for path in (self.root / kind).glob(f"*.parquet.*{PARTIAL}"):  # its writer is dead: the lock is ours
                path.unlink()

    def _set_aside(self, path: Path) -> None:
        target = self.root / LOST / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)

    def _has_all(self, kind: str, path: Path) -> bool:
        """Whether a file is a whole shard of ours and the corpus has a result for each of its items."""
        if not files.is_shard(kind, path.name):
            return False
        stored_ids = self._programs if kind == "programs" else self._failures
        with contextlib.suppress(BadInput):
            shard, _ = rebuild.examine_shard(self.root, kind, path)
            return all(key in stored_ids for key in rebuild.ids_of(self.root, shard))
        return False

    def unlisted_files(self) -> list[Path]:
        """Files in the folders of the shards that are not part of the corpus; they are never changed."""
        named = [shard.path for shard in self.manifest.all_shards()]
        return [path for kind in KINDS for path in rebuild.unnamed_files(self.root, kind, named)]

    def close(self, *, compact: bool = True) -> None:
        """Releases the journal and the folder's lock, after merging finished items into shards unless `compact` is
        false."""
        try:
            if compact:
                self.compact()
        finally:
            self._journal.close()
            release_lock(self._lock)

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close(compact=kind is None)


def _failure_of(item: CorpusItem) -> Reason:
    return Reason.NONE if item.status == RunStatus.OK else item.reason or Reason.ERROR


class _JournalIndex:
    """Index of the journal: the file position of each record by id, not the record itself."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metric_ids: tuple[str, ...] = ()
        self.programs: dict[str, tuple[int, int]] = {}
        self.items: dict[str, tuple[Reason, int, int]] = {}  # id -> (failure, offset, length)
        self._counts: dict[str, int] = {}
        for number, (offset, length, record) in enumerate(read_records(path), 1):
            try:
                self.add_record(offset, length, record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise damaged_record(path, number, f"it is no record of a corpus ({error!r})") from error

    def add_record(self, offset: int, length: int, record: Mapping[str, object]) -> None:
        """Adds one record. Raises BadInput for another schema version, KeyError, TypeError, ValueError or
        AttributeError for anything but a record of this version."""
        if record["kind"] == "header":
            files.check_version(self.path, record.get("schema_version", 1))
            self.metric_ids = files.metric_names(record["metric_ids"])
        elif record["kind"] == "programs":
            key = _row_of(record)["id"]
            if not isinstance(key, str) or not is_id(key):
                raise ValueError(f"not an id: {key!r}")
            self.programs[key] = (offset, length)
        else:
            item = CorpusItem.from_record(_row_of(record))
            self.items[item.id] = (_failure_of(item), offset, length)
            self._counts[item.id] = len(item.kernels)

    @property
    def ids(self) -> set[str]:
        return set(self.programs) | set(self.items)

    def of_kind(self, kind: str) -> Collection[str]:
        """Ids of journal entries that replace stored rows of a kind; an item replaces measurements and failures."""
        return self.programs if kind == "programs" else self.items

    def of(self, kind: str) -> list[str]:
        """Ids of the journal's rows of a kind, unsorted."""
        if kind == "programs":
            return list(self.programs)
        ok = kind == "measurements"
        return [key for key, (failure, _, _) in self.items.items() if (failure == Reason.NONE) == ok]

    def rows(self, kind: str) -> int:
        if kind == "measurements":
            return sum(self._counts[key] for key in self.of(kind))
        return len(self.of(kind))

    def load(self, kind: str, low: str, high: str | None) -> list[Row]:
        """The rows of a kind whose id lies in [low, high)."""
        keys = [key for key in self.of(kind) if _id_within(key, low, high)]
        places = [self.programs[key] if kind == "programs" else self.items[key][1:] for key in keys]
        records = (_row_of(record) for record in read_at(self.path, places))
        if kind == "programs":
            return list(records)
        return [row for record in records for row in item_rows(CorpusItem.from_record(record))]


def _row_of(record: Mapping[str, object]) -> Row:
    """The row that a journal's record holds; raises KeyError or TypeError if it is none."""
    row = record["row"]
    if not isinstance(row, dict):
        raise TypeError("the row of a record is no object")
    return row


def _rebuild_notes(root: Path, manifest: files.Manifest, fresh: _JournalIndex) -> tuple[str, ...]:
    """What the user should know: that the manifest was rebuilt. A first run that was interrupted while it wrote shards
    has no manifest either, but its journal still holds everything."""
    stored = (key for shard in manifest.all_shards() for key in rebuild.ids_of(root, shard))
    if not manifest.rebuilt or all(key in fresh.programs or key in fresh.items for key in stored):
        return ()
    count = sum(len(manifest.shards[kind]) for kind in KINDS)
    problem = (
        f"{root / files.MANIFEST} {manifest.rebuilt}; it was rebuilt from the shards in the folder, {count} in all"
    )
    return (f"{problem}; the next `synth profile` into the folder writes it",)


def _shard_bits(rows: int) -> int:
    """Number of leading id bits that split `rows` rows into shards of about ROWS_PER_SHARD rows at most."""
    return max(0, math.ceil(math.log2(max(1, rows / ROWS_PER_SHARD))))


def _id_within(key: str, low: str, high: str | None) -> bool:
    return key >= low and (high is None or key < high)


def _shard_overlaps(shard: files.Shard, low: str, high: str | None) -> bool:
    return shard.last >= low and (high is None or shard.first < high)


def _id_ranges(bits: int) -> list[tuple[str, str | None]]:
    """2**bits equal ranges of the id space, as [low, high) of hexadecimal ids; None: no upper bound."""
    bounds = [f"{(index << 64) >> bits:016x}" for index in range(1 << bits)]
    return list(zip(bounds, [*bounds[1:], None], strict=True))


def _rows_between(
    root: Path, manifest: files.Manifest, fresh: _JournalIndex, kind: str, low: str, high: str | None
) -> list[Row]:
    """Rows of shards and journal with an id in [low, high); rows of the journal replace those of the shards."""
    rows = fresh.load(kind, low, high)
    newer = fresh.of_kind(kind)
    for shard in manifest.shards[kind]:
        if not _shard_overlaps(shard, low, high):
            continue
        for row in files.read_shard(root, shard).to_pylist():
            key = row[KEY[kind]]
            if _id_within(key, low, high) and key not in newer and manifest.holds_rows(kind, key, shard):
                rows.append(row)
    return rows
