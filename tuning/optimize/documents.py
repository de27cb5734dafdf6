"""The documents of optimized programs: what `synth optimize --json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hipsynth.core.reasons import Reason
from hipsynth.core.tabular import Row, TabularDocument
from hipsynth.tuning.optimize.transformation_plan import PlanValue


class StepOutcome(StrEnum):
    """What became of a candidate."""

    KEPT = "kept"
    NOT_FASTER = "not_faster"
    FAILED = "failed"  # it does not compile or run
    WRONG = "wrong"  # a check did not pass


class SearchStatus(StrEnum):
    """What a search found: UNCHANGED if nothing is faster and correct, REFUSED if it could not search."""

    IMPROVED = "improved"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


class SearchEnd(StrEnum):
    """What ended a search."""

    BUDGET = "budget"  # its work, at fixed prices: the same on every machine
    CLOCK = "clock"  # the machine was too slow for that: another one may find more
    NOTHING_LEFT = "nothing_left"


@dataclass(frozen=True)
class ShapeSpeedup:
    """The speed-up of the answer at one shape of the problem. `kind`: "timed" is the one that was asked for, "checked"
    one whose outputs were compared, "drawn" one that the search never saw."""

    arguments: tuple[str, ...]
    kind: str
    before_ns: float
    after_ns: float
    speedup: float


@dataclass(frozen=True)
class SearchStep:
    """One candidate that was executed: the tree of what was tried is in `parent`, the number of the step it changes
    (-1: the original). `plan`: the decisions that differ from the original; `changed`: metrics and counters of the
    kernel, [before, after]."""

    number: int
    parent: int
    transformation: str
    kernel: str
    plan: Mapping[str, PlanValue]
    before_ns: float
    after_ns: float | None
    kept: bool
    reason: str
    outcome: StepOutcome
    changed: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def list_path(steps: Iterable[SearchStep], last: int) -> list[SearchStep]:
    """The steps that led to the one with number `last`, the first one first; none for -1, the original."""
    by_number = {step.number: step for step in steps}
    path: list[SearchStep] = []
    while last >= 0:
        path.insert(0, by_number[last])
        last = by_number[last].parent
    return path


@dataclass(frozen=True)
class VerificationCheck:
    """One check. `passed` is null where it says nothing, because of `detail`; `error`: the largest relative one."""

    name: str
    passed: bool | None
    detail: str = ""
    error: float = 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class VerifyDocument(TabularDocument):
    """The document of `synth verify --json`. `verified`: no check failed, and outputs were compared; `speedup`: how
    many times as fast the changed program is, null unless it is verified."""

    original: str
    changed: str
    arch: str
    flags: str
    verified: bool
    checks: tuple[VerificationCheck, ...]
    speedup: float | None

    def table_rows(self) -> list[Row]:
        """One row for each check."""
        return [
            {"check": check.name, "passed": check.passed, "detail": check.detail, "error": check.error}
            for check in self.checks
        ]

    def __str__(self) -> str:
        from hipsynth.tuning.optimize.document_text import verification_text

        return verification_text(self)


@dataclass(frozen=True, kw_only=True)
class CheckedProgram:
    """Whether a program passed each check (null: not made, or not possible), and the checks."""

    outputs_equal: bool | None
    other_inputs: bool | None
    other_sizes: bool | None
    timed_size: bool | None
    precision: bool | None
    stale_memory: bool | None
    outside_kernels: bool | None
    races: bool | None
    repeated_launches: bool | None
    repeated_calls: bool | None
    moved_memory: bool | None
    waiting: bool | None = None  # of documents since 30 November 2026
    checks: tuple[VerificationCheck, ...]


@dataclass(frozen=True, kw_only=True)
class ModelRun:
    """How the run of a language model went that drove the tools; `ended`: "finished", or what ended it."""

    ended: str
    turns: int
    calls: int
    failed_calls: int
    tokens: int
    model: str
    trace: str


@dataclass(frozen=True)
class KernelGain:
    """What an improved program gains in one kernel. Times are those of all its launches; `share`: of the original's
    simulated time."""

    kernel: str
    launches: int
    before_ns: float
    after_ns: float
    speedup: float
    share: float


@dataclass(frozen=True, kw_only=True, repr=False)
class OptimizeDocument(TabularDocument):
    """The document of `synth optimize --json`. `reason`: why its `status` is not "improved". `step`: the last of the
    steps that led to the result; `uncertainty`: of the speed-up, relative; `refused`: why work-items of a kernel cannot
    be assigned otherwise. `ended`: what ended the search; `late`: its clock ran out before the last check, so that a
    faster machine may answer otherwise; `shapes`: the speed-up at each shape that was timed, of an improved program;
    `holds`: nothing is lost at those of them with about as much work; `dispatch`: kernels that are changed for some
    sizes alone -> for which. `left_out`: analyses that failed by a fault of their own -> the error. `limited`: kernels
    whose order of groups stays, as do loops that groups could share, or launches that could be joined -> why. `llm`:
    with --llm. Of Python scripts (`language` "triton"): `gains` by kernel, and `refusals`, the codes of `refused`."""

    path: str
    arch: str
    flags: str
    status: SearchStatus
    reason: str
    speedup: float
    uncertainty: float
    before_ns: float
    after_ns: float
    verified: CheckedProgram
    step: int
    steps: tuple[SearchStep, ...]
    refused: Mapping[str, str]
    budget_spent_s: float
    ended: SearchEnd
    holds: bool
    shapes: tuple[ShapeSpeedup, ...]
    dispatch: Mapping[str, str]
    left_out: Mapping[str, str] = field(default_factory=dict)
    limited: Mapping[str, Reason] = field(default_factory=dict)
    late: bool = False
    llm: ModelRun | None = None
    patched: str | None
    language: str = "hip"
    gains: tuple[KernelGain, ...] = ()
    refusals: Mapping[str, Reason] = field(default_factory=dict)

    def table_rows(self) -> list[Row]:
        """One row for each candidate that was executed."""
        return [
            {
                "number": step.number,
                "parent": step.parent,
                "transformation": step.transformation,
                "kernel": step.kernel,
                "before_ns": step.before_ns,
                "after_ns": step.after_ns,
                "kept": step.kept,
                "outcome": step.outcome,
                "reason": step.reason,
            }
            for step in self.steps
        ]

    def __str__(self) -> str:
        from hipsynth.tuning.optimize.document_text import optimization_text

        return optimization_text(self)
