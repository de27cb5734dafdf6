"""Packs labelled shards into a release. The bytes depend on the set of shards alone, not on when each was packed: card
and facts also say how long each shard took."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.errors import BadInput
from hipsynth.core.files import sole_writer, write_whole
from hipsynth.core.reasons import Reason
from hipsynth.core.store import SCHEMA_VERSION, Corpus
from hipsynth.core.store.release import (
    CARD,
    CONFIGS,
    FACTS,
    FORMAT,
    PROGRAMS,
    SUMS,
    TOOLS,
    Release,
    ReleaseFacts,
    ShardFacts,
    file_checksum,
    labels_schema,
)
from hipsynth.core.store.splits import RELEASED, splits_of
from hipsynth.profiling import metrics
from hipsynth.synth.release.dataset_card import render_card
from hipsynth.synth.release.release_plan import Folders, ReleasePlan
from hipsynth.synth.release.release_rows import (
    build_opcodes,
    canonical_tools,
    kept_counters,
    label_row,
    program_row,
    tools_of,
)
from hipsynth.synth.release.staged_files import commit_files, finish_commit, stage_files

LEVEL = 19  # of zstd
ORDER = {
    "labels": [(name, "ascending") for name in ("program", "kernel_index", "arch", "arguments", "device", "flags")],
    "programs": [("id", "ascending")],
}
# What a row is of, whatever the identity of the tools that made it.
KEYS = {"labels": ("program", "arguments", "arch", "device", "flags", "kernel_index"), "programs": ("id",)}
_NAME = re.compile(r"\w+-\d{4}-\d{4}\.parquet")


@dataclass
class PackResult:
    """Result of packing: shards added now, shards in the release, and its size."""

    out: str
    added: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)  # not finished yet
    shards: int = 0
    programs: int = 0
    labels: int = 0
    failures: int = 0
    bytes: int = 0
    repeated: int = 0  # rows that another shard has, too: kept once, with the lower number


def pack_release(
    plan: ReleasePlan, work: Path, out: Path, shards: Sequence[int], note: Callable[[str], None]
) -> PackResult:
    """Adds the finished shards of a working folder to the release `out`, and writes card and checksums anew.

    Shards that are not finished are `missing`; those that the release has already stay as they are. Raises BadInput for
    a damaged shard or release, tools that changed within a shard, or a full disk.
    """
    folders = Folders(work)
    with sole_writer(out):
        finish_commit(out)
        before = _load_existing(out)
        packed = set(before.facts.shards) if before else set()
        wanted = [shard for shard in shards if f"{shard:04}" not in packed]
        result = PackResult(str(out), added=[shard for shard in wanted if folders.done_marker(shard).exists()])
        result.missing = [shard for shard in wanted if shard not in result.added]
        facts = before.facts if before else _initial_facts()
        tables = {config: before.read(config) for config in CONFIGS} if before else _empty_tables()
        old = dict(tables)
        for shard in result.added:
            note(f"shard {shard:04}")
            facts = _add_shard(folders, shard, facts, tables)
        if result.added or before is None:
            dropped = [shard for config in CONFIGS for shard in _drop_repeated(tables, config)]
            result.repeated = len(dropped)
            touched = {*result.added, *dropped, *_moved_shards(old, tables)}
            stage = stage_files(out)
            _write_ranges(stage, tables, sorted({plan.file_range(shard) for shard in touched}))
            facts = replace(facts, shards=dict(sorted(facts.shards.items())))
            _write_facts(stage, facts, tables)
            commit_files(out)
        return _count_release(result, out, facts, tables)


def _load_existing(out: Path) -> Release | None:
    if not (out / FACTS).exists():
        return None
    release = Release.load(out)
    if release.facts.counters != kept_counters() or release.metric_ids != metrics.all_ids():
        raise BadInput(
            f"{out}: was made with another table of metrics",
            remedy="pack all shards into a new folder",
            reason=Reason.MIXED_VERSIONS,
        )
    return release


def _initial_facts() -> ReleaseFacts:
    return ReleaseFacts(FORMAT, SCHEMA_VERSION, tuple(metrics.all_ids()), tuple(kept_counters()), {})


def _empty_tables() -> dict[str, pa.Table]:
    return {
        "labels": labels_schema(metrics.all_ids(), kept_counters()).empty_table(),
        "programs": PROGRAMS.empty_table(),
    }


def _add_shard(folders: Folders, shard: int, facts: ReleaseFacts, tables: dict[str, pa.Table]) -> ReleaseFacts:
    """Adds one labelled shard to the tables; returns the facts with its own."""
    corpus = _open_shard(folders, shard)
    rows, failures = corpus.measurements().to_pylist(), corpus.failures().to_pylist()
    opcodes = build_opcodes(rows)
    programs = {p["id"]: program_row(p, shard, opcodes.get(p["id"])) for p in corpus.programs().to_pylist()}
    labels = [label_row(row, programs[row["program_id"]], shard) for row in rows]
    tools = tools_of(rows, shard)
    _require_equal_tools(tools, facts, shard)
    reasons = _count_values(row["reason"] for row in failures)
    added_facts = ShardFacts(tools, len(programs), len(labels), len(failures), reasons, folders.read_origin(shard))
    for config, added in (("labels", labels), ("programs", list(programs.values()))):
        table = pa.Table.from_pylist(added, schema=tables[config].schema)
        tables[config] = pa.concat_tables([tables[config], table])
    return replace(facts, shards={**facts.shards, f"{shard:04}": added_facts})


def _open_shard(folders: Folders, shard: int) -> Corpus:
    """The corpus of a finished shard. Raises BadInput if it is damaged."""
    try:
        return Corpus.open(folders.corpus(shard))
    except BadInput as error:
        raise BadInput(
            f"shard {shard:04}: {error.what}",
            cause=error.cause,
            remedy="synth release make --repair makes what is lost again",
            reason=error.reason,
        ) from error


def _require_equal_tools(tools: Mapping[str, str], facts: ReleaseFacts, shard: int) -> None:
    """Raises BadInput if the labels of the release's shards may differ from those that these tools give."""
    for number, shard_facts in facts.shards.items():
        ours, theirs = canonical_tools(tools), canonical_tools(shard_facts.tools)
        if ours != theirs:
            other = ", ".join(
                f"{name}: {theirs[name]}, now {ours[name]}" for name in TOOLS if theirs[name] != ours[name]
            )
            raise BadInput(
                f"shard {shard} has other labels than shard {number} of the release",
                cause=other,
                remedy="pack all shards of these tools into a new folder",
                reason=Reason.MIXED_VERSIONS,
            )


def _drop_repeated(tables: dict[str, pa.Table], config: str) -> list[int]:
    """Keeps each row once, that of the lowest shard; returns the shards of the dropped ones."""
    table = tables[config]
    shards = table["shard"].to_pylist()
    keys = list(zip(*(table[name].to_pylist() for name in KEYS[config]), strict=True))
    first_rows: dict[tuple[str | int, ...], int] = {}
    for n in sorted(range(len(keys)), key=lambda n: (shards[n], n)):
        first_rows.setdefault(keys[n], n)
    if len(first_rows) < len(keys):
        tables[config] = table.take(sorted(first_rows.values()))
    return [shards[n] for n in sorted(set(range(len(keys))) - set(first_rows.values()))]


def _count_values(values: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in sorted(values):
        counts[value] = counts.get(value, 0) + 1
    return counts


def _row_splits(tables: Mapping[str, pa.Table]) -> dict[str, list[str]]:
    """The split of each row of each table."""
    splits = {}
    for config, table in tables.items():
        devices = table["device"].to_pylist() if config == "labels" else ()
        splits[config] = splits_of(table["family"].to_pylist(), table["lineage"].to_pylist(), devices)
    return splits


def _moved_shards(before: Mapping[str, pa.Table], after: Mapping[str, pa.Table]) -> set[int]:
    """The shards with programs that are now in another split."""
    programs = [tables["programs"] for tables in (before, after)]
    old, new = (
        dict(zip(table["id"].to_pylist(), _row_splits({"programs": table})["programs"], strict=True))
        for table in programs
    )
    shards = dict(zip(programs[0]["id"].to_pylist(), programs[0]["shard"].to_pylist(), strict=True))
    return {shards[key] for key, split in old.items() if new.get(key) != split}


def _write_ranges(out: Path, tables: Mapping[str, pa.Table], ranges: Sequence[tuple[int, int]]) -> None:
    """Writes the files of these ranges of shards, one per split, and removes those that are no longer needed."""
    for config, splits in _row_splits(tables).items():
        (out / config).mkdir(exist_ok=True)
        numbers = tables[config]["shard"].to_pylist()
        for first, last in ranges:
            for split in RELEASED:
                chosen = [n for n, name in enumerate(splits) if name == split and first <= numbers[n] <= last]
                path = out / config / f"{split}-{first:04}-{last:04}.parquet"
                if chosen:
                    _write_file(path, tables[config].take(chosen).sort_by(ORDER[config]))
                else:
                    path.unlink(missing_ok=True)


def _write_file(path: Path, table: pa.Table) -> None:
    texts = [part.name for part in table.schema if pa.types.is_string(part.type) and part.name not in ("id", "text")]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.combine_chunks(), sink, compression="zstd", compression_level=LEVEL, use_dictionary=texts,
        write_statistics=False, row_group_size=1 << 20, store_schema=False,
    )  # fmt: skip
    write_whole(path, sink.getvalue().to_pybytes(), durable=True)


def _list_facts(facts: ReleaseFacts) -> dict[str, object]:
    """The facts as JSON; shards whose origin is not known say nothing of it."""
    document = asdict(facts)
    for shard in document["shards"].values():
        if shard["origin"] is None:
            del shard["origin"]
    return document


def _write_facts(out: Path, facts: ReleaseFacts, tables: Mapping[str, pa.Table]) -> None:
    """Writes release.json, the card and the checksums, in this order: a release without its checksums is not read."""
    write_whole(out / FACTS, json.dumps(_list_facts(facts), indent=1) + "\n")
    write_whole(out / CARD, render_card(out, facts, tables))
    paths = [CARD, FACTS, *(f"{config}/{p.name}" for config in CONFIGS for p in sorted((out / config).iterdir()))]
    listed = [path for path in paths if "/" not in path or _NAME.fullmatch(path.partition("/")[2])]
    write_whole(
        out / SUMS, "".join(f"{file_checksum(out / path, out)}  {path}\n" for path in sorted(listed)), durable=True
    )


def _count_release(result: PackResult, out: Path, facts: ReleaseFacts, tables: Mapping[str, pa.Table]) -> PackResult:
    result.shards = len(facts.shards)
    result.programs, result.labels = tables["programs"].num_rows, tables["labels"].num_rows
    result.failures = sum(shard.failures for shard in facts.shards.values())
    result.bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return result
