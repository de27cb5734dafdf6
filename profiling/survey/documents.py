"""The document of `synth survey --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hipsynth.core.reasons import Reason
from hipsynth.simulator.budget_outcome import Spending, count_uncomputed


class SurveyStatus(StrEnum):
    """How a program ended: its self-check printed success; it exited normally without a self-check; it was ended at its
    limit within a budget; or it failed. The reason beside it says why it did not complete."""

    PASSED = "passed"
    RAN = "ran"
    PARTIAL = "partial"
    FAILED = "failed"


COMPLETED = (SurveyStatus.PASSED, SurveyStatus.RAN)


@dataclass(frozen=True)
class SurveyRow:
    """One program. `evidence`: the line of output that decided its `status`.

    `plan`: origin of its build plan: make, cmake, commands, script, guess; for Python files python or pytest. `kernels`
    have counters. `spending`: the launches of a program with a budget. `command`: a smaller start that fits the budget,
    which ended with `shrunk`, passed or ran. `libraries`: those that it needs and that are not installed. `run_s` is
    processor time, `label_s` that of runs in other sizes; `labels` were stored in a corpus, of the programs with the
    ids `stored`. `key` is of files of results alone.
    """

    program: str
    status: SurveyStatus
    reason: Reason = Reason.NONE
    message: str = ""
    evidence: str = ""
    compiled: bool = False
    exit_code: int | None = None
    plan: str = ""
    files: int = 0
    arguments: tuple[str, ...] = ()
    dispatches: int = 0
    build_s: float = 0.0
    run_s: float = 0.0
    wall_s: float = 0.0
    isolated: bool = True
    output_cut: bool = False
    warnings: tuple[str, ...] = ()
    diagnostics: str = ""
    kernels: int = 0
    labels: int = 0
    stored: tuple[str, ...] = ()
    label_s: float = 0.0
    spending: tuple[Spending, ...] = ()
    shrunk: str = ""
    command: str = ""
    libraries: tuple[str, ...] = ()
    key: str | None = None

    @property
    def completed(self) -> bool:
        """Whether the program exited normally without a failed self-check."""
        return self.status in COMPLETED

    @property
    def executed_all(self) -> bool:
        """Whether it also executed every launch."""
        return self.completed and not count_uncomputed(self.spending)


@dataclass(frozen=True)
class FolderProvenance:
    """Where a folder comes from: git remote, path within it, commit and its date; else only the folder's name."""

    name: str
    path: str
    commit: str
    commit_date: str


@dataclass(frozen=True)
class SurveyConditions:
    """The settings and versions needed to repeat a survey."""

    device: str
    timeout_s: float
    budget_s: float
    shrink: bool
    memory_bytes: int
    caches_simulated: bool
    simulator: str
    compiler: str
    headers: str
    isolated: bool
    provenance: FolderProvenance


@dataclass(frozen=True)
class SurveyTotals:
    """Numbers of programs: all; compiled; runnable (compiled and nothing external missing); outcomes of the runnable;
    and of kernels and labels."""

    programs: int
    compiled: int
    runnable: int
    completed: int
    executed_all: int
    shrunk: int
    kernels: int
    labels: int
    passed: int
    self_check_failed: int


@dataclass(frozen=True)
class SurveyDocument:
    """A survey of one folder for one architecture; `reasons`: programs by reason of failure, most frequent first."""

    folder: str
    arch: str
    conditions: SurveyConditions | None
    totals: SurveyTotals
    reasons: Mapping[str, int]
    programs: tuple[SurveyRow, ...]


@dataclass(frozen=True)
class SurveyCollection:
    """The surveys of several folders or architectures."""

    surveys: tuple[SurveyDocument, ...]
