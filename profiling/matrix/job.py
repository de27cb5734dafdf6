"""Profiles the builds of a program in a worker process. Failures of the program are results with a reason."""

from __future__ import annotations

import functools
import os
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core import stop_signal
from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency, UsageError, is_disk_full, locate_defect
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.workers import ItemOutcome, map_unordered, use_outcomes
from hipsynth.profiling import backends
from hipsynth.profiling.backends import equal_builds
from hipsynth.profiling.backends.protocol import Backend, Target, TargetResult, failed_result
from hipsynth.profiling.matrix.targets import targets_of
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import sandbox

MESSAGE_CHARS = 2000
NO_KERNEL_YET = "stopped before any kernel had ended"
BUILD_REASONS = frozenset({Reason.COMPILE_FAILED, Reason.LINK_FAILED})  # equal for all cells of a build
# Wall-clock margin over the backend's own limit after which the engine ends a worker.
HARD_LIMIT_FACTOR, HARD_LIMIT_EXTRA_S = 1.5, 600.0


@dataclass(frozen=True)
class MatrixJob:
    """A program and its cells (target, run) of one architecture: flag sets, devices and arguments.

    They are one job because flag sets often give the same machine code (backends.equal_builds)."""

    backend: str
    program: Program
    cells: tuple[tuple[Target, ProgramRun], ...]
    limits: RunLimits


def open_backend(spec: str) -> Backend:
    """Opens a backend; raises UsageError for an unknown name, MissingDependency (with a remedy) if it cannot run
    here."""
    backend = backends.open_backend(spec)
    availability = backend.available()
    if not availability.ok:
        raise MissingDependency(
            f"backend {backend.name} is not available", cause=availability.detail, remedy=availability.remedy
        )
    return backend


def run_job(job: MatrixJob) -> list[TargetResult]:
    """Profiles a program in each cell of a job; failures of the program are returned as results. What does not compile
    is tried once, and equal runs of equal machine code are one. Cells that a signal to stop left out are interrupted.

    Raises only errors that concern every program (UsageError, MissingDependency), such as a TMPDIR that cannot be used.
    """
    results: list[TargetResult] = []
    refused: dict[tuple[str, str], TargetResult] = {}
    with equal_builds.share_equal_work():
        for target, run in job.cells:
            if stop_signal.stop_requested():
                results.append(failed_result(target, Reason.INTERRUPTED, NO_KERNEL_YET))
                continue
            build = (target.arch, target.flags)
            result = _on_device(refused[build], target) if build in refused else _run_cell(job, target, run)
            if result.reason in BUILD_REASONS:
                refused.setdefault(build, result)
            results.append(result)
    return results


def _on_device(result: TargetResult, target: Target) -> TargetResult:
    """The same failed build on another device."""
    provenance = {**result.provenance, "device": target.device} if "device" in result.provenance else result.provenance
    return replace(result, device=target.device, provenance=provenance)


def _run_cell(job: MatrixJob, target: Target, run: ProgramRun) -> TargetResult:
    try:
        with scratch_folder() as scratch:
            result = _tidy_result(_run_in(job, target, run, scratch), str(scratch))
    except BadInput as error:  # there is no space for the scratch folder
        return failed_result(target, error.reason, str(error))
    return (
        failed_result(target, Reason.INTERRUPTED, NO_KERNEL_YET)
        if stop_signal.stop_requested() and not result.kernels
        else result
    )


def _run_in(job: MatrixJob, target: Target, run: ProgramRun, scratch: Path) -> TargetResult:
    try:
        return _open_cached(job.backend).profile(job.program.with_runs([run]), target, scratch, job.limits)
    except (UsageError, MissingDependency):
        raise
    except HipsynthError as error:
        return failed_result(target, error.reason, error.describe())
    except Exception as error:
        full = isinstance(error, OSError) and is_disk_full(error)
        return failed_result(target, Reason.DISK_FULL if full else Reason.INTERNAL_ERROR, describe_defect(error))


def describe_defect(error: Exception) -> str:
    """Describes an unexpected exception: message and location, or the traceback if HIPSYNTH_TRACEBACK is set."""
    if os.environ.get("HIPSYNTH_TRACEBACK"):
        return "".join(traceback.format_exception(error))
    file, line = locate_defect(error)
    return f"{type(error).__name__}: {error}, at {file}:{line}"


@functools.cache
def _open_cached(spec: str) -> Backend:
    return backends.open_backend(spec)


def label_sources(result: TargetResult) -> TargetResult:
    """The result as a source of labels: a program of copies alone has none."""
    if result.status == RunStatus.OK and not result.kernels:
        return replace(result, status=RunStatus.FAILED, reason=Reason.NO_DISPATCH, message=Reason.NO_DISPATCH.meaning)
    return result


def _tidy_result(result: TargetResult, scratch: str) -> TargetResult:
    """Truncates long texts, replaces the scratch folder's random name, and marks a run that did nothing as failed."""
    if result.status == RunStatus.OK and not result.kernels and not result.transfers:
        result = replace(result, status=RunStatus.FAILED, reason=Reason.NO_DISPATCH, message=Reason.NO_DISPATCH.meaning)

    def hide_folders(text: str) -> str:
        return equal_builds.hide_build_folders(text.replace(scratch, "<scratch>"))

    return replace(
        result,
        message=hide_folders(result.message)[-MESSAGE_CHARS:],
        stdout=hide_folders(result.stdout),
        diagnostics=None if result.diagnostics is None else hide_folders(result.diagnostics)[-MESSAGE_CHARS:],
    )


def profile_program(
    program: Program,
    targets: Sequence[Target],
    backend: str,
    limits: RunLimits,
    workers: int = 1,
    *,
    keep_interrupted: bool = False,
) -> list[TargetResult]:
    """Profiles a program on several targets; results in the order of the targets,
    those of a script without flags. If a worker dies, its result is
    failed. With `keep_interrupted`, Ctrl-C ends the runs and is not raised: results with the reason "interrupted" have
    the kernels that had ended by then."""
    open_backend(backend)
    targets = targets_of(program, targets)
    jobs = [MatrixJob(backend, program, ((target, program.runs[0]),), limits) for target in targets]
    results: dict[int, TargetResult] = {}
    limit_s = hard_limit(limits)

    def keep(outcome: ItemOutcome[list[TargetResult]]) -> None:
        results[outcome.index] = results_of(outcome, jobs[outcome.index])[0]

    workers = min(workers, len(jobs))
    outcomes = map_unordered(run_job, jobs, workers, "local", limit_s, collect_interrupted=keep_interrupted)
    if use_outcomes(outcomes, keep) and not keep_interrupted:
        raise KeyboardInterrupt
    return [
        results.get(index) or failed_result(target, Reason.INTERRUPTED, NO_KERNEL_YET)
        for index, target in enumerate(targets)
    ]


def hard_limit(limits: RunLimits, cells: int = 1) -> float:
    """The wall-clock limit of a job of so many cells in seconds."""
    return cells * sandbox.time_limits(limits.time_s)["wall_s"] * HARD_LIMIT_FACTOR + HARD_LIMIT_EXTRA_S


def results_of(outcome: ItemOutcome[list[TargetResult]], job: MatrixJob) -> list[TargetResult]:
    """A result for each cell of a finished job; all are failed if its worker ended."""
    if outcome.error is None:
        return outcome.get()
    if isinstance(outcome.error, UsageError | MissingDependency) or not isinstance(outcome.error, HipsynthError):
        raise outcome.error
    return [failed_result(target, outcome.error.reason, str(outcome.error)) for target, _ in job.cells]
