"""Measures a surveyed program for a corpus: its own run, then short runs at other problem sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.program import ProgramRecord
from hipsynth.core.reasons import Reason
from hipsynth.core.store import CorpusItem
from hipsynth.profiling.survey.build import BuildResult, try_plans
from hipsynth.profiling.survey.build_plan import Invocation, SurveyedProgram
from hipsynth.profiling.survey.documents import COMPLETED
from hipsynth.profiling.survey.execute import USAGE_CHARS, RunConditions, try_call
from hipsynth.profiling.survey.further_sizes import ResizedInvocation, other_sizes
from hipsynth.profiling.survey.labels import item_of, label_identity, program_record
from hipsynth.simulator.api import RunResult
from hipsynth.simulator.limits import CORPUS_UNITS

Labels = tuple[ProgramRecord, CorpusItem]  # the program's record with its text, and the item

# A run in another size is for its labels alone, so it may leave out what a program's own run shows: its self-check, and
# the hundredth launch of a kernel.
SIZE_BUDGET_S, SIZE_TIME_S = 1.0, 6.0
SETTLED_LAUNCHES = 16
MOST_IDLE = 3  # sizes in a row that bring no label
HELP = Invocation(("--help",))


@dataclass(frozen=True)
class SurveyRun:
    """A finished run of a program, with all that a label names."""

    program: SurveyedProgram
    built: BuildResult
    conditions: RunConditions
    call: Invocation
    done: RunResult

    def labels(self, base: str = "", change: str = "") -> Labels:
        plan, where = self.built.plan, self.conditions
        record = program_record(self.program, plan, where.root, self.call.arguments, base=base, change=change)
        return record, item_of(record, plan, self.call, self.done, where.device, where.limits)


def all_labels(survey_run: SurveyRun, scratch: Path) -> Iterator[Labels]:
    """The labels of a program's own run, then those of other sizes that differ from all before. The same run gives the
    same sizes."""
    first = survey_run.labels()
    yield first
    device = survey_run.conditions.device.name
    identities = {label_identity(kernel, device) for kernel in first[1].kernels}
    finished_ladders: set[int] = set()  # ladders
    idle = 0
    for number, size in enumerate(
        other_sizes(survey_run.built.plan, survey_run.call, _print_usage(survey_run, scratch))
    ):
        if size.ladder in finished_ladders:
            continue
        run = _run_resized(survey_run, size, scratch / f"size{number}")
        if run is None:
            finished_ladders.add(size.ladder)
            continue
        record, item = run.labels(first[0]["id"] if size.change else "", size.change)
        fresh = [kernel for kernel in item.kernels if label_identity(kernel, device) not in identities]
        identities |= {label_identity(kernel, device) for kernel in fresh}
        idle = 0 if fresh else idle + 1
        if fresh:
            yield record, replace(item, kernels=tuple(fresh))
        elif idle >= MOST_IDLE:
            return


def _print_usage(survey_run: SurveyRun, scratch: Path) -> str:
    """The program's usage text, if it takes arguments."""
    text = f"{survey_run.done.stdout}\n{survey_run.done.stderr}"[:USAGE_CHARS]
    if not survey_run.program.reads_arguments:
        return text
    conditions = survey_run.conditions
    limits = replace(conditions.limits, time_s=SIZE_TIME_S, budget_s=SIZE_BUDGET_S, caches=False, counters=False)
    _, help_run = try_call(
        survey_run.program, survey_run.built, replace(conditions, limits=limits), scratch / "help", HELP
    )
    return text if help_run.dispatch_count else f"{help_run.stdout}\n{help_run.stderr}"[:USAGE_CHARS] + text


def _run_resized(survey_run: SurveyRun, size: ResizedInvocation, scratch: Path) -> SurveyRun | None:
    """The run in another size; None if it fails there."""
    built, conditions = survey_run.built, survey_run.conditions
    if size.plan is not None:
        compiling = toolchain.CompileLimits(isolate=conditions.limits.isolate)
        wanted = replace(survey_run.program, plans=(size.plan,))
        built = try_plans(wanted, conditions.device.arch, scratch / "build", [conditions.root], compiling)
        if built.artefacts is None:
            return None
    limits = replace(
        conditions.limits, time_s=SIZE_TIME_S, budget_s=SIZE_BUDGET_S, sampling_units=CORPUS_UNITS,
        settled_launches=SETTLED_LAUNCHES, caches=True, counters=True,
    )  # fmt: skip
    conditions = replace(conditions, limits=limits)
    verdict, run_result = try_call(survey_run.program, built, conditions, scratch / "view", size.call)
    if verdict.status in COMPLETED or run_result.reason == Reason.SETTLED:
        resized_run = SurveyRun(survey_run.program, built, conditions, size.call, run_result)
        return resized_run if run_result.kernels else None
    return None
