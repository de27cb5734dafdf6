"""Questions about a kernel's bottleneck, with answers from its label's limits and counters.

The texts are data (questions.toml). The same label gives the same questions in the same words. A question about
programs that differ only in names, with the same answer, is kept once; parts follow the lineage, as for other samples.
"""

from __future__ import annotations

import hashlib
import json
import string
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from hipsynth.core.errors import BadInput
from hipsynth.core.files import whole_file
from hipsynth.core.languages import TRITON, language_of
from hipsynth.core.store import Corpus, StoredRow
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.source.canonical_text import canonical_id
from hipsynth.training.data.documents import QuestionExport
from hipsynth.training.data.samples import FACTS, no_labels, require_sources, select_labels, with_sources
from hipsynth.training.data.work_facts import work_facts

DETAILS = ("limits", "occupancy")  # columns that label rows leave out


@cache
def load_texts() -> dict[str, Any]:
    """The table of questions.toml."""
    return tomllib.loads(Path(__file__).with_name("questions.toml").read_text())


def find_placeholders(template: str) -> set[str]:
    """The facts that a text names."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def label_facts(row: StoredRow) -> dict[str, str]:
    """The facts of a label as words and rounded numbers with units, by the names that questions.toml uses.

    `row`: a row of select_labels with the measurement's `limits` and `occupancy_of` (its occupancy struct).
    """
    facts = {"kernel": f"`{row['kernel']}`", **{name: str(row[name]) for name in ("arch", "flags", "device")}}
    return facts | _limit_facts(row) | _occupancy_facts(row) | _hit_rates(row) | _work_facts(row)


def _limit_facts(row: StoredRow) -> dict[str, str]:
    limits, duration = row.get("limits"), row["duration_ns"]
    if not limits or not duration:
        return {}
    bounds = dict(limits["bounds"])
    unit = str(limits["bottleneck"])
    kind, advice = load_texts()["units"].get(unit, (None, None))
    if kind is None or not bounds.get(unit):
        return {}
    rest = sorted(((ns, name) for name, ns in bounds.items() if name != unit and ns > 0), reverse=True)
    facts = {"unit": unit_name(unit), "kind": kind, "advice": advice, "duration": _format_time(duration)}
    facts |= {"unit_time": _format_time(bounds[unit]), "unit_share": _format_share(bounds[unit] / duration)}
    if rest:
        facts |= {"second": unit_name(rest[0][1]), "second_share": _format_share(rest[0][0] / duration)}
    return facts | {
        f"{name}_share": _format_share(bounds[name] / duration) for name in ("hbm", "valu") if name in bounds
    }


def _occupancy_facts(row: StoredRow) -> dict[str, str]:
    occupancy = row.get("occupancy_of")
    if not occupancy or occupancy["fraction"] is None or not occupancy["limited_by"]:
        return {}
    share = {"waves": f"{occupancy['waves_per_cu']:g}", "occupancy": _format_share(occupancy["fraction"])}
    return share | {"occupancy_limit": str(occupancy["limited_by"])}


def _hit_rates(row: StoredRow) -> dict[str, str]:
    rates = {"l1_hits": row["L1_Cache_Hit_Rate"], "l2_hits": row["L2_Cache_Hit_Rate"]}
    return {name: f"{rate:.3g} %" for name, rate in rates.items() if rate is not None}


def _work_facts(row: StoredRow) -> dict[str, str]:
    work = work_facts(row)
    if work is None:
        return {}
    amounts = {"flops": work.flops_per_item, "bytes": work.bytes_per_item, "accesses": work.lookups_per_item}
    facts = {name: f"{amount:.3g}" for name, amount in amounts.items()}
    access = load_texts()["strides"].get(work.stride)
    intensity = row.get("HBM_Arithmetic_Intensity")
    facts |= {"access": access} if access else {}
    return facts | ({"intensity": f"{intensity:.3g}"} if intensity is not None else {})


def _format_share(share: float) -> str:
    return f"{100 * share:.3g} %"


def _format_time(ns: float) -> str:
    return f"{ns / 1000:.3g} us"


def answerable_questions(row: StoredRow, source: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """(name, messages) of every question whose answer a label knows."""
    facts_known, table = label_facts(row), load_texts()
    for name, entry in table["questions"].items():
        wanted = find_placeholders(entry["answer"])
        if not wanted <= set(facts_known):
            continue
        choice = int(hashlib.sha256(f"{row['measurement_id']}:{name}".encode()).hexdigest(), 16) % len(entry["ask"])
        question = entry["ask"][choice].format(**facts_known)
        code = table["code_triton" if language_of(source) == TRITON else "code"]
        context = code.format(**facts_known, source=source.strip("\n"))
        answer = entry["answer"].format(**facts_known)
        contents = (("system", table["system"]), ("user", question + context), ("assistant", answer))
        yield name, [{"role": role, "content": text} for role, text in contents]


def detailed_rows(measurements: pa.Table, rows: Sequence[StoredRow]) -> list[StoredRow]:
    """Label rows with the columns that select_labels leaves out; `occupancy_of` is the whole occupancy."""
    names = [name for name in DETAILS if name in measurements.column_names]
    keys = list(zip(*(measurements[name].to_pylist() for name in ("measurement_id", "kernel_index")), strict=True))
    at = {key: index for index, key in enumerate(keys)}
    places = [at[row["measurement_id"], row["kernel_index"]] for row in rows]
    detailed = (
        measurements.select(names).take(pa.array(places, pa.int64())).to_pylist() if names else [{} for _ in rows]
    )
    return [
        {**row, "limits": more.get("limits"), "occupancy_of": more.get("occupancy")}
        for row, more in zip(rows, detailed, strict=True)
    ]


def export_questions(
    corpus: Corpus, out: Path, *, backend: str | None = None, device: str | None = None
) -> QuestionExport:
    """Writes the questions that a corpus' labels answer to `out`, atomically, one JSON object per line; returns a
    summary. Raises BadInput if no label answers any (measured ones have no limits)."""
    measurements = corpus.measurements()
    selection = select_labels(measurements, backend=backend, device=device)
    if not selection.rows:
        raise no_labels(corpus.root, measurements, selection)
    selection = require_sources(corpus, selection)
    counts: Counter[str] = Counter()
    duplicates = 0
    questions_seen: set[tuple[str, ...]] = set()
    rows = detailed_rows(measurements, selection.rows)
    with whole_file(out) as file:
        for row, source, parts in with_sources(corpus, rows):
            for name, messages in answerable_questions(row, source):
                mark = (canonical_id(source), row["arch"], row["device"], name, messages[-1]["content"])
                if mark in questions_seen:
                    duplicates += 1
                    continue
                questions_seen.add(mark)
                counts[name] += 1
                facts = {key: row[key] for key in FACTS} | {"kernel": row["kernel"], "backend": row["backend"]}
                sample = {"id": f"{row['measurement_id']}:{name}", "question": name, "messages": messages}
                file.write(json.dumps({**sample, **facts, "split": parts}, ensure_ascii=False) + "\n")
        if not counts:
            raise BadInput(
                f"{corpus.root}: no label answers a question about its bottleneck",
                cause="the labels have no limits and counters",
                remedy="profile the programs on the simulator",
            )
    left_out = dict(selection.left_out)
    return QuestionExport(str(out), "questions", sum(counts.values()), dict(counts), duplicates, left_out)
