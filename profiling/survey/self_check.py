"""Classifies a run from its output (self-check passed or failed, missing arguments or data) by self_check.toml."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.tables import read_table
from hipsynth.profiling.survey.documents import SurveyStatus
from hipsynth.simulator.budget_outcome import describe_uncomputed
from hipsynth.simulator.run_result import NoticeKind, RunResult

TABLE = Path(__file__).with_name("self_check.toml")
_LINES = 20_000


@dataclass(frozen=True)
class RunVerdict:
    """What the end and the output of a run say; `evidence`: the output line that decided it."""

    status: SurveyStatus
    reason: Reason = Reason.NONE
    message: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class VerdictTable:
    """The content of self_check.toml: what a line says -> regular expressions."""

    check: Mapping[str, tuple[str, ...]]
    wants: Mapping[str, tuple[str, ...]]


@functools.cache
def _verdict_patterns(section: Literal["check", "wants"], name: str) -> re.Pattern[str]:
    table = read_table(TABLE, VerdictTable)
    words = (table.check if section == "check" else table.wants)[name]
    return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)


def _line_with(text: str, section: Literal["check", "wants"], name: str, but: re.Pattern[str] | None = None) -> str:
    pattern = _verdict_patterns(section, name)
    for line in text.splitlines()[:_LINES]:
        if pattern.search(line[:2000]) and not (but and but.search(line[:2000])):
            return line.strip()[:300]
    return ""


def judge_run(result: RunResult, *, unasked: bool = False) -> RunVerdict:
    """Classifies a finished or stopped run.

    `unasked`: main() reads argv but the run passed none; an early exit then counts as `needs_arguments`.
    """
    if result.status == RunStatus.PARTIAL:
        return RunVerdict(SurveyStatus.PARTIAL, result.reason, result.message, last_line(result.stderr))
    if result.status == RunStatus.OK and result.dispatch_count and (left_out := describe_uncomputed(result.spending)):
        code = f", and exit code {result.exit_code}" if result.exit_code else ""
        return RunVerdict(SurveyStatus.RAN, evidence=f"self-check{code} not judged: {left_out}")
    program_errors = "\n".join(line for line in result.stderr.splitlines() if not line.startswith("hipsynth: "))
    text = f"{result.stdout}\n{program_errors}"
    verdict = _judge_stopped(result, unasked) if result.status != RunStatus.OK else _judge_ended(result, text, unasked)
    if result.output_cut and verdict.status == SurveyStatus.FAILED:
        verdict = replace(verdict, message=f"{verdict.message} (its output was cut)".strip())
    refused = result.subjects(NoticeKind.OUT_OF_MEMORY)
    absent = result.subjects(NoticeKind.MISSING_CODE_OBJECT)
    if absent and verdict.status == SurveyStatus.FAILED:
        return RunVerdict(
            SurveyStatus.FAILED, Reason.NEEDS_DATA, f"loads the code object {absent[0]}", verdict.evidence
        )
    if result.reason == Reason.OUT_OF_MEMORY:
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_MEMORY, result.message, verdict.evidence)
    starved = _line_with(program_errors, "wants", "memory")
    if starved and verdict.reason in (Reason.HOST_CRASH, Reason.EXIT_CODE):
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_MEMORY, "host memory exhausted", starved)
    if refused and verdict.status == SurveyStatus.FAILED:
        return RunVerdict(
            SurveyStatus.FAILED, Reason.NEEDS_MEMORY, f"out of device memory: {refused[0]}", verdict.evidence
        )
    return verdict


def _judge_ended(result: RunResult, text: str, unasked: bool) -> RunVerdict:
    failed = _line_with(text, "check", "fails", _verdict_patterns("check", "harmless"))
    passed = _line_with(text, "check", "passes", _verdict_patterns("check", "none_passed"))
    code = result.exit_code or 0
    if code == 0:
        return _ended_well(result, text, failed, passed)
    unsupported = result.subjects(NoticeKind.UNSUPPORTED_CALL)
    if unsupported:
        return RunVerdict(
            SurveyStatus.FAILED, Reason.UNSUPPORTED_CALL, "not supported by the simulator: " + ", ".join(unsupported)
        )
    if _line_with(text, "wants", "devices"):
        return RunVerdict(
            SurveyStatus.FAILED, Reason.NEEDS_DEVICES, f"exit code {code}", _line_with(text, "wants", "devices")
        )
    usage = _line_with(text, "wants", "arguments")
    if usage:
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_ARGUMENTS, f"exit code {code}", usage)
    data = _line_with(text, "wants", "data")
    if data:
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_DATA, f"exit code {code}", data)
    if unasked and not result.dispatch_count and not result.clock_ns:
        return RunVerdict(
            SurveyStatus.FAILED,
            Reason.NEEDS_ARGUMENTS,
            f"exit code {code} before any use of the device",
            last_line(text),
        )
    if failed and result.dispatch_count:
        return RunVerdict(SurveyStatus.FAILED, Reason.SELF_CHECK_FAILED, f"exit code {code}", failed)
    return RunVerdict(SurveyStatus.FAILED, Reason.EXIT_CODE, f"exit code {code}", failed or last_line(text))


def _ended_well(result: RunResult, text: str, failed: str, passed: str) -> RunVerdict:
    if not result.dispatch_count:
        usage = _line_with(text, "wants", "arguments")
        if usage:
            return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_ARGUMENTS, "launched no kernel", usage)
    if failed and not result.dispatch_count and _verdict_patterns("wants", "data").search(failed):
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_DATA, "launched no kernel", failed)
    unsupported = result.subjects(NoticeKind.UNSUPPORTED_CALL)
    if failed and unsupported:
        return RunVerdict(
            SurveyStatus.FAILED,
            Reason.UNSUPPORTED_CALL,
            "not supported by the simulator: " + ", ".join(unsupported),
            failed,
        )
    if failed:
        return RunVerdict(SurveyStatus.FAILED, Reason.SELF_CHECK_FAILED, "exit code 0", failed)
    return RunVerdict(SurveyStatus.PASSED, evidence=passed) if passed else RunVerdict(SurveyStatus.RAN)


def _judge_stopped(result: RunResult, unasked: bool) -> RunVerdict:
    unsupported = result.subjects(NoticeKind.UNSUPPORTED_CALL)
    message = result.message
    if unsupported and result.reason == Reason.HOST_CRASH:
        return RunVerdict(SurveyStatus.FAILED, Reason.UNSUPPORTED_CALL, f"{message} after: " + ", ".join(unsupported))
    data = _line_with(f"{result.stdout}\n{result.stderr}", "wants", "data")
    if result.reason == Reason.HOST_CRASH and data and not result.dispatch_count:
        return RunVerdict(SurveyStatus.FAILED, Reason.NEEDS_DATA, f"{message} before any kernel", data)
    if result.reason == Reason.HOST_CRASH and unasked and not result.dispatch_count and not result.clock_ns:
        return RunVerdict(
            SurveyStatus.FAILED,
            Reason.NEEDS_ARGUMENTS,
            f"{message} before any use of the device",
            last_line(result.stderr),
        )
    return RunVerdict(SurveyStatus.FAILED, result.reason, message, last_line(result.stderr))


def last_line(text: str) -> str:
    """The last line of a program's output that is not empty, at most 300 characters."""
    lines = text.strip().splitlines()
    return lines[-1].strip()[:300] if lines else ""
