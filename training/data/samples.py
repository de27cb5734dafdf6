"""Turns a corpus into training samples: one label per run of a program, architecture and flag set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.json_lines import write_json_lines
from hipsynth.core.store import Corpus, Row, StoredRow, split_names, splits
from hipsynth.core.store.splits import OTHER
from hipsynth.profiling import metrics
from hipsynth.simulator import label_model
from hipsynth.simulator.devices import default_device, load_device
from hipsynth.source.arguments import run_text
from hipsynth.training.data.documents import ChatExport
from hipsynth.training.data.number_formats import DIGITS
from hipsynth.training.data.prompt import sample_messages
from hipsynth.training.data.relatives import find_duplicates, split_keys
from hipsynth.training.data.work_facts import COUNTERS, ITEMS, with_counters

# A program may launch several kernels. Its label is the kernel with the largest total time (duration x dispatches;
# of equals, the one launched first): the kernel to optimise.
LABEL_RULE = "the kernel with the largest total time"
# Members of columns: the limiting unit; dispatches with counters of an earlier one.
MEMBERS: Mapping[str, tuple[str, pa.DataType]] = {
    "bottleneck": ("limits", pa.string()),
    "reused": ("sampling", pa.int64()),
}
# Keys of `provenance` with the machine code's SHA-256: of a profile, and of a release, which keeps the first digits.
CODE_KEYS, CODE_DIGITS = ("code_sha256", "code"), 16
FACTS = ("program_id", "arguments", "lineage", "origin", "family", "language", "arch", "flags", "device")

OTHER_TOOLS, NOT_KNOWN, NO_SOURCE = "other tool version", "a metric is not known", "the source was not kept"
DAMAGED = "its program is in a damaged shard"
# Reasons for which a label of the chosen backend and devices is left out.
LOST = (OTHER_TOOLS, NOT_KNOWN, NO_SOURCE, DAMAGED)


@dataclass
class Selection:
    """Label rows (measurement columns as dicts) and the number of rows left out, by reason."""

    rows: list[StoredRow]
    left_out: Counter[str] = field(default_factory=Counter)


def select_labels(
    measurements: pa.Table,
    *,
    backend: str | None = None,
    device: str | None = None,
    every_device: bool = False,
    every_kernel: bool = False,
) -> Selection:
    """Selects one kernel row per (program, arguments, arch, flags) by LABEL_RULE, or with `every_kernel` all of them,
    sorted by measurement id.

    Takes rows of the architecture's default device unless `device` names another or `every_device` asks for all, and
    only labels with all twelve metrics. Rows have MEMBERS and `code`, too. Simulated and measured values
    are never mixed: raises UsageError if the corpus has several backends and `backend` is not given. Of several
    versions of backend, compiler or headers, only the most frequent one of each language is used.
    """
    plain = [part.name for part in measurements.schema if not _is_large(part.type)]
    extra = (*MEMBERS, "code", ITEMS, *COUNTERS)
    rows = with_counters(_with_members(measurements)).select([*plain, *extra]).to_pylist()
    backends = sorted({row["backend"] for row in rows})
    if backend is None and len(backends) > 1:
        raise UsageError(
            f"the corpus holds labels of several backends: {' and '.join(backends)}", remedy="choose one with --backend"
        )
    chosen = [row for row in rows if backend in (None, row["backend"])]
    if not every_device:
        chosen = [row for row in chosen if row["device"] == (device or default_device(row["arch"]))]
    left_out = Counter({"other backend or device": len(rows) - len(chosen)})
    items = _kernels_by_run(chosen)
    wanted = [row for kernels in items.values() for row in (kernels if every_kernel else kernels[:1])]
    left_out["other kernels of the program"] = len(chosen) - len(wanted)
    common = _usual_versions([kernels[0] for kernels in items.values()])
    labels = [row for row in wanted if _tool_versions(row) == common[row["language"]]]
    left_out[OTHER_TOOLS] = len(wanted) - len(labels)
    complete = [row for row in labels if all(row[metric] is not None for metric in metrics.answer_ids())]
    left_out[NOT_KNOWN] = len(labels) - len(complete)
    return Selection(sorted(complete, key=lambda row: str(row["measurement_id"])), +left_out)


def _usual_versions(rows: Sequence[StoredRow]) -> dict[str, tuple[str, ...]]:
    """By language, the versions of tools that most rows have."""
    counts: dict[str, Counter[tuple[str, ...]]] = {}
    for row in rows:
        counts.setdefault(row["language"], Counter())[_tool_versions(row)] += 1
    return {
        language: max(versions, key=lambda version: (versions[version], version))
        for language, versions in counts.items()
    }


def _kernels_by_run(rows: Sequence[StoredRow]) -> dict[str, list[StoredRow]]:
    """Measurement id -> the kernels of the run, the heaviest first."""
    items: dict[str, list[StoredRow]] = {}
    for row in rows:
        items.setdefault(row["measurement_id"], []).append(row)
    for kernels in items.values():
        kernels.sort(key=lambda kernel: (-_total_time(kernel), kernel["kernel_index"]))
    return items


def no_labels(root: Path, measurements: pa.Table, selection: Selection) -> BadInput:
    """The error for an empty selection: why each row was left out, and which backends and devices the corpus has."""
    why = ", ".join(f"{count} x {reason}" for reason, count in selection.left_out.items())
    if not why and not measurements.num_rows:
        failed = Counter(map(str, Corpus.open(root).failures()["reason"].to_pylist()))
        why = ", ".join(f"{count} x {reason}" for reason, count in failed.most_common())
    rows = measurements.select(["backend", "device"]).to_pylist()
    backends = ", ".join(sorted({f"{row['backend']} on {row['device']}" for row in rows}))
    return BadInput(
        f"{root}: no labels",
        cause=why or "the corpus has no measurements",
        remedy=f"the corpus holds labels of {backends}" if backends else "profile a folder of programs into it first",
    )


def _with_members(measurements: pa.Table) -> pa.Table:
    """The table with the MEMBERS of its columns as columns, nulls for those that it lacks; and with `code`, the first
    CODE_DIGITS of the machine code's hash, "" where it is not known."""
    for name, (column, kind) in MEMBERS.items():
        lacks = column not in measurements.column_names
        values = pa.nulls(measurements.num_rows, kind) if lacks else pc.struct_field(measurements[column], name)
        measurements = measurements.append_column(name, values)
    codes = pc.coalesce(*(pc.map_lookup(measurements["provenance"], key, "first") for key in CODE_KEYS), "")
    return measurements.append_column("code", pc.utf8_slice_codeunits(codes, 0, CODE_DIGITS))


def _is_large(kind: pa.DataType) -> bool:
    """Columns that labels do not need and that take long to turn into Python objects."""
    return bool(pa.types.is_map(kind) or pa.types.is_struct(kind))


def _total_time(kernel: StoredRow) -> float:
    return float(kernel["duration_ns"] * kernel["dispatches"])


def _tool_versions(row: StoredRow) -> tuple[str, ...]:
    return label_model.current_version(row["backend_version"]), row["compiler"], row["headers"]


def iter_samples(corpus: Corpus, selection: Selection, digits: str = "sig3") -> Iterator[Row]:
    """Yields chat samples: id, messages, origin of the label, and the part it belongs to in each kind of split."""
    for row, text, split in with_sources(corpus, selection.rows):
        values = {metric: row[metric] for metric in metrics.answer_ids()}
        messages = sample_messages(text, values, row["arch"], row["flags"], digits)
        facts = {name: row[name] for name in (*FACTS, "backend", "backend_version", "kernel")}
        yield {"id": row["measurement_id"], "messages": messages, **facts, "split": split}


def require_sources(corpus: Corpus, selection: Selection) -> Selection:
    """The selection without labels of surveyed programs whose source was not kept, and of programs in damaged shards
    that were left out. Raises BadInput if none is left, or if a program of the labels is not in the corpus."""
    texts = dict(zip(*(corpus.programs()[name].to_pylist() for name in ("id", "text")), strict=True))
    missing = {row["program_id"] for row in selection.rows} - texts.keys()
    if missing and not corpus.damaged:
        raise BadInput(f"{corpus.root}: program {min(missing)} is not in the corpus", remedy="profile its folder again")
    rows = [row for row in selection.rows if texts.get(row["program_id"])]
    if not rows and missing:
        cause = "; ".join(corpus.damaged)
        raise BadInput(f"{corpus.root}: no program of its labels can be read", cause=cause, remedy="restore the files")
    if not rows:
        remedy = "survey again into a new corpus, with --keep-sources"
        raise BadInput(f"{corpus.root}: the sources of its programs were not kept", remedy=remedy)
    damaged = sum(row["program_id"] in missing for row in selection.rows)
    lost = Counter({NO_SOURCE: len(selection.rows) - len(rows) - damaged, DAMAGED: damaged})
    return Selection(rows, selection.left_out + lost)


def with_sources(corpus: Corpus, rows: Sequence[StoredRow]) -> Iterator[tuple[StoredRow, str, dict[str, str]]]:
    """Each row of require_sources() with its program's text as it was run and its part in each kind of split; by
    lineage, "other" for what find_duplicates() finds."""
    texts = dict(zip(*(corpus.programs()[name].to_pylist() for name in ("id", "text")), strict=True))
    columns = {
        name: [row[name] for row in rows] for name in ("measurement_id", "lineage", "family", "device", "origin")
    }
    columns["lineage"] = split_keys(columns["lineage"], texts)
    keys = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    parts = {name: splits(keys, name) for name in split_names()}
    run_texts = [run_text(texts[row["program_id"]], row["arguments"]) for row in rows]
    codes = [row["code"] for row in rows]
    duplicates = find_duplicates(parts["lineage"], columns["lineage"], run_texts, codes)
    parts["lineage"] = [
        OTHER if is_duplicate else part for part, is_duplicate in zip(parts["lineage"], duplicates, strict=True)
    ]
    for index, row in enumerate(rows):
        yield row, run_texts[index], {name: part[index] for name, part in parts.items()}


def export_chat(
    corpus: Corpus,
    out: Path,
    *,
    digits: str = "sig3",
    backend: str | None = None,
    device: str | None = None,
) -> ChatExport:
    """Writes the corpus as chat samples to `out`, atomically, one JSON object per line; returns a summary.

    Raises UsageError for an unknown number format or device and BadInput if the corpus has no usable label.
    """
    if digits not in DIGITS:
        raise UsageError(
            f"no number format {digits!r}", cause=suggest_name(digits, DIGITS), remedy=f"one of: {', '.join(DIGITS)}"
        )
    if device is not None:
        load_device(device)  # raises UsageError for an unknown device, instead of selecting nothing
    measurements = corpus.measurements()
    selection = select_labels(measurements, backend=backend, device=device)
    if not selection.rows:
        raise no_labels(corpus.root, measurements, selection)
    selection = require_sources(corpus, selection)
    write_json_lines(out, iter_samples(corpus, selection, digits), ensure_ascii=False)
    left_out = dict(selection.left_out)
    return ChatExport(str(out), "chat-jsonl", digits, len(selection.rows), LABEL_RULE, left_out)
