"""Measures programs x targets into a corpus: skips finished items, runs the others, records each result at once."""

from __future__ import annotations

import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.store import CorpusItem, CorpusWriter, MeasurementKey
from hipsynth.core.workers import ItemOutcome, map_unordered, use_outcomes
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Backend, Target, TargetResult
from hipsynth.profiling.matrix.job import (
    MESSAGE_CHARS,
    MatrixJob,
    hard_limit,
    label_sources,
    open_backend,
    results_of,
    run_job,
)
from hipsynth.profiling.matrix.targets import targets_of
from hipsynth.profiling.metrics import uncertainty
from hipsynth.simulator import label_model
from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits

LABEL_TOLERANCE = 0.1  # relative error up to which a prediction counts as correct

Note = Callable[[str], None]


@dataclass(frozen=True)
class ExcludedTarget:
    """A cell that profiling/matrix/matrix.toml excludes. `reason`: why, in words."""

    arch: str
    flags: str
    device: str
    reason: str


@dataclass(frozen=True)
class FailedItem:
    """A measurement that failed. Of a program that could not be read only name, reason and message are known. `reason`
    is a Reason, or what an older corpus has."""

    program: str
    name: str
    arguments: str
    arch: str
    device: str
    flags: str
    reason: str
    message: str


@dataclass
class MatrixSummary:
    """Result of a matrix run, the document of `synth profile --json` for a folder. `failed` counts the failures of this
    matrix by reason, including earlier runs."""

    corpus: str = ""
    programs: int = 0
    targets: int = 0
    planned: int = 0
    already_done: int = 0
    measured: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    excluded: list[ExcludedTarget] = field(default_factory=list)
    repaired: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[FailedItem] = field(default_factory=list)

    def note_unreadable(self, errors: Iterable[BadInput]) -> None:
        """Counts programs that could not be read; the corpus cannot store them without their text."""
        for error in errors:
            name = error.what.partition(": ")[0]
            self.failures.append(FailedItem("", name, "", "", "", "", Reason.UNREADABLE, str(error)))
            self.failed[Reason.UNREADABLE] = self.failed.get(Reason.UNREADABLE, 0) + 1


@dataclass(frozen=True)
class MatrixOptions:
    """Options of a matrix run: backend (see backends.open_backend), engine (see core.workers), what to run again."""

    backend: str = "sim"
    engine: str = "local"
    workers: int = 1
    limits: RunLimits = field(default_factory=RunLimits)
    retry_failed: bool = False
    repair: bool = False


def collect_matrix(
    programs: Iterable[Program],
    targets: Sequence[Target],
    out: Path,
    options: MatrixOptions | None = None,
    progress: Callable[[int], Note] | None = None,
) -> MatrixSummary:
    """Measures every program on every target into the corpus folder `out`; an interrupted run can be resumed.

    `progress` is called once with the number of items to run; it returns a function that is called with a note for
    each item. Raises MissingDependency if the backend cannot run here, BadInput for an unusable corpus or a full disk,
    KeyboardInterrupt after what had ended by then was stored.
    """
    options = options or MatrixOptions()
    tool = open_backend(options.backend)
    if not targets:
        raise UsageError(
            "no targets are left to profile", remedy="every chosen cell is excluded by profiling/matrix/matrix.toml"
        )
    summary = MatrixSummary(str(out), targets=len(targets))
    with CorpusWriter(out, metrics.all_ids(), repair=options.repair) as corpus:
        summary.repaired = list(corpus.dropped_parts)
        summary.notes = [
            *corpus.notes,
            *(f"{path} is not part of the corpus; it stays" for path in corpus.unlisted_files()),
        ]
        context = _Context(tool, options, corpus, summary)
        jobs = list(context.plan(programs, targets))
        if not summary.programs:
            raise BadInput(
                "no programs to profile",
                remedy="give a folder that holds *.hip files, or *.py files with Triton kernels",
                reason=Reason.NO_PROGRAMS,
            )
        note = progress(sum(len(job.cells) for job in jobs)) if progress is not None else _ignore_note
        limit = hard_limit(options.limits, max((len(job.cells) for job in jobs), default=1))

        def keep_results(outcome: ItemOutcome[list[TargetResult]]) -> None:
            job = jobs[outcome.index]
            for (target, run), result in zip(job.cells, results_of(outcome, job), strict=True):
                if result.reason != Reason.INTERRUPTED:
                    context.record(job.program, run, target, result)
                    note(f"{job.program.name or job.program.id} {target.arch}")

        outcomes = map_unordered(run_job, jobs, options.workers, options.engine, limit, collect_interrupted=True)
        if use_outcomes(outcomes, keep_results):
            raise KeyboardInterrupt
    summary.failed = dict(sorted(Counter(failed.reason for failed in summary.failures).items()))
    summary.failures.sort(key=lambda item: (item.program, item.arch, item.device, item.flags, item.arguments))
    return summary


def _ignore_note(note: str) -> None:
    """Ignores a progress note."""


def with_sure_labels(kernel: KernelRecord, arch: str) -> KernelRecord:
    """The kernel as stored in the corpus: metrics whose sampling error exceeds LABEL_TOLERANCE become None.

    They are too uncertain to serve as labels. The sampler's own estimate decides, which is smaller than the bounds that
    are printed.
    """
    doubt = uncertainty.metric_errors(kernel, arch, kernel.error_estimate)
    sure = {name: value if _is_certain(value, doubt.get(name, 0.0)) else None for name, value in kernel.metrics.items()}
    return replace(kernel, metrics=sure)


def _is_certain(value: float | None, error: float) -> bool:
    return value is not None and error <= LABEL_TOLERANCE * abs(value)


def describe_settings(limits: RunLimits) -> str:
    """The settings that affect results, like the version of the tool."""
    settings = ""
    if limits.sampling_units != SAMPLING_UNITS:
        settings += f"+sample{limits.sampling_units}" if limits.sampling_units else "+exact"
    if limits.effort != 1:
        settings += f"+effort{limits.effort:g}"
    if limits.largest_error:
        settings += f"+error{limits.largest_error:g}"
    if limits.settled_launches:
        settings += f"+settled{limits.settled_launches}"
    if limits.warm_l2:
        settings += "+warm-l2"
    if limits.per_kernel:
        settings += f"+first{limits.per_kernel}"
    return settings + (f"+budget{limits.budget_s:g}" if limits.budget_s else "")


def _digest_of(program: Program) -> str:
    return program.project.digest if program.project else ""


class _Context:
    """One matrix run: computes item ids and stores results."""

    def __init__(self, tool: Backend, options: MatrixOptions, corpus: CorpusWriter, summary: MatrixSummary) -> None:
        self.tool, self.options, self.corpus, self.summary = tool, options, corpus, summary
        self.made_by = tool.version()
        self.version = self.made_by + describe_settings(options.limits)
        self.environments: dict[tuple[Target, str], Mapping[str, str]] = {}

    def _target_environment(self, target: Target, language: str) -> Mapping[str, str]:
        if (target, language) not in self.environments:
            self.environments[target, language] = self.tool.environment(target, language)
        return self.environments[target, language]

    def plan(self, programs: Iterable[Program], targets: Sequence[Target]) -> Iterator[MatrixJob]:
        """Yields the items that remain to be run; stores each program in the corpus."""
        planned_programs: set[tuple[str, str]] = set()
        for program in programs:
            key = program.id, _digest_of(program)
            if key in planned_programs:
                self.summary.duplicates += 1
                continue
            planned_programs.add(key)
            self.summary.programs += 1
            self.corpus.add_program(program.record(), program.text)
            wanted: dict[str, list[tuple[Target, ProgramRun]]] = {}
            for target, run in itertools.product(targets_of(program, targets), program.runs):
                self.summary.planned += 1
                if self._is_wanted(program, run, target):
                    wanted.setdefault(target.arch, []).append((target, run))
            for cells in wanted.values():
                yield MatrixJob(self.options.backend, program, tuple(cells), self.options.limits)

    def _is_wanted(self, program: Program, run: ProgramRun, target: Target) -> bool:
        failure = self._stored_failure(program, run, target)
        if failure is None or failure in TRANSIENT or (self.options.retry_failed and failure != Reason.NONE):
            return True
        self.summary.already_done += 1
        if failure != Reason.NONE:
            self._record_failure(program, run, target, failure, "")
        return False

    def _stored_failure(self, program: Program, run: ProgramRun, target: Target) -> str | None:
        """Why an item failed, None without a result: under this version, or an older one whose labels are equal."""
        failures = (
            self.corpus.failure(self._item_id(program, run, target, version))
            for version in (self.version, *label_model.equal_versions(self.version))
        )
        return next((failure for failure in failures if failure is not None), None)

    def _item_id(self, program: Program, run: ProgramRun, target: Target, version: str) -> str:
        env = self._target_environment(target, program.language)
        return MeasurementKey(
            program_id=program.id, arguments=shlex.join(run.arguments), arch=target.arch, flags=target.flags,
            device=target.device, backend=self.tool.name, backend_version=version,
            compiler=env.get("compiler", ""), headers=env.get("headers", ""), files=_digest_of(program),
        ).measurement_id()  # fmt: skip

    def _record_failure(self, program: Program, run: ProgramRun, target: Target, reason: str, message: str) -> None:
        arguments, where = shlex.join(run.arguments), (target.arch, target.device, target.flags)
        self.summary.failures.append(FailedItem(program.id, program.name, arguments, *where, reason, message))

    def record(self, program: Program, run: ProgramRun, target: Target, result: TargetResult) -> None:
        """Stores a finished item in the corpus."""
        result = label_sources(result)
        self.corpus.add(self.item(program, run, target, result))
        if result.status == RunStatus.OK:
            self.summary.measured += 1
        else:
            self._record_failure(program, run, target, result.reason, result.message)

    def item(self, program: Program, run: ProgramRun, target: Target, result: TargetResult) -> CorpusItem:
        env = self._target_environment(target, program.language)
        provenance = {**env, **result.provenance, "host_code": program.host_code}
        measured_by = {f"{kernel.source.backend} {kernel.source.version}" for kernel in result.kernels}
        if measured_by - {f"{self.tool.name} {self.made_by}"}:
            provenance["measured_by"] = ", ".join(sorted(measured_by))
        return CorpusItem(
            program_id=program.id,
            arguments=shlex.join(run.arguments),
            lineage=program.lineage or program.id,
            origin=program.origin,
            family=program.family,
            arch=target.arch,
            flags=target.flags,
            device=target.device,
            backend=self.tool.name,
            backend_version=self.version,
            compiler=env.get("compiler", ""),
            headers=env.get("headers", ""),
            files=_digest_of(program),
            status=result.status,
            language=program.language,
            reason=result.reason,
            message=result.message,
            exit_code=result.exit_code,
            stdout=result.stdout[-MESSAGE_CHARS:],
            provenance=provenance,
            kernels=tuple(
                with_sure_labels(kernel, result.arch) for kernel in result.kernels if result.status == RunStatus.OK
            ),
        )
