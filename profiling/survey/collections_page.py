"""Renders several surveys as a generated Markdown section: counts per collection, and every program that failed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import whole_file
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.documents import FolderProvenance, SurveyConditions, SurveyRow, SurveyStatus
from hipsynth.profiling.survey.report import OUTSIDE, SurveyReport

BEGIN, END = "<!-- survey: begin -->", "<!-- survey: end -->"
NOT_COMPILED: Mapping[str, str] = {
    Reason.MISSING_HEADER: "a header is missing",
    Reason.COMPILE_FAILED: "does not compile",
    Reason.LINK_FAILED: "does not link",
    Reason.NOT_CONFIGURED: "CMake cannot configure its project",
}
MESSAGE_CHARS = 200
_HEAD = (
    "collection, commit", "arch", "programs", "CUDA", "need a library", "do not compile", "compile",
    "lack arguments, data, memory or devices", "should run", "ran to completion", "passed own check",
    "failed own check", "ran with a warning",
)  # fmt: skip


def folder_provenance(folder: Path) -> FolderProvenance:
    """Where a folder comes from: git remote name, path within it, commit and date; else only the folder's name."""
    url = _run_git(folder, "config", "--get", "remote.origin.url")
    return FolderProvenance(
        name=re.sub(r"^.*[/:]([^/:]+/[^/]+?)(\.git)?$", r"\1", url) if url else folder.resolve().name,
        path=_run_git(folder, "rev-parse", "--show-prefix").strip("/") if url else "",
        commit=_run_git(folder, "rev-parse", "--short", "HEAD"),
        commit_date=_run_git(folder, "log", "-1", "--format=%cs"),
    )


def _run_git(folder: Path, *arguments: str) -> str:
    try:
        process = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return process.stdout.strip() if process.returncode == 0 else ""


def describe_machine() -> str:
    """Describes the host: processor model, number of cores, memory in GiB."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {os.cpu_count()} cores, {memory:.0f} GiB"


def update_page(page: Path, reports: Sequence[SurveyReport]) -> None:
    """Replaces the page's generated section, or appends one. Raises BadInput if the page cannot be read."""
    try:
        text = page.read_text() if page.exists() else "# Real programs\n\n"
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{page}: cannot be read", cause=str(error), remedy="give a Markdown file") from error
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, _, rest = text.partition(BEGIN)
    with whole_file(page) as file:
        file.write(f"{before}{BEGIN}\n{page_section(reports)}\n{END}{rest.partition(END)[2]}")


def page_section(reports: Sequence[SurveyReport]) -> str:
    """The generated Markdown: conditions, counts per collection, and the programs behind them by reason."""
    parts = [_conditions_text(reports), _counts_table(reports)]
    arches = list(dict.fromkeys(report.arch for report in reports))
    parts += [text for arch in arches for text in _stopped_programs(arch, [r for r in reports if r.arch == arch])]
    rows = [(report, row) for report in reports if report.arch == arches[0] for row in report.rows]
    parts += [_outside_scope_text(rows), _not_compiled(rows), _missing_libraries([row for _, row in rows])]
    parts += [_arch_differences(reports, arches)] if len(arches) > 1 else []
    return "\n\n".join(part for part in parts if part)


def _conditions_text(reports: Sequence[SurveyReport]) -> str:
    conditions = [report.conditions for report in reports if report.conditions is not None]
    if not conditions:
        return ""
    first = conditions[0]
    parts = [
        f"Measured on {datetime.now(UTC):%-d %B %Y}: {first.compiler}, HIP headers {first.headers}, simulator "
        f"`{first.simulator}`; {describe_machine()}. "
        f"Each program had {first.timeout_s:g} s of processor time and {first.memory_bytes / 2**30:g} GiB.",
    ]
    others = sorted({condition.simulator for condition in conditions} - {first.simulator})
    if others:
        parts.append(f"Some rows were made by other versions: {', '.join(others)}.")
    if first.budget_s:
        parts.append(_budget_text(reports, first))
    if not all(condition.isolated for condition in conditions):
        parts.append("Programs ran without isolation: no working bubblewrap.")
    return " ".join(parts)


def _budget_text(reports: Sequence[SurveyReport], conditions: SurveyConditions) -> str:
    rows = [row for report in reports for row in report.rows if row.completed]
    total = sum(row.executed_all for row in rows)
    text = (
        f"Launches had a budget of {conditions.budget_s:g} s: {total} of {len(rows)} programs that ended executed all"
    )
    if not conditions.shrink:
        return f"{text}."
    shrunk = sum(bool(row.shrunk) for report in reports for row in report.rows)
    return f"{text}; for {shrunk} others smaller arguments fit."


def _report_title(report: SurveyReport) -> str:
    if report.conditions is None:
        return Path(report.folder).name
    where = report.conditions.provenance
    path = f", `{where.path}`" if where.path else ""
    return f"{where.name}{path} {where.commit}".strip()


def _counts_table(reports: Sequence[SurveyReport]) -> str:
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---|" + "---:|" * (len(_HEAD) - 2)]
    sums: dict[str, Counter[str]] = {}
    for report in reports:
        counts = count_rows(report.rows)
        sums.setdefault(report.arch, Counter()).update(counts)
        lines.append(_count_line(_report_title(report), report.arch, counts))
    if len(reports) > len(sums):
        lines += [_count_line("**all**", arch, counts) for arch, counts in sums.items()]
    return "\n".join(lines)


def count_rows(rows: Iterable[SurveyRow]) -> Counter[str]:
    """How many rows fall into each column of the table."""
    counts: Counter[str] = Counter()
    for row in rows:
        able = row.compiled and row.reason not in OUTSIDE
        holds = {
            "programs": True,
            "cuda": row.reason == Reason.CUDA_SOURCE,
            "library": row.reason == Reason.NEEDS_LIBRARY,
            "broken": row.reason in NOT_COMPILED,
            "compiled": row.compiled,
            "outside": row.compiled and row.reason in OUTSIDE,
            "able": able,
            "completed": able and row.completed,
            "passed": row.status == SurveyStatus.PASSED,
            "wrong": row.reason == Reason.SELF_CHECK_FAILED,
            "warned": row.completed and bool(row.warnings),
        }
        counts.update({name: int(value) for name, value in holds.items()})
    return counts


def _count_line(title: str, arch: str, counts: Mapping[str, int]) -> str:
    share = f" ({100 * counts['completed'] / counts['able']:.1f} %)" if counts["able"] else ""
    keys = ("programs", "cuda", "library", "broken", "compiled", "outside", "able")
    cells = [str(counts[key]) for key in keys] + [f"{counts['completed']}{share}"]
    cells += [str(counts[key]) for key in ("passed", "wrong", "warned")]
    return f"| {title} | {arch} | " + " | ".join(cells) + " |"


def _stopped_programs(arch: str, reports: Sequence[SurveyReport]) -> list[str]:
    """Programs that should run but failed, and those that completed with a simulator warning."""
    failed = [
        f"- `{row.program}`: {row.reason}: {_short_message(row.message)}"
        for report in reports
        for row in report.rows
        if row.compiled and not row.completed and row.reason not in OUTSIDE
    ]
    warned = [
        f"- `{row.program}`: {_short_message(row.warnings[0])}"
        for report in reports
        for row in report.rows
        if row.completed and row.warnings
    ]
    parts = [f"### Should run and did not ({arch})\n\n" + ("\n".join(failed) or "None.")]
    return [*parts, f"### Ran with a warning ({arch})\n\n" + "\n".join(warned)] if warned else parts


def _outside_scope_text(rows: Sequence[tuple[SurveyReport, SurveyRow]]) -> str:
    by_reason: dict[Reason, list[str]] = {}
    for _, row in rows:
        if row.compiled and row.reason in OUTSIDE:
            by_reason.setdefault(row.reason, []).append(f"`{row.program}`")
    lines = [f"- {OUTSIDE[reason]} ({len(names)}): {', '.join(names)}" for reason, names in by_reason.items()]
    return "### Compiled, but lack something\n\n" + "\n".join(lines) if lines else ""


def _not_compiled(rows: Sequence[tuple[SurveyReport, SurveyRow]]) -> str:
    lines = [
        f"- `{row.program}`: {NOT_COMPILED[row.reason]}: {_short_message(row.message)}"
        for _, row in rows
        if row.reason in NOT_COMPILED
    ]
    return "### Do not compile\n\n" + "\n".join(lines) if lines else ""


def _missing_libraries(rows: Sequence[SurveyRow]) -> str:
    wanted: Counter[str] = Counter()
    for row in rows:
        wanted.update(row.libraries if row.reason == Reason.NEEDS_LIBRARY else ())
    if not wanted:
        return ""
    listed = ", ".join(f"{name} ({number})" for name, number in wanted.most_common())
    return f"### Libraries that programs need\n\n{listed}"


def _arch_differences(reports: Sequence[SurveyReport], arches: Sequence[str]) -> str:
    """Programs whose outcome depends on the architecture."""
    outcomes: dict[tuple[str, str], dict[str, str]] = {}
    for report in reports:
        for row in report.rows:
            outcome = row.status if row.completed else row.reason
            outcomes.setdefault((_report_title(report), row.program), {})[report.arch] = outcome
    lines = [
        f"- `{program}`: " + ", ".join(f"{arch}: {outcome[arch]}" for arch in arches)
        for (_, program), outcome in outcomes.items()
        if len(outcome) == len(arches) and len(set(outcome.values())) > 1
    ]
    for arch in arches:
        absent = [f"`{program}`" for (_, program), outcome in outcomes.items() if arch not in outcome]
        lines += [f"- Not surveyed on {arch} ({len(absent)}): {', '.join(absent)}"] if absent else []
    return "### Differs between architectures\n\n" + ("\n".join(lines) or "Nothing.")


def _short_message(text: str) -> str:
    line = " ".join(text.split()).replace("|", "\\|")
    return line if len(line) <= MESSAGE_CHARS else line[: MESSAGE_CHARS - 3] + "..."
