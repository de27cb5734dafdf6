"""Texts that editors show: lenses, hovers, hints and diagnostics. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hipsynth.core.kernel_record import SEGMENT_BYTES
from hipsynth.profiling.reports.numbers import format_number, format_quantity
from hipsynth.serving.lsp.kernel_results import KernelFacts

if TYPE_CHECKING:
    from hipsynth.profiling.reports.documents import LineCost
    from hipsynth.serving.lsp.documents import ComparedKernel

WORTH_HINT = 0.01  # smallest share of the time that an inlay hint shows
# Diagnostics: smallest share of the kernel's time, and how much worse than necessary.
NOTABLE_SHARE, SCATTERED, CONFLICTING, LOW_OCCUPANCY = 0.05, 4.0, 4.0, 0.25
CAVEAT = "A prediction; run `hipsynth.profile` to execute it."


@dataclass(frozen=True)
class Finding:
    """One diagnostic: `line` counts from 1; `kernel`: it concerns the whole kernel, at its name."""

    code: str
    message: str
    line: int = 0
    kernel: bool = False


def lens_title(facts: KernelFacts | None, state: str) -> str:
    """The title above a kernel. `state`: "" if the facts are of this text, else what is going on."""
    if facts is None:
        return state or "…"
    parts = [duration_text(facts), facts.bottleneck]
    if facts.occupancy is not None:
        parts.append(f"occupancy {100 * facts.occupancy:.0f} %")
    parts.append(f"{facts.how}{', ' + facts.note if facts.note else ''}")
    text = " · ".join(part for part in parts if part)
    return f"{text} · {state}" if state else text


def duration_text(facts: KernelFacts) -> str:
    """The duration with its interval."""
    if facts.duration_ns is None:
        return "duration unknown"
    text = format_quantity(facts.duration_ns, "ns")
    if facts.interval:
        text += f" ({format_quantity(facts.interval[0], 'ns')} to {format_quantity(facts.interval[1], 'ns')})"
    return text


def kernel_hover(facts: KernelFacts, target: str, model: str) -> str:
    """Markdown: duration, limits, and the metrics with their intervals."""
    from hipsynth.profiling.metrics.definitions import EQUAL_TO_THROUGHPUT, display_name, metric_table

    units = metric_table().metrics
    meta = ", ".join(f"{name}={value}" for name, value in sorted((facts.document.meta or {}).items()))
    lines = [
        f"**{facts.name}** {lens_title(facts, '')}",
        "",
        *([f"Triton: {meta}", ""] if meta else []),
        target,
        "",
        "| metric | value | interval |",
        "|---|---|---|",
    ]
    for name, value in facts.metrics.items():
        if value is None or name in EQUAL_TO_THROUGHPUT:
            continue
        ends = facts.intervals.get(name)
        between = f"{format_number(ends[0])} to {format_number(ends[1])}" if ends else ""
        unit = units[name].unit if name in units else ""
        lines.append(f"| {display_name(name)} | {format_number(value)} {unit} | {between} |")
    lines += ["", *[f"- {reason}" for reason in facts.why if reason], ""]
    lines.append(f"{CAVEAT} Model: {model}." if facts.how == "predicted" else "Executed by the simulator.")
    return "\n".join(lines)


def line_hover(line: LineCost, kernel: str) -> str:
    """Markdown that describes the cost of one line."""
    classes = ", ".join(f"{format_number(n)} {kind}" for kind, n in line.classes.items())
    rows = [
        ("wave instructions", f"{format_number(line.instructions)} ({classes})"),
        ("bytes requested", _unless_zero(line.bytes)),
        ("vL1D look-ups", _unless_zero(line.accesses)),
        ("of these, misses", _share_text(line.misses, line.accesses)),
        ("L2 misses", _unless_zero(line.l2_misses)),
        ("LDS bytes", _unless_zero(line.lds_bytes)),
        ("LDS bank-conflict cycles", _unless_zero(line.bank_conflicts)),
        ("cycles waiting for memory", _unless_zero(line.stall_cycles)),
        ("cycles waiting at barriers", _unless_zero(line.barrier_cycles)),
    ]
    table = [f"| {name} | {text} |" for name, text in rows if text]
    share = f"**{100 * line.share:.1f} %** of the time of `{kernel}`, executed; per launch"
    return "\n".join([share, "", "| | |", "|---|---|", *table])


def _unless_zero(value: float) -> str:
    return format_number(value) if value else ""


def _share_text(part: float, total: float) -> str:
    return f"{format_number(part)} ({100 * part / total:.0f} %)" if total else ""


def hint_text(line: LineCost) -> str:
    """The inlay hint behind a line, "" if it costs next to nothing."""
    return f"{100 * line.share:.0f} %" if line.share >= WORTH_HINT else ""


def kernel_findings(facts: KernelFacts) -> Iterator[Finding]:
    """The costs of a kernel that can be changed, largest first, each with its evidence."""
    if facts.occupancy is not None and facts.occupancy <= LOW_OCCUPANCY:
        by = f", limited by {facts.limited_by}" if facts.limited_by else ""
        text = (
            f"Low occupancy: {100 * facts.occupancy:.0f} % of the wave slots of a CU can be filled{by} ({facts.how})."
        )
        yield Finding("low-occupancy", text, kernel=True)
    if facts.scratch_bytes:
        size = f"{facts.scratch_bytes:,.0f} bytes per work-item"
        text = f"Scratch memory: {size} (spilled registers, or arrays that no register holds)."
        yield Finding("scratch", text, kernel=True)
    for line in facts.lines:
        if line.line and line.share >= NOTABLE_SHARE:
            yield from _line_findings(line, facts.name)


def _line_findings(line: LineCost, kernel: str) -> Iterator[Finding]:
    cost = f"{100 * line.share:.0f} % of the time of {kernel}"
    vector, local = line.classes.get("vmem", 0), line.classes.get("lds", 0)
    needed = max(line.bytes / SEGMENT_BYTES, vector)
    if vector and line.accesses >= SCATTERED * needed:
        text = (
            f"Uncoalesced access: a wave instruction looks up {format_number(line.accesses / vector, 3)} segments of "
            f"{SEGMENT_BYTES} bytes, where {format_number(needed / vector, 3)} would hold its data; {cost}."
        )
        yield Finding("uncoalesced", text, line.line)
    if local and line.bank_conflicts >= CONFLICTING * local:
        text = (
            f"LDS bank conflicts: {format_number(line.bank_conflicts / local, 3)} cycles per LDS instruction; {cost}."
        )
        yield Finding("bank-conflict", text, line.line)


def comparison_rows(before: Mapping[str, KernelFacts], after: Mapping[str, KernelFacts]) -> tuple[ComparedKernel, ...]:
    """One row per kernel of either side: durations, their ratio, and the metrics that both have."""
    from hipsynth.serving.lsp.documents import ComparedKernel

    rows = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        times = old.duration_ns if old else None, new.duration_ns if new else None
        both = old.metrics.keys() & new.metrics.keys() if old and new else ()
        metrics = {m: (old.metrics[m], new.metrics[m]) for m in sorted(both)} if old and new else {}
        rows.append(ComparedKernel(name, times, _change_text(name, *times), metrics))
    return tuple(rows)


def _change_text(name: str, before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return f"{name}: {'new' if before is None else 'gone'}"
    change = 100 * (after / before - 1) if before else 0.0
    return f"{name}: {format_quantity(before, 'ns')} → {format_quantity(after, 'ns')} ({change:+.0f} %)"
