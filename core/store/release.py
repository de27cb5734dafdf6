"""A release: a corpus in compact Parquet files that stand by themselves, read by the same interface as a corpus.

    RELEASE/README.md       dataset card (Hugging Face's form: configurations and splits)
    RELEASE/release.json    format version, metric and counter columns, tools and counts of every labelled shard
    RELEASE/SHA256SUMS      of every other file
    RELEASE/labels/<split>-<first>-<last>.parquet     one row per kernel of a run, of the labelled shards first..last
    RELEASE/programs/<split>-<first>-<last>.parquet   one row per program, text and recorded choices included

Counters are integers, the sums over all dispatches of a kernel, so that a mean divides exactly as the profile did. What
the timing model was given (`work`, `bounds`) is left out. Programs with the same control skeleton are one lineage.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import open_regular, read_regular
from hipsynth.core.folders import RELEASE_FACTS
from hipsynth.core.languages import HIP
from hipsynth.core.reasons import Reason
from hipsynth.core.store import shards as files
from hipsynth.core.store.corpus import Corpus
from hipsynth.core.store.schema import KINDS, schema_of
from hipsynth.core.store.splits import RELEASED

FACTS, SUMS, CARD = RELEASE_FACTS, "SHA256SUMS", "README.md"
STAGE, STAGED = ".staged", "files.txt"  # a new release before it takes the old one's place, and its files
FORMAT = 2
FACTS_BYTES, FILE_BYTES = 64 << 20, 4 << 30
CONFIGS = ("labels", "programs")
TOOLS = ("backend", "backend_version", "compiler", "headers")
REGISTERS = ("vgprs", "agprs", "sgprs", "lds_bytes", "scratch_bytes")
TRAFFIC = ("hbm_read_bytes", "hbm_write_bytes", "infinity_hits")
AXES = ("x", "y", "z")
_SUM_LINE = re.compile(r"([0-9a-f]{64})  ([\w./-]+)")
_FILE = re.compile(rf"({'|'.join(CONFIGS)})/({'|'.join(RELEASED)})-\d{{4}}-\d{{4}}\.parquet")

_TEXT = pa.string()
PROGRAMS = pa.schema(
    [(name, _TEXT) for name in ("id", "family", "skeleton", "lineage", "params", "runs")]
    + [("choices", pa.list_(pa.int64())), ("opcodes", pa.list_(_TEXT)), ("shard", pa.int32()), ("text", _TEXT)]
)


def labels_schema(metric_ids: Sequence[str], counters: Sequence[str]) -> pa.Schema:
    """The columns of labels files."""
    columns = [(name, _TEXT) for name in ("id", "program", "family", "lineage", "arguments", "arch", "device", "flags")]
    columns += [("kernel_index", pa.int16()), ("kernel", _TEXT), ("dispatches", pa.int32())]
    columns.append(("same_shape", pa.bool_()))
    columns += [(f"{dimension}_{axis}", pa.int32()) for dimension in ("grid", "block") for axis in AXES]
    columns += [("duration_ns", pa.float64()), ("bottleneck", _TEXT), ("sampling", _TEXT)]
    columns += [("groups_simulated", pa.int64()), ("duration_error", pa.float32()), ("counter_error", pa.float32())]
    columns.append(("occupancy", pa.float64()))  # 0 to 1
    columns += [(name, pa.int32()) for name in REGISTERS] + [(name, pa.float64()) for name in TRAFFIC]
    columns += [(name, pa.float32()) for name in metric_ids] + [(name, pa.int64()) for name in counters]
    return pa.schema([*columns, ("code", _TEXT), ("exit_code", pa.int32()), ("shard", pa.int32())])


@dataclass(frozen=True)
class ShardOrigin:
    """How a shard was made: its seed, how many programs and sizes, the digest of the generator (grammar_digest()), and
    the elapsed seconds that it took with how many workers; None after an interruption."""

    seed: int
    programs: int
    sizes: int
    grammar: str
    seconds: float | None = None
    workers: int = 1


@dataclass(frozen=True)
class ShardFacts:
    """What release.json tells of a labelled shard: its tools (TOOLS and "version"), how many programs, labels and
    failed items it has, the reasons of these, and how it was made, if that is known."""

    tools: Mapping[str, str]
    programs: int
    labels: int
    failures: int
    reasons: Mapping[str, int]
    origin: ShardOrigin | None = None


@dataclass(frozen=True)
class ReleaseFacts:
    """The content of release.json; `shards` by number, as four digits."""

    format: int
    schema_version: int
    metric_ids: tuple[str, ...]
    counters: tuple[str, ...]
    shards: Mapping[str, ShardFacts]

    def shard(self, number: int) -> ShardFacts:
        """Raises BadInput "corrupt" if a row is of a shard that release.json does not know."""
        name = f"{number:04}"
        if name not in self.shards:
            problem = f"{FACTS} says nothing of shard {name}, of which there are rows"
            raise BadInput(problem, remedy="restore it", reason=Reason.CORRUPT)
        return self.shards[name]


class Release(Corpus):
    """A release opened for reading as a corpus: the same tables; columns that it does not keep are null or empty."""

    def __init__(self, root: Path, facts: ReleaseFacts, named: Sequence[str], damaged: Sequence[str]) -> None:
        self.root, self.facts = root, facts
        empty: dict[str, tuple[files.Shard, ...]] = dict.fromkeys(KINDS, ())
        self.manifest = files.Manifest(facts.schema_version, facts.metric_ids, empty)
        self.damaged = tuple(damaged)
        failed = sum(shard.failures for shard in facts.shards.values())
        self.notes = (f"{root}: {failed:,} failed items of the labelled shards are not part of the release",)
        self._named = named

    @classmethod
    def load(cls, root: Path, *, skip_damaged: bool = False) -> Release:
        """Opens a release after comparing all checksums. Raises BadInput: "corrupt", "outside", "schema_version"."""
        facts = read_facts(root)
        sums = read_sums(root)
        damaged = [f"{root / path}: {why}" for path, why in checksum_mismatches(root, sums)]
        if damaged and not skip_damaged:
            if (root / STAGE / STAGED).exists():
                raise BadInput(
                    f"{root}: `synth release pack` was interrupted while it replaced its files",
                    remedy="run the same command again, which finishes it",
                    reason=Reason.CORRUPT,
                )
            raise BadInput(
                "damaged release: " + "; ".join(damaged),
                cause="the file changed after it was written",
                remedy="restore it, for example with git, or read the intact files with --skip-damaged",
                reason=Reason.CORRUPT,
            )
        bad = {line.partition(": ")[0] for line in damaged}
        named = [path for path in sorted(sums) if _FILE.fullmatch(path) and str(root / path) not in bad]
        return cls(root, facts, named, damaged)

    def read(self, config: str, split: str = "") -> pa.Table:
        """The rows of "labels" or "programs" as stored, of one split or of all. Raises BadInput for a wrong file."""
        wanted = [path for path in self._named if path.startswith(f"{config}/{split}-" if split else f"{config}/")]
        schema = PROGRAMS if config == "programs" else self._labels_schema()
        tables = []
        for path in wanted:
            try:
                table = pq.ParquetFile(self.root / path).read()
                tables.append(table.select(schema.names).cast(schema))
            except (OSError, KeyError, ValueError, pa.ArrowException) as error:
                problem = f"{self.root / path}: not a file of this release"
                raise BadInput(problem, cause=str(error), remedy="restore it", reason=Reason.CORRUPT) from error
        return pa.concat_tables(tables) if tables else schema.empty_table()

    def opcodes(self) -> set[str]:
        return {opcode for row in self.read("programs")["opcodes"].to_pylist() for opcode in row or ()}

    def _labels_schema(self) -> pa.Schema:
        return labels_schema(self.metric_ids, self.facts.counters)

    def _read_table(self, kind: str) -> pa.Table:
        if kind == "programs":
            return _as_programs(self.read("programs"))
        if kind == "measurements":
            return _as_measurements(self.read("labels"), self.facts, self.metric_ids)
        return schema_of(kind, self.metric_ids).empty_table()


def is_release_file(name: str) -> bool:
    """Whether a path in a release's folder is that of a data file."""
    return _FILE.fullmatch(name) is not None


def read_facts(root: Path) -> ReleaseFacts:
    """The content of release.json. Raises BadInput: "corrupt", "schema_version", or a reason of read_regular."""
    path = root / FACTS
    try:
        document = json.loads(read_regular(path, FACTS_BYTES, inside=root))
        if document["format"] != FORMAT:
            raise BadInput(
                f"{path}: release format {document['format']}, this installation reads {FORMAT}",
                remedy="use the hipsynth version that wrote it",
                reason=Reason.SCHEMA_VERSION,
            )
        files.check_version(path, document["schema_version"])
        facts = from_json(ReleaseFacts, document)
        if not all(name.isidentifier() for name in (*facts.metric_ids, *facts.counters)):
            raise ValueError("metric_ids or counters is not a list of names")
        for number, shard in facts.shards.items():
            if not number.isdecimal() or not {*TOOLS, "version"} <= shard.tools.keys():
                raise ValueError(f"shard {number!r} has no tools")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path}: damaged", cause=repr(error), remedy="restore it", reason=Reason.CORRUPT) from error
    return facts


def read_sums(root: Path) -> dict[str, str]:
    """SHA256SUMS as path -> digest. Raises BadInput: "corrupt", "outside" for a path that no release has."""
    text = read_regular(root / SUMS, FACTS_BYTES, inside=root).decode(errors="replace")
    sums: dict[str, str] = {}
    for line in text.splitlines():
        match = _SUM_LINE.fullmatch(line)
        if match is None:
            raise BadInput(f"{root / SUMS}: damaged", cause=f"the line {line[:80]!r}", reason=Reason.CORRUPT)
        if match[2] not in (FACTS, CARD) and not _FILE.fullmatch(match[2]):
            problem = f"{root / SUMS}: names {match[2]!r}, which is no file of a release"
            raise BadInput(problem, cause="it was edited or comes from elsewhere", reason=Reason.OUTSIDE)
        sums[match[2]] = match[1]
    return sums


def checksum_mismatches(root: Path, sums: Mapping[str, str]) -> list[tuple[str, str]]:
    """(path, why) of the files that are missing or not those of the checksums."""
    mismatches = []
    for path, digest in sums.items():
        try:
            if file_checksum(root / path, root) != digest:
                mismatches.append((path, f"its hash is not the one in {SUMS}"))
        except BadInput as error:
            mismatches.append((path, error.reason.replace("_", " ")))
    return mismatches


def file_checksum(path: Path, inside: Path) -> str:
    """SHA-256 of a file of a release as hexadecimal text. Raises BadInput for what lies outside `inside`."""
    with open_regular(path, FILE_BYTES, inside=inside) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _as_programs(table: pa.Table) -> pa.Table:
    n = table.num_rows
    columns = {name: table[name] for name in ("id", "family", "lineage", "params", "runs", "choices", "text")}
    columns |= {"origin": pa.repeat("synthetic", n), "name": pa.repeat("", n)}
    columns |= {"language": pa.repeat(HIP, n), "derivation": pa.array([[]] * n, pa.list_(_TEXT))}
    return _fill_table(columns, schema_of("programs", ()), n).sort_by("id")


def _as_measurements(labels: pa.Table, facts: ReleaseFacts, metric_ids: Sequence[str]) -> pa.Table:
    """The labels as the rows of a corpus, sorted like them. Means per dispatch, as the profile stored them."""
    n = labels.num_rows
    same = ("arguments", "arch", "flags", "device", "lineage", "family", "exit_code", "kernel_index", "kernel")
    columns: dict[str, object] = {name: labels[name] for name in (*same, "dispatches", "same_shape", "duration_ns")}
    columns |= {"measurement_id": labels["id"], "program_id": labels["program"], "origin": pa.repeat("synthetic", n)}
    tools = [facts.shard(shard).tools for shard in labels["shard"].to_pylist()]
    columns |= {name: pa.array([row[name] for row in tools], _TEXT) for name in TOOLS}
    schema = schema_of("measurements", metric_ids)
    columns |= {dimension: _build_triples(labels, dimension, schema) for dimension in ("grid", "block")}
    columns["provenance"] = _provenance_column(labels, schema)
    columns["counters"] = _counter_means(labels, facts.counters, schema)
    empty = pa.repeat("", n)
    columns |= {"symbol": empty, "signature": empty, "language": pa.repeat(HIP, n), "meta": pa.repeat("{}", n)}
    versions = pa.array([row["version"] for row in tools], _TEXT)
    source = {"backend": columns["backend"], "version": versions, "duration_from": empty}
    columns["source"] = _build_struct(source, schema, "source", n)
    columns["registers"] = _build_struct({name: labels[name] for name in REGISTERS}, schema, "registers", n)
    columns["traffic"] = _build_struct({name: labels[name] for name in TRAFFIC}, schema, "traffic", n)
    columns["occupancy"] = _build_struct({"fraction": labels["occupancy"]}, schema, "occupancy", n)
    columns["limits"] = _build_struct({"bottleneck": labels["bottleneck"]}, schema, "limits", n)
    errors = [[("Duration", error)] if error else [] for error in labels["duration_error"].to_pylist()]
    sampled = {"strategy": labels["sampling"], "groups_simulated": labels["groups_simulated"], "error": errors}
    columns["sampling"] = _build_struct(sampled, schema, "sampling", n)
    columns |= {name: labels[name] for name in metric_ids}
    return _fill_table(columns, schema, n).sort_by([("measurement_id", "ascending"), ("kernel_index", "ascending")])


def _to_column(values: object, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, kind)


def _fill_table(values: Mapping[str, object], schema: pa.Schema, rows: int) -> pa.Table:
    """A table of the schema; columns that are not given are null."""
    columns = [
        _to_column(values[part.name], part.type) if part.name in values else pa.nulls(rows, part.type)
        for part in schema
    ]
    return pa.table(columns, schema=schema)


def _build_struct(values: Mapping[str, object], schema: pa.Schema, name: str, rows: int) -> pa.Array:
    parts = list(schema.field(name).type)
    columns = [
        _to_column(values[part.name], part.type) if part.name in values else pa.nulls(rows, part.type) for part in parts
    ]
    return pa.StructArray.from_arrays(columns, fields=parts)


def _build_triples(labels: pa.Table, field: str, schema: pa.Schema) -> pa.Array:
    values = np.stack([labels[f"{field}_{axis}"].to_numpy() for axis in AXES], axis=1).astype(np.int64).ravel()
    return pa.FixedSizeListArray.from_arrays(pa.array(values), 3).cast(schema.field(field).type)


def _provenance_column(labels: pa.Table, schema: pa.Schema) -> pa.Array:
    fixed = [("host_code", "generated"), ("isolated", "true")]
    rows = zip(labels["code"].to_pylist(), labels["sampling"].to_pylist(), strict=True)
    pairs = [[("code", code), *fixed, ("sampled", str(how != "exact").lower())] for code, how in rows]
    return pa.array(pairs, schema.field("provenance").type)


def _counter_means(labels: pa.Table, counters: Sequence[str], schema: pa.Schema) -> pa.Array:
    """The counters of each row as a map of means per dispatch; one that is null in a row is not in its map."""
    n = labels.num_rows
    is_counted = np.empty((n, len(counters)), bool)
    values = np.empty((n, len(counters)), np.float64)
    for index, name in enumerate(counters):
        column = labels[name].combine_chunks()
        is_counted[:, index] = column.is_valid().to_numpy(zero_copy_only=False)
        values[:, index] = column.fill_null(0).to_numpy().astype(np.float64)
    values /= labels["dispatches"].to_numpy()[:, None]
    offsets = np.concatenate([[0], np.cumsum(is_counted.sum(axis=1))]).astype(np.int32)
    names = pa.DictionaryArray.from_arrays(np.nonzero(is_counted)[1].astype(np.int32), pa.array(counters)).cast(_TEXT)
    return pa.MapArray.from_arrays(offsets, names, pa.array(values[is_counted])).cast(schema.field("counters").type)
