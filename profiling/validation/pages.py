"""The Markdown page of one study."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from hipsynth.profiling.validation.frame import Row, Study, Table

LONG = 40  # rows of a table that are folded away behind an overview


def page(study: Study, tables: Sequence[Table]) -> str:
    return "\n".join(_page(study, tables)) + "\n"


def _page(study: Study, tables: Sequence[Table]) -> Iterator[str]:
    yield f"# {study.title}"
    yield ""
    yield f"Written by `python -m hipsynth.profiling.validation --only {study.name}`; do not edit. "
    yield "[All studies, and what has no evidence](../validation.md)."
    yield ""
    yield study.shows.strip()
    for table in tables:
        yield from ("", *_section(table))


def _section(table: Table) -> Iterator[str]:
    yield f"## {table.title}"
    yield ""
    yield f"Device table {table.device}. Recorded: {table.source}. Kernels: {table.kernels}."
    if table.note:
        yield from ("", table.note)
    if table.checks:
        yield ""
        for check in table.checks:
            yield f"- {check}: {'met' if check.ok else '**not met**'}"
    yield ""
    if len(table.rows) <= LONG:
        yield from _rows(table.rows)
        return
    yield from _overview(table.rows)
    yield from ("", "<details>", f"<summary>All {len(table.rows)} rows</summary>", "")
    yield from _rows(table.rows)
    yield from ("", "</details>")


def _overview(rows: Sequence[Row]) -> Iterator[str]:
    """A line per quantity of a long table: its errors and the row furthest off."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.quantity, row.unit].append(row)
    yield "| quantity | figures | median error | worst error | which |"
    yield "|---|---:|---:|---:|---|"
    for (quantity, unit), group in groups.items():
        furthest = max(group, key=lambda row: abs(row.error))
        median = statistics.median(abs(row.error) for row in group)
        if furthest.error == 0:
            yield f"| {quantity} | {len(group)} | 0 | 0 | |"
        else:
            which = f"{furthest.label.rstrip(',')}: {_number(furthest.recorded)}, ours {_number(furthest.ours)}"
            yield f"| {quantity} | {len(group)} | {median:.2g} {unit} | {_error(furthest)} | {which} |"


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    labelled = any(row.label for row in rows)
    head = ["case"] * labelled + ["quantity", "recorded", "simulated", "error", "allowed"]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * (1 + labelled) + "---:|" * 4
    for row in rows:
        cells = [row.label] * labelled + _cells(row)
        yield f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    allowed = "shown only" if row.allowed is None else f"{row.allowed:g} {row.unit}" if row.allowed else "exact"
    error = _error(row)
    if not row.ok:
        error = f"**{error}**"
    return [row.quantity, _number(row.recorded), _number(row.ours), error, allowed]


def _error(row: Row) -> str:
    return "0" if row.error == 0 else "any" if math.isinf(row.error) else f"{row.error:+.2f} {row.unit}"


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4g}"
