"""Content of a corpus: the item record, and the Parquet schemas derived from it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import pyarrow as pa

from hipsynth.core.documents import from_json, types_of
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.languages import HIP
from hipsynth.core.program import ProgramRecord
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store.columns import arrow_columns, arrow_row

SCHEMA_VERSION = 3
Row = dict[str, object]  # of a shard: column -> value, as Arrow takes it
StoredRow = Mapping[str, Any]  # of a shard, as Arrow gives it: column -> value of the column's type
KINDS = ("programs", "measurements", "failures")
# The id column by which the rows of each kind of shard are sorted and found.
KEY = {"programs": "id", "measurements": "measurement_id", "failures": "measurement_id"}

_NOT_STORED = ("metrics", "language", "meta")  # of a kernel: metrics and the language are columns, `meta` is JSON text
_COMMON = ("lineage", "origin", "family", "language")
KERNEL_FIELDS = {name: kind for name, kind in types_of(KernelRecord).items() if name not in _NOT_STORED}
# Columns that earlier corpora lack, with the value that they have there.
ADDED_COLUMNS = {
    "programs": {"language": HIP},
    "measurements": {"language": HIP, "meta": "{}"},
    "failures": {"language": HIP},
}


@dataclass(frozen=True, kw_only=True)
class MeasurementKey:
    """Everything that determines the result of one run on one target, in hashing order.

    `files`: a digest of what a program is built from and reads besides its text, "" for a program of one file.
    """

    program_id: str
    arguments: str
    arch: str
    flags: str
    device: str
    backend: str
    backend_version: str
    compiler: str
    headers: str
    files: str = ""

    def measurement_id(self) -> str:
        """16 hex digits of a hash over all of it."""
        identity = [getattr(self, name) for name in _IDENTITY]
        identity += [self.files] if self.files else []  # without files, the ids of released corpora
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


_IDENTITY = tuple(part.name for part in fields(MeasurementKey) if part.name != "files")  # columns, too


@dataclass(frozen=True, kw_only=True)
class CorpusItem(MeasurementKey):
    """Result of one run of a program on one target, with tool versions. `kernels` is empty for a failed item.

    `arguments`: its command line, quoted as for a shell; "" without arguments.
    """

    lineage: str
    origin: str
    family: str
    status: RunStatus
    language: str = HIP
    reason: Reason = Reason.NONE
    message: str = ""
    exit_code: int | None = None
    stdout: str = ""
    provenance: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[KernelRecord, ...] = ()

    @property
    def id(self) -> str:
        return self.measurement_id()

    def record(self) -> Row:
        """The JSON object stored in the journal."""
        return asdict(self)

    @staticmethod
    def from_record(record: Mapping[str, object]) -> CorpusItem:
        """The item of a journal's record. Raises TypeError or ValueError for anything else."""
        return from_json(CorpusItem, record)


def program_row(record: ProgramRecord, text: str) -> Row:
    """The row of a programs shard for a programs.jsonl record and the program's text."""
    return {
        "id": record["id"],
        "origin": record["origin"],
        "family": record["family"],
        "name": record.get("name", ""),
        "lineage": record.get("lineage") or record["id"],
        "derivation": list(record.get("derivation", ())),
        "params": json.dumps(record.get("params", {}), sort_keys=True),
        "choices": [int(choice) for choice in record.get("choices", ())],
        "expected": json.dumps(record["expected"], sort_keys=True) if record.get("expected") else None,
        "runs": json.dumps(record.get("runs", []), sort_keys=True),
        "language": record.get("language", HIP),
        "text": text,
    }


def item_rows(item: CorpusItem) -> list[Row]:
    """The rows of an item: one measurement per kernel if it is ok, else one failure."""
    common = {"measurement_id": item.id} | {name: getattr(item, name) for name in (*_IDENTITY, *_COMMON)}
    common["provenance"] = sorted((key, str(value)) for key, value in item.provenance.items())
    common["exit_code"] = item.exit_code
    if item.status != RunStatus.OK:
        return [common | {"reason": item.reason, "message": item.message, "stdout": item.stdout}]
    return [common | _kernel_row(index, kernel) for index, kernel in enumerate(item.kernels)]


def _kernel_row(index: int, kernel: KernelRecord) -> Row:
    row = {name: value for name, value in arrow_row(kernel).items() if name not in _NOT_STORED}
    meta = json.dumps(dict(kernel.meta), sort_keys=True)
    return {"kernel_index": index, "kernel": row.pop("name"), **row, "meta": meta, **kernel.metrics}


def schema_of(kind: str, metric_ids: Sequence[str]) -> pa.Schema:
    """The Parquet schema of one kind of shard; `metric_ids` become nullable double columns of measurements."""
    text = pa.string()
    if kind == "programs":
        common = [(name, text) for name in ("id", "origin", "family", "name", "lineage")]
        common += [("derivation", pa.list_(text)), ("params", text), ("choices", pa.list_(pa.int64()))]
        return pa.schema([*common, ("expected", text), ("runs", text), ("language", text), ("text", text)])
    common = [(name, text) for name in ("measurement_id", *_IDENTITY, *_COMMON)]
    common += [("provenance", pa.map_(text, text)), ("exit_code", pa.int32())]
    if kind == "failures":
        return pa.schema([*common, ("reason", text), ("message", text), ("stdout", text)])
    kernel = arrow_columns(KernelRecord, leave_out=_NOT_STORED)
    named = [("kernel_index", pa.int32()), ("kernel", kernel.pop("name"))]
    metric_columns = ((name, pa.float64()) for name in metric_ids)
    return pa.schema([*common, *named, *kernel.items(), ("meta", text), *metric_columns])


def sort_key(kind: str, row: Mapping[str, object]) -> tuple[str, int]:
    """Rows are ordered by id, and by kernel within an item."""
    index = row.get("kernel_index")
    return str(row[KEY[kind]]), index if isinstance(index, int) else 0


def to_table(kind: str, rows: Sequence[Mapping[str, object]], metric_ids: Sequence[str]) -> pa.Table:
    """The rows, sorted, as an Arrow table; leaves out metrics for which the corpus has no column. Rows that an earlier
    version wrote get the columns that were added since."""
    ordered = [ADDED_COLUMNS[kind] | dict(row) for row in sorted(rows, key=lambda row: sort_key(kind, row))]
    return pa.Table.from_pylist(ordered, schema=schema_of(kind, metric_ids))
