"""Writes the measured part of docs/explanation/trust.md: `python -m profiling.trust`."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from profiling import trust

PAGE = Path(__file__).resolve().parents[2] / "docs/explanation/trust.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def number(value: float) -> str:
    return f"{value:,.2f}" if value != int(value) else f"{int(value):,}"


def section(target: trust.Target) -> str:
    """One recorded dispatch as a Markdown table."""
    lines = [
        f"### {target.name}",
        "",
        f"Recorded: {target.source}.",
        "",
        "| quantity | recorded | simulated | error | allowed |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in trust.compare(target):
        unit = "points" if row.quantity.startswith("L2 hit") else "%"
        allowed = "shown only" if row.allowed is None else "exact" if row.allowed == 0 else f"{row.allowed:g} {unit}"
        error = "0" if row.error == 0 else f"{row.error:+.2f} {unit}"
        lines.append(f"| {row.quantity} | {number(row.recorded)} | {number(row.ours)} | {error} | {allowed} |")
    return "\n".join(lines)


def main() -> None:
    day = datetime.now(UTC).date()
    head = f"Made on {day} by `python -m profiling.trust` ({platform.machine()}, {platform.system()})."
    measured = "\n\n".join([head, *(section(target) for target in trust.targets())])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{measured}\n{END}{after}")
    wrong = [f"{t.name}: {r.quantity}" for t in trust.targets() for r in trust.compare(t) if not r.ok]
    if wrong:
        sys.exit("outside the allowed error: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
