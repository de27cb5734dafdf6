"""The Markdown page of one study."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from profiling.trust.frame import Row, Study, Table


def page(study: Study, tables: Sequence[Table]) -> str:
    return "\n".join(_page(study, tables)) + "\n"


def _page(study: Study, tables: Sequence[Table]) -> Iterator[str]:
    yield f"# {study.title}"
    yield ""
    yield f"Written by `python -m profiling.trust --only {study.name}`; do not edit. "
    yield "[All studies, and what has no evidence](../trust.md)."
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
    labelled = any(row.label for row in table.rows)
    head = ["case"] * labelled + ["quantity", "recorded", "simulated", "error", "allowed"]
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * (1 + labelled) + "---:|" * 4
    for row in table.rows:
        cells = [row.label] * labelled + _cells(row)
        yield f"| {' | '.join(cells)} |"


def _cells(row: Row) -> list[str]:
    allowed = "shown only" if row.allowed is None else f"{row.allowed:g} {row.unit}" if row.allowed else "exact"
    error = "0" if row.error == 0 else "any" if math.isinf(row.error) else f"{row.error:+.2f} {row.unit}"
    if not row.ok:
        error = f"**{error}**"
    return [row.quantity, _number(row.recorded), _number(row.ours), error, allowed]


def _number(value: float) -> str:
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.4g}"
