"""A survey's result: one row per program, totals by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from hipsynth.core.documents import from_json
from hipsynth.core.reasons import Reason
from hipsynth.profiling.survey.build_plan import NO_MAIN
from hipsynth.profiling.survey.documents import SurveyConditions, SurveyDocument, SurveyRow, SurveyStatus, SurveyTotals
from hipsynth.simulator.budget_outcome import count_uncomputed

# Failures caused by neither the program nor the simulator: these programs are not counted as "should run".
OUTSIDE = {
    NO_MAIN: "a folder with HIP sources and no main() that uses them",
    Reason.CUDA_SOURCE: "CUDA source, not HIP",
    Reason.NEEDS_LIBRARY: "needs a library that is not installed",
    Reason.NEEDS_MEMORY: "needs more memory than it was given",
    Reason.NEEDS_DEVICES: "needs another GPU or more than one",
    Reason.NEEDS_ARGUMENTS: "needs command-line arguments that no file beside it gives",
    Reason.NEEDS_DATA: "reads a file that is not in its folder",
}


def row_of(document: Mapping[str, object]) -> SurveyRow:
    """A row from its JSON document; unknown fields are dropped. Raises TypeError or ValueError for another one."""
    field_names = {entry.name for entry in fields(SurveyRow)}
    return from_json(SurveyRow, {key: value for key, value in document.items() if key in field_names})


@dataclass
class SurveyReport:
    """All rows of one folder for one architecture, ordered by program."""

    folder: str
    arch: str
    rows: list[SurveyRow] = field(default_factory=list)
    conditions: SurveyConditions | None = None

    @property
    def totals(self) -> SurveyTotals:
        """Number of programs; compiled; runnable (compiled and nothing external missing); outcomes of the runnable."""
        able = [row for row in self.rows if row.compiled and row.reason not in OUTSIDE]
        return SurveyTotals(
            programs=len(self.rows),
            compiled=sum(row.compiled for row in self.rows),
            runnable=len(able),
            completed=sum(row.completed for row in able),
            executed_all=sum(row.executed_all for row in able),
            shrunk=sum(bool(row.shrunk) for row in able),
            kernels=sum(row.kernels for row in able),
            labels=sum(row.labels for row in able),
            passed=sum(row.status == SurveyStatus.PASSED for row in able),
            self_check_failed=sum(row.reason == Reason.SELF_CHECK_FAILED for row in able),
        )

    @property
    def reasons(self) -> dict[str, int]:
        """Number of programs per failure reason, most frequent first."""
        return dict(Counter(row.reason for row in self.rows if row.reason).most_common())

    def document(self, keys: bool = False) -> SurveyDocument:
        """The report as a document; with `keys`, as a later survey finds its rows again."""
        rows = tuple(row if keys else replace(row, key=None) for row in self.rows)
        return SurveyDocument(self.folder, self.arch, self.conditions, self.totals, self.reasons, rows)


def report_table(report: SurveyReport) -> str:
    """The report as text: one line per program, then totals."""
    lines = [_row_line(row) for row in report.rows]
    totals = report.totals
    share = f" ({100 * totals.completed / totals.runnable:.1f} %)" if totals.runnable else ""
    lines += [
        "",
        f"{totals.programs} programs, {totals.compiled} compiled, {totals.runnable} that should run",
        f"{totals.completed} ran to completion{share}, {totals.passed} of them passed their own check",
    ]
    lines += _budget_lines(report)
    lines += [f"  {count:4d}  {reason}{_explain_reason(reason)}" for reason, count in report.reasons.items()]
    return "\n".join(lines)


def _budget_lines(report: SurveyReport) -> list[str]:
    """Launches that the budget left out, and kernels labelled per hour of processor time."""
    conditions = report.conditions
    if conditions is None or not conditions.budget_s:
        return []
    totals = report.totals
    hours = sum(row.build_s + row.run_s + row.label_s for row in report.rows) / 3600
    counted = totals.labels or totals.kernels
    lines = [
        f"within {conditions.budget_s:g} s: {totals.executed_all} executed every launch, "
        f"{totals.completed - totals.executed_all} not"
    ]
    if conditions.shrink:
        lines.append(f"{totals.shrunk} of the others fit with smaller arguments")
    if hours:
        lines.append(f"{counted} kernels with counters, {counted / hours:,.0f} an hour on one core")
    return lines


def summary_line(reports: Sequence[SurveyReport]) -> str:
    """One line over several surveys."""
    total = Counter[str]()
    for report in reports:
        total.update(vars(report.totals))
    return (
        f"{len(reports)} surveys: {total['programs']} programs, {total['compiled']} compiled, {total['runnable']} that "
        f"should run, {total['completed']} ran to completion, {total['passed']} passed their own check"
    )


def _explain_reason(reason: str) -> str:
    """In words why a program does not count as one that should run, "" if it does."""
    return next((f"  ({words})" for code, words in OUTSIDE.items() if code == reason), "")


def _row_line(row: SurveyRow) -> str:
    detail = row.evidence if row.completed else f"{row.reason}: {row.message}"
    if row.completed and row.warnings:
        detail += f" (warning: {row.warnings[0]})"
    if not row.completed and row.evidence:
        detail += f" | {row.evidence}"
    fits = f"\n        fits: {row.command}" if row.command else ""
    return f"{_describe_outcome(row):7s} {row.program}  {detail[:160]}".rstrip() + fits


def _describe_outcome(row: SurveyRow) -> str:
    """The status; of a program with a budget that left out launches, how many of them it executed."""
    if not row.completed or row.executed_all:
        return row.status
    launches = sum(spending.launches for spending in row.spending)
    return f"{row.status} {launches - count_uncomputed(row.spending):,} of {launches:,} launches "
