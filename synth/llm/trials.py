"""Compiles, runs and profiles programs of a language model, in the sandbox only; failures have a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.journal import ResultJournal
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import TRANSIENT
from hipsynth.core.run_status import RunStatus
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.matrix.job import MatrixJob, hard_limit, label_sources, open_backend, results_of, run_job
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import sandbox

BACKEND = "sim"


@dataclass(frozen=True)
class ProgramVerdict:
    """Why a program is excluded ("": it is not), with the first lines of the compiler's or simulator's message."""

    reason: str
    message: str = ""


def verdict_of(result: TargetResult) -> ProgramVerdict:
    """A program is usable if it compiled, ended with exit code 0, and all its kernels were counted.

    The exit code counts only where every grid ran in full: of a sampled grid the results are not computed.
    """
    result = label_sources(result)
    if result.status != RunStatus.OK:
        return ProgramVerdict(result.reason, result.message[:500])
    if result.exit_code and result.provenance.get("sampled") == "false":
        return ProgramVerdict("failed_itself", f"it ended with exit code {result.exit_code}: {result.stdout[:300]}")
    return ProgramVerdict("")


def judge_all(
    programs: Sequence[Program],
    target: Target,
    limits: RunLimits,
    journal_path: Path,
    workers: int = 1,
    on_verdict: Callable[[str], None] = lambda _: None,
) -> dict[str, ProgramVerdict]:
    """The verdicts by program id; those in the journal are reused if simulator, target and limits are the same.

    Raises MissingDependency if the simulator or the sandbox does not work here.
    """
    sandbox.require_sandbox()
    backend = open_backend(BACKEND)
    tools = "|".join((build_identity(), *sorted(backend.environment(target).values()), repr(target), repr(limits)))
    journal = ResultJournal(journal_path, _check_record)
    verdicts = {key.partition("|")[0]: row for key, row in journal.read().items() if key.partition("|")[2] == tools}
    verdicts_by_id = {
        program.id: ProgramVerdict(**verdicts[program.id]) for program in programs if program.id in verdicts
    }
    for _ in verdicts_by_id:
        on_verdict("")
    todo = [program for program in programs if program.id not in verdicts_by_id]
    jobs = [MatrixJob(BACKEND, program, ((target, ProgramRun()),), limits) for program in todo]
    for outcome in map_unordered(run_job, jobs, workers, "local", hard_limit(limits)):
        program = todo[outcome.index]
        verdict = verdict_of(results_of(outcome, jobs[outcome.index])[0])
        verdicts_by_id[program.id] = verdict
        if verdict.reason not in TRANSIENT:
            journal.add(f"{program.id}|{tools}", vars(verdict))
        on_verdict(program.name)
    return verdicts_by_id


def _check_record(row: object) -> dict[str, str]:
    return vars(from_json(ProgramVerdict, row))
