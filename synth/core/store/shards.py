"""Parquet shards and the manifest that lists them: written atomically, verified by hash when read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.synth.core.errors import BadInput
from hipsynth.synth.core.files import write_whole
from hipsynth.synth.core.store.schema import KINDS, SCHEMA_VERSION

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """One Parquet file: `path` relative to the corpus folder, ids from `first` to `last` inclusive."""

    path: str
    rows: int
    bytes: int
    sha256: str
    first: str
    last: str


@dataclass(frozen=True)
class Manifest:
    """The shards of a corpus; `metric_ids` are the metric columns of its measurements."""

    schema_version: int
    metric_ids: tuple[str, ...]
    shards: dict[str, tuple[Shard, ...]]

    def all_shards(self) -> Iterable[Shard]:
        for kind in KINDS:
            yield from self.shards[kind]


def empty_manifest(metric_ids: Sequence[str]) -> Manifest:
    return Manifest(SCHEMA_VERSION, tuple(metric_ids), dict.fromkeys(KINDS, ()))


def check_version(path: Path, version: int) -> None:
    """Raises BadInput if a file has another version of the corpus format."""
    if version != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: schema version {version}, this installation reads {SCHEMA_VERSION}",
            remedy="use the hipsynth version that wrote the corpus, or profile into a new folder",
            reason="schema_version",
        )


def read_manifest(root: Path) -> Manifest | None:
    """The manifest, or None if none has been written yet; raises BadInput if it is invalid."""
    path = root / MANIFEST
    if not path.exists():
        return None
    try:
        data = json.loads(path.read_text())
        version = data["schema_version"]
        check_version(path, version)
        shards = {kind: tuple(Shard(**row) for row in data["shards"][kind]) for kind in KINDS}
        return Manifest(version, tuple(data["metric_ids"]), shards)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"{path}: not a corpus manifest",
            cause=str(error),
            remedy="restore the file from a copy, or profile into a new folder",
            reason="corrupt",
        ) from error


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Replaces the manifest atomically: readers see either the old corpus or the new one."""
    data: dict[str, Any] = {
        "schema_version": manifest.schema_version,
        "metric_ids": list(manifest.metric_ids),
        "rows": {kind: sum(shard.rows for shard in manifest.shards[kind]) for kind in KINDS},
        "shards": {kind: [asdict(shard) for shard in manifest.shards[kind]] for kind in KINDS},
    }
    write_whole(root / MANIFEST, json.dumps(data, indent=1) + "\n", durable=True)


def write_shard(root: Path, kind: str, table: pa.Table, key: str) -> Shard:
    """Stores a sorted table as a shard named after its first id and its content."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", row_group_size=16384, store_schema=True)
    content = sink.getvalue().to_pybytes()
    digest = hashlib.sha256(content).hexdigest()
    first, last = table[key][0].as_py(), table[key][-1].as_py()
    relative = f"{kind}/{first}-{digest[:12]}.parquet"
    (root / kind).mkdir(exist_ok=True)
    path = root / relative
    if not path.exists() or path.stat().st_size != len(content) or file_hash(path) != digest:
        write_whole(path, content, durable=True)
    return Shard(relative, table.num_rows, len(content), digest, first, last)


def read_shard(root: Path, shard: Shard, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a shard, with all columns or only `columns`."""
    return pq.ParquetFile(root / shard.path).read(columns=columns)


def file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged(root: Path, manifest: Manifest) -> list[tuple[Shard, str]]:
    """Shards that are missing or changed since they were written, each with the reason."""
    bad = []
    for shard in manifest.all_shards():
        path = root / shard.path
        try:
            size = path.stat().st_size
            if size != shard.bytes:
                bad.append((shard, f"{size} bytes instead of {shard.bytes}"))
            elif file_hash(path) != shard.sha256:
                bad.append((shard, "its hash is not the one in the manifest"))
        except OSError as error:
            bad.append((shard, error.strerror or str(error)))
    return bad


def without(manifest: Manifest, bad: Iterable[Shard]) -> Manifest:
    """The manifest without the shards in `bad`."""
    gone = {shard.path for shard in bad}
    kept = {kind: tuple(s for s in manifest.shards[kind] if s.path not in gone) for kind in KINDS}
    return Manifest(manifest.schema_version, manifest.metric_ids, kept)
