"""Parquet shards and the manifest that lists them: written atomically, verified by hash when read."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import open_regular, read_regular, write_whole
from hipsynth.core.folders import CORPUS_MANIFEST
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import is_id
from hipsynth.core.reasons import Reason
from hipsynth.core.store.columns import add_missing_fields, default_column, lacks_only_defaults
from hipsynth.core.store.schema import ADDED_COLUMNS, KERNEL_FIELDS, KINDS, SCHEMA_VERSION, schema_of

MANIFEST = CORPUS_MANIFEST
MANIFEST_BYTES, SHARD_BYTES = 256 << 20, 64 << 30
_PATH = re.compile(rf"({'|'.join(KINDS)})/[0-9a-f]{{16}}-[0-9a-f]{{12}}\.parquet")  # as write_shard names them


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
    rebuilt: str = ""  # why it was rebuilt from the shards in the folder; "" if it was read
    # Only if rebuilt: of each (kind, id) that several shards have, the path of the one that counts ("": none).
    owners: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def all_shards(self) -> Iterable[Shard]:
        for kind in KINDS:
            yield from self.shards[kind]

    def holds_rows(self, kind: str, key: str, shard: Shard) -> bool:
        """Whether the rows of an id in this shard are part of the corpus."""
        return self.owners.get((kind, key), shard.path) == shard.path


def empty_manifest(metric_ids: Sequence[str]) -> Manifest:
    """The manifest of a corpus without items, whose labels will have these metrics."""
    return Manifest(SCHEMA_VERSION, tuple(metric_ids), dict.fromkeys(KINDS, ()))


def check_version(path: Path, version: object) -> None:
    """Raises BadInput if a file has another version of the corpus format."""
    if version != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: schema version {version}, this installation reads {SCHEMA_VERSION}",
            remedy="use the hipsynth version that wrote the corpus, or profile into a new folder",
            reason=Reason.SCHEMA_VERSION,
        )


def read_manifest(root: Path) -> Manifest | None:
    """The manifest, or None if there is none. Raises BadInput: "corrupt" if it is damaged, "schema_version", "outside"
    if it names a file that is not a shard of this folder, or a reason of read_regular."""
    path = root / MANIFEST
    if not path.exists() and not path.is_symlink():
        return None
    try:
        data = json.loads(read_regular(path, MANIFEST_BYTES, inside=root))
        version = data["schema_version"]
        check_version(path, version)
        shards = {kind: tuple(_parse_shard(path, kind, row) for row in data["shards"][kind]) for kind in KINDS}
        paths = [shard.path for kind in KINDS for shard in shards[kind]]
        if len(set(paths)) < len(paths):
            raise ValueError("a shard is listed twice")
        return Manifest(version, metric_names(data["metric_ids"]), shards)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = error
    except BadInput as error:
        error.remedy = error.remedy if error.reason in (Reason.SCHEMA_VERSION, Reason.UNREADABLE_FILE) else _REBUILD
        raise
    raise BadInput(
        f"{path}: not a corpus manifest", cause=str(problem), remedy=_REBUILD, reason=Reason.CORRUPT
    ) from problem


_REBUILD = f"move {MANIFEST} away and run the same command again: it is rebuilt from the shards in the folder"


def is_shard(kind: str, name: str) -> bool:
    """Whether a file in the folder of a kind is named like a shard."""
    match = _PATH.fullmatch(f"{kind}/{name}")
    return match is not None and match[1] == kind


def _parse_shard(manifest: Path, kind: str, row: object) -> Shard:
    """A shard as the manifest lists it; raises BadInput for a path that no shard of ours has, else ValueError."""
    shard = from_json(Shard, row)
    if not isinstance(shard.path, str) or not (match := _PATH.fullmatch(shard.path)) or match[1] != kind:
        problem = f"{manifest}: names {shard.path!r}, which is no shard of this folder"
        raise BadInput(problem, cause="the manifest was edited or comes from elsewhere", reason=Reason.OUTSIDE)
    if not all(isinstance(number, int) and number >= 0 for number in (shard.rows, shard.bytes)):
        raise ValueError(f"{shard.path}: rows and bytes are counts")
    if not is_id(shard.first) or not is_id(shard.last) or not isinstance(shard.sha256, str):
        raise ValueError(f"{shard.path}: no id or no hash")
    return shard


def metric_names(names: object) -> tuple[str, ...]:
    """A list of metric ids, checked; raises ValueError for anything else."""
    if not isinstance(names, list) or not all(isinstance(name, str) and name.isidentifier() for name in names):
        raise ValueError("metric_ids is not a list of names")
    return tuple(names)


def write_manifest(root: Path, manifest: Manifest) -> None:
    """Replaces the manifest atomically: readers see either the old corpus or the new one."""
    data = {
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


# Texts that every row has.
NEVER_NULL = frozenset(
    ("id", "program_id", "measurement_id", "origin", "family", "lineage", "arch", "device", "flags", "arguments")
)


def read_shard(root: Path, shard: Shard, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a shard, with all columns or only `columns`; what was added to the columns since has its default."""
    try:
        table = pq.ParquetFile(root / shard.path).read(columns=columns)
        table.validate(full=True)  # that texts are UTF-8
        for name in sorted(NEVER_NULL.intersection(table.column_names)):
            if table[name].null_count:
                raise pa.ArrowInvalid(f"the column {name} lacks values")
        return _complete_table(shard.path.partition("/")[0], table, columns is None)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(
            f"{root / shard.path}: cannot be read",
            cause=str(error),
            remedy="run `synth profile DIR --out CORPUS --repair`, which drops it and measures what it held again",
            reason=Reason.CORRUPT,
        ) from error


def _complete_table(kind: str, table: pa.Table, with_missing: bool) -> pa.Table:
    kinds = KERNEL_FIELDS if kind == "measurements" else {}
    columns = {name: table[name] for name in table.column_names}
    columns |= {name: add_missing_fields(kinds[name], column) for name, column in columns.items() if name in kinds}
    if with_missing:
        fixed = schema_of(kind, ()).names
        columns |= {name: _added_column(kind, name, len(table)) for name in fixed if name not in columns}
        columns = {name: columns.pop(name) for name in fixed} | columns
    return pa.table(columns)


def _added_column(kind: str, name: str, rows: int) -> pa.Array | None:
    """A column that earlier corpora lack, with its default; None for others."""
    if name in ADDED_COLUMNS[kind]:
        return pa.repeat(ADDED_COLUMNS[kind][name], rows)
    return default_column(KernelRecord, name, rows) if kind == "measurements" else None


def file_hash(path: Path) -> str:
    """SHA-256 of a shard as hexadecimal text. Raises BadInput unless it is a regular file of at most SHARD_BYTES."""
    with open_regular(path, SHARD_BYTES) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damaged_shards(root: Path, manifest: Manifest) -> list[tuple[Shard, str]]:
    """Shards that are missing, changed since they were written, or no shards of this version, each with the reason."""
    problems = ((shard, _shard_problem(root, shard)) for shard in manifest.all_shards())
    return [(shard, why) for shard, why in problems if why]


def _shard_problem(root: Path, shard: Shard) -> str:
    path = root / shard.path
    try:
        if path.is_symlink():
            return "is a symbolic link"
        size = path.stat().st_size
        if size != shard.bytes:
            return f"{size} bytes instead of {shard.bytes}"
        if file_hash(path) != shard.sha256:
            return "its hash is not the one in the manifest"
        parquet = pq.ParquetFile(path)
        if parquet.metadata.num_rows != shard.rows:
            return f"{parquet.metadata.num_rows} rows instead of {shard.rows}"
        return column_mismatch(shard.path.partition("/")[0], parquet.schema_arrow)
    except (OSError, pa.ArrowException, BadInput) as error:
        return (error.strerror if isinstance(error, OSError) else "") or str(error).partition("\n")[0]


def column_mismatch(kind: str, schema: pa.Schema) -> str:
    """Why a file's columns are not those of a kind of shard; "" if they are. Further columns must be metrics.

    A shard that an earlier version wrote may lack columns and fields that have a default.
    """
    kernel = KERNEL_FIELDS if kind == "measurements" else {}
    for wanted in schema_of(kind, ()):
        stored = schema.field(wanted.name).type if wanted.name in schema.names else None
        if stored is None:
            is_known = _added_column(kind, wanted.name, 0) is not None
        elif wanted.name in kernel:
            is_known = lacks_only_defaults(kernel[wanted.name], stored)
        else:
            is_known = stored == wanted.type
        if not is_known:
            return f"its column {wanted.name} is not that of schema version {SCHEMA_VERSION}"
    extra = metric_columns(kind, schema)
    if extra and (kind != "measurements" or any(schema.field(name).type != pa.float64() for name in extra)):
        return f"it has the unknown column {extra[0]}"
    return ""


def metric_columns(kind: str, schema: pa.Schema) -> list[str]:
    """The columns of a shard besides the fixed ones."""
    fixed = set(schema_of(kind, ()).names)
    return [name for name in schema.names if name not in fixed]


def remove_shards(manifest: Manifest, bad: Iterable[Shard]) -> Manifest:
    """The manifest without the shards in `bad`."""
    bad_paths = {shard.path for shard in bad}
    shards = {kind: tuple(s for s in manifest.shards[kind] if s.path not in bad_paths) for kind in KINDS}
    return replace(manifest, shards=shards)
