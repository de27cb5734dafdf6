"""One program on one target: what a worker process does. Whatever the program does is a result with a reason."""

from __future__ import annotations

import errno
import functools
import os
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.profiling import backends, sandbox
from hipsynth.profiling.backends.protocol import Backend, Target, TargetResult
from hipsynth.profiling.sim.limits import Limits
from hipsynth.synth.core.errors import HipsynthError, Missing, UsageError
from hipsynth.synth.core.program import Program
from hipsynth.synth.core.workers import Outcome, map_unordered

MESSAGE_CHARS = 2000
# The engine ends a worker that takes so much longer, on the clock, than its backend allows a program.
HARD_LIMIT_FACTOR, HARD_LIMIT_EXTRA_S = 1.5, 600.0


@dataclass(frozen=True)
class Job:
    """One program on one target, with everything a worker needs."""

    backend: str
    program: Program
    target: Target
    limits: Limits


def open_backend(spec: str) -> Backend:
    """The backend, ready to use: UsageError for an unknown name, Missing (with its remedy) when it cannot run here."""
    backend = backends.get(spec)
    found = backend.available()
    if not found.ok:
        raise Missing(f"backend {backend.name} is not available", cause=found.detail, remedy=found.remedy)
    return backend


def run_job(job: Job) -> TargetResult:
    """Profiles one program on one target; whatever the program does is a result, never an exception.

    Only a request that could not work for any program (UsageError, Missing) is raised.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="hipsynth-") as scratch:
            return _tidy(_run_in(job, Path(scratch)), scratch)
    except OSError as error:  # the scratch folder itself cannot be made or removed
        return failed(job.target, _os_reason(error), f"no scratch folder: {error}")


def _run_in(job: Job, scratch: Path) -> TargetResult:
    target = job.target
    try:
        return _backend(job.backend).profile(job.program, target, scratch, job.limits)
    except (UsageError, Missing):
        raise
    except HipsynthError as error:
        details = "\n".join(part for part in (str(error), getattr(error, "diagnostics", "")) if part)
        return failed(target, error.reason, details)
    except Exception as error:
        return failed(target, _os_reason(error) if isinstance(error, OSError) else "internal_error", defect(error))


def defect(error: Exception) -> str:
    """What an unforeseen exception says, and where it was raised; its whole traceback where developers ask for it."""
    if os.environ.get("HIPSYNTH_TRACEBACK"):
        return "".join(traceback.format_exception(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error}, at {last.filename}:{last.lineno}"


def _os_reason(error: OSError) -> str:
    return "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "internal_error"


@functools.cache
def _backend(spec: str) -> Backend:
    return backends.get(spec)


def failed(target: Target, reason: str, message: str) -> TargetResult:
    """A failed result of a target."""
    return TargetResult(target.arch, target.flags, target.device, status="failed", reason=reason, message=message)


def _tidy(result: TargetResult, scratch: str) -> TargetResult:
    """Bounds the texts, hides the scratch folder's random name, and calls a run without any kernel a failure."""
    if result.status == "ok" and not result.kernels:
        result = replace(result, status="failed", reason="no_kernel", message="the program launched no kernel")
    return replace(
        result,
        message=result.message.replace(scratch, "<scratch>")[-MESSAGE_CHARS:],
        stdout=result.stdout.replace(scratch, "<scratch>"),
    )


def profile_program(
    program: Program, targets: Sequence[Target], backend: str, limits: Limits, workers: int = 1
) -> list[TargetResult]:
    """One program on several targets, in their order; a worker that dies is a failed result with that reason."""
    open_backend(backend)
    jobs = [Job(backend, program, target, limits) for target in targets]
    results: dict[int, TargetResult] = {}
    for outcome in map_unordered(run_job, jobs, min(workers, len(jobs)), "local", hard_limit(limits)):
        results[outcome.index] = result_of(outcome, jobs[outcome.index].target)
    return [results[index] for index in range(len(jobs))]


def hard_limit(limits: Limits) -> float:
    """Seconds on the clock."""
    return sandbox.time_limits(limits.time_s)["wall_s"] * HARD_LIMIT_FACTOR + HARD_LIMIT_EXTRA_S


def result_of(outcome: Outcome[TargetResult], target: Target) -> TargetResult:
    if outcome.error is None:
        return outcome.get()
    if isinstance(outcome.error, UsageError | Missing) or not isinstance(outcome.error, HipsynthError):
        raise outcome.error
    return failed(target, outcome.error.reason, str(outcome.error))
