"""Runs a whole survey: finds programs; workers build, run and classify them. Finished rows survive an interruption."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.documents import document_json
from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.core.files import whole_file
from hipsynth.core.journal import Journal, read_records
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.store import Corpus
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.survey.build import BuildResult, try_plans
from hipsynth.profiling.survey.build_plan import SurveyedProgram
from hipsynth.profiling.survey.collections_page import folder_provenance
from hipsynth.profiling.survey.discover import find_programs
from hipsynth.profiling.survey.documents import COMPLETED, SurveyConditions, SurveyRow, SurveyStatus
from hipsynth.profiling.survey.execute import ATTEMPTS, USAGE_CHARS, RunConditions, try_call, try_calls
from hipsynth.profiling.survey.measure import Labels, SurveyRun, all_labels
from hipsynth.profiling.survey.program_files import digest_program
from hipsynth.profiling.survey.report import SurveyReport, row_of
from hipsynth.profiling.survey.scripts import find_scripts, is_script_plan, prepare_plan
from hipsynth.profiling.survey.shrink import command_line, propose_smaller, with_defines
from hipsynth.profiling.survey.sources import Folder, scan_folder
from hipsynth.simulator import devices
from hipsynth.simulator.budget_outcome import count_uncomputed
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits
from hipsynth.toolchain import sandbox

Progress = Callable[[str], None]
OUTPUT_CHARS = 1500
WAVE_INSTRUCTIONS = 10**13  # effectively unlimited: surveys are limited by time


@dataclass(frozen=True)
class SurveyOptions:
    """How programs are run. `match`: survey only programs whose path contains this text."""

    arch: str = devices.DEFAULT_ARCH
    timeout_s: float = 60.0
    workers: int = 1
    count: bool = True
    match: str = ""
    memory_bytes: int = 8 << 30  # see simulator.limits.RunLimits
    device: str = ""  # empty: the architecture's default device
    isolate: bool = True  # run in the sandbox if it works here
    budget_s: float = 0.0  # see simulator.limits.RunLimits; 0: every launch runs in full
    shrink: bool = False  # look for smaller arguments of programs that do not fit
    corpus: Path | None = None  # where labels are stored: then every kernel is counted
    keep_sources: bool = False  # store the programs' sources there, too

    @property
    def table(self) -> devices.DeviceTable:
        return devices.device_of(self.arch, self.device)

    def run_limits(self, *, in_full: bool = False) -> RunLimits:
        """The limits of a program's run: launches are sampled only within a budget. `in_full`: of a script, which
        compares all results with PyTorch's."""
        budget_s = 0.0 if in_full else self.budget_s
        return RunLimits(
            self.timeout_s, WAVE_INSTRUCTIONS, self.memory_bytes, sampling_units=SAMPLING_UNITS if budget_s else 0,
            strict_bounds=False, isolate=self.isolate, budget_s=budget_s, caches=self.count, counters=False,
        )  # fmt: skip


@dataclass(frozen=True)
class _Task:
    program: SurveyedProgram
    root: Path
    options: SurveyOptions
    key: str


def find_chosen_programs(root: Path, options: SurveyOptions) -> list[SurveyedProgram]:
    """The programs below `root` that `options` choose.

    Raises BadInput if `root` is not a folder or has no such program, UsageError for an unknown architecture,
    MissingDependency without a compiler.
    """
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "no such folder"
        raise BadInput(f"{root}: {problem}", remedy="give a folder with HIP programs")
    toolchain.check_arch(options.arch)
    toolchain.find_toolchain()
    found_programs = [*find_programs(root, options.arch), *find_scripts(root)]
    programs = [program for program in found_programs if options.match in program.id]
    if found_programs and not programs:
        raise BadInput(
            f"{root}: no program path contains {options.match!r}",
            cause=f"{len(found_programs)} programs found, such as {found_programs[0].id}",
            remedy="choose another --match: a substring of the path, not a pattern",
            reason=Reason.NO_PROGRAMS,
        )
    if not programs:
        raise BadInput(
            f"{root}: no HIP program",
            cause="no file with a main() uses HIP, and no Python script has Triton kernels",
            remedy="give the folder that contains the sources",
            reason=Reason.NO_PROGRAMS,
        )
    return programs


def survey_folder(
    root: Path,
    options: SurveyOptions,
    out: Path | None = None,
    start: Callable[[int], Progress] | None = None,
    label: Callable[[Labels], None] | None = None,
    programs: Sequence[SurveyedProgram] | None = None,
) -> SurveyReport:
    """Surveys the HIP programs below `root`, and the Python scripts with Triton kernels.

    `out`: where to write a JSON report; a later call with the same `out` reuses its finished rows.
    `start`: called with the number of programs to run; it returns a callback that is called after each program.
    `label`: called with the labels of each run of a program that ran to its end, if `options.corpus` is set.
    `programs`: those of `find_chosen_programs`, which is called without them. Raises the same errors.
    """
    programs = find_chosen_programs(root, options) if programs is None else programs
    folder = scan_folder(root)
    tasks = [_Task(program, folder.root, options, _row_key(program, options, folder)) for program in programs]
    finished = _finished_rows(out, options) if out else {}
    rows = {task.key: finished[task.key] for task in tasks if task.key in finished}
    waiting = [task for task in tasks if task.key not in rows]
    step = start(len(waiting)) if start else None
    with _RowJournal(out, options.timeout_s) as keeper:
        for outcome in map_unordered(_survey_program, waiting, options.workers, "local", _hard_limit(options)):
            task = waiting[outcome.index]
            row, labels = outcome.value if outcome.value is not None else (_failed_row(task, outcome.error), ())
            if label:
                for label_row in labels:
                    label(label_row)
            rows[task.key] = row
            keeper.keep(row)
            if step:
                step(row.program)
    report = SurveyReport(str(root), options.arch, [rows[task.key] for task in tasks], survey_conditions(options, root))
    if out:
        _write_report(out, report)
        _journal_path(out).unlink(missing_ok=True)
    return report


def _hard_limit(options: SurveyOptions) -> float:
    """Wall-clock seconds after which a worker is killed: a backstop for the limits on each build and run."""
    return ATTEMPTS * sandbox.time_limits(options.timeout_s)["wall_s"] + 3600


def survey_conditions(options: SurveyOptions, root: Path) -> SurveyConditions:
    """The settings and versions needed to repeat the survey of a folder."""
    return SurveyConditions(
        device=options.table.name,
        timeout_s=options.timeout_s,
        budget_s=options.budget_s,
        shrink=options.shrink,
        memory_bytes=options.memory_bytes,
        caches_simulated=options.count,
        simulator=build_identity(),
        compiler=toolchain.find_toolchain().compiler_version,
        headers=toolchain.find_toolchain().headers_version,
        isolated=options.isolate and sandbox.is_available(),
        provenance=folder_provenance(root),
    )


# --- one program ---------------------------------------------------------------------------------------------------


def _survey_program(task: _Task) -> tuple[SurveyRow, tuple[Labels, ...]]:
    """Surveys one program in a worker; errors become a failed row. Temporary paths are replaced in the texts."""
    try:
        with scratch_folder() as scratch:
            row, labels = _survey_one(task, scratch)
            hide = {str(scratch): "<scratch>", str(task.root): "<folder>"}
            row = replace(
                row,
                message=_hide_paths(row.message, hide),
                evidence=_hide_paths(row.evidence, hide),
                diagnostics=_hide_paths(row.diagnostics, hide),
            )
            return row, labels
    except HipsynthError as error:
        return _failed_row(task, error), ()


def _hide_paths(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def _survey_one(task: _Task, scratch: Path) -> tuple[SurveyRow, tuple[Labels, ...]]:
    program, options = task.program, task.options
    reason, message = program.refusal
    if reason:
        return SurveyRow(program.id, SurveyStatus.FAILED, reason, message, key=task.key), ()
    start = time.monotonic()
    is_script = is_script_plan(program.plans[0])
    built = prepare_plan(program) if is_script else _build_program(task, scratch / "build")
    row = SurveyRow(
        program.id, SurveyStatus.FAILED, built.reason, built.message, plan=built.plan.origin,
        files=len(built.plan.units) or 1, build_s=round(time.monotonic() - start, 2),
        diagnostics=built.diagnostics, key=task.key, libraries=built.libraries,
    )  # fmt: skip
    if built.artefacts is None:
        return row, ()
    limits = options.run_limits(in_full=is_script)
    conditions = RunConditions(options.table, task.root, replace(limits, counters=options.corpus is not None))
    verdict, result, call = try_calls(program, built, conditions, scratch)
    survey_run = SurveyRun(program, built, replace(conditions, limits=limits), call, result)
    row = replace(
        row, status=verdict.status, reason=verdict.reason, message=verdict.message, evidence=verdict.evidence,
        compiled=True, exit_code=result.exit_code, arguments=call.arguments, dispatches=result.dispatch_count,
        warnings=tuple(text[:500] for text in result.warnings),
        run_s=round(result.cpu_s, 2), wall_s=round(result.wall_s, 2), isolated=result.isolated,
        output_cut=result.output_cut, kernels=len(result.kernels), spending=result.spending,
        diagnostics=_output_tail(result.stdout, result.stderr, verdict.status),
    )  # fmt: skip
    fits = row.executed_all or row.reason not in ("", Reason.BUDGET, Reason.TIMEOUT)
    if is_script:
        return row, ()
    if not fits and options.shrink:
        row = _shrink_run(row, survey_run, task.options, scratch)
    if not (options.corpus and options.count and row.completed and result.kernels):
        return row, ()
    start = time.monotonic()
    labels = tuple(all_labels(survey_run, scratch))
    kernels = sum(len(item.kernels) for _, item in labels)
    ids = tuple(sorted({record["id"] for record, item in labels if item.kernels}))
    return replace(row, labels=kernels, stored=ids, label_s=round(time.monotonic() - start, 2)), labels


def _build_program(task: _Task, folder: Path) -> BuildResult:
    compiling = toolchain.CompileLimits(isolate=task.options.isolate)
    return try_plans(task.program, task.options.arch, folder, [task.root], compiling)


def _shrink_run(row: SurveyRow, survey_run: SurveyRun, options: SurveyOptions, scratch: Path) -> SurveyRow:
    """The row with a smaller start of the program that fits its budget, if one of a few proposals does."""
    program, built, result = survey_run.program, survey_run.built, survey_run.done
    root = survey_run.conditions.root
    printed = f"{result.stdout}\n{result.stderr}"[:USAGE_CHARS]
    for number, proposal in enumerate(propose_smaller(built.plan, survey_run.call, printed, result.spending)):
        smaller_build = built
        if proposal.defines:
            smaller = replace(program, plans=(with_defines(built.plan, proposal.defines),))
            compiling = toolchain.CompileLimits(isolate=options.isolate)
            smaller_build = try_plans(smaller, options.arch, scratch / f"smaller{number}", [root], compiling)
            if smaller_build.artefacts is None:
                continue
        view = scratch / f"shrunk{number}"
        verdict, smaller_run = try_call(program, smaller_build, survey_run.conditions, view, proposal.call)
        if verdict.status in COMPLETED and smaller_run.dispatch_count and not count_uncomputed(smaller_run.spending):
            command = command_line(program.main, built.plan, root, proposal, options.budget_s)
            return replace(
                row, shrunk=verdict.status, command=command, kernels=max(row.kernels, len(smaller_run.kernels))
            )
    return row


def _output_tail(stdout: str, stderr: str, status: SurveyStatus) -> str:
    """The last lines that a failed run printed."""
    if status in COMPLETED:
        return ""
    return "\n".join(part[-OUTPUT_CHARS:].strip() for part in (stdout, stderr) if part.strip())


def _failed_row(task: _Task, error: Exception | None) -> SurveyRow:
    reason = error.reason if isinstance(error, HipsynthError) else Reason.INTERNAL_ERROR
    return SurveyRow(task.program.id, SurveyStatus.FAILED, reason, str(error), key=task.key)


# --- resuming ------------------------------------------------------------------------------------------------------


def _row_key(program: SurveyedProgram, options: SurveyOptions, folder: Folder) -> str:
    """Hash of everything that a row depends on: plans, files that the program is known to read, architecture, tools.
    The time limit is compared separately."""
    depends = [program.id, digest_program(program, folder), options.arch, options.count, options.memory_bytes]
    depends.append(options.isolate and sandbox.is_available())
    if options.table.name != devices.default_device(options.arch):
        depends.append(options.table.name)
    if options.budget_s:
        depends += [options.budget_s, options.shrink]
    if options.corpus:
        depends.append(f"labels in {options.corpus.resolve()}, sources {options.keep_sources}")
    digest = hashlib.sha256(json.dumps(depends).encode())
    digest.update(f"{build_identity()} {toolchain.find_toolchain().identity}".encode())
    return digest.hexdigest()[:24]


def _journal_path(out: Path) -> Path:
    return out.with_name(out.name + ".journal")


def _finished_rows(out: Path, options: SurveyOptions) -> dict[str, SurveyRow]:
    """Finished rows of an earlier call, by key, except time-outs under a lower limit than the current one, failures
    that the program did not cause, and rows whose labels are not in the corpus."""
    rows, limits = [], []
    try:
        for _, _, record in read_records(_journal_path(out)):
            rows.append(row_of(record))
            limits.append(float(str(record.get("timeout_s", 0))))  # earlier versions wrote none
        if out.is_file():
            report = json.loads(out.read_text())
            rows += [row_of(document) for document in report["programs"]]
            limits += [float(report["conditions"]["timeout_s"])] * (len(rows) - len(limits))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{out}: not a survey report", cause=str(error), remedy="choose another --out") from error
    finished: dict[str, SurveyRow] = {}
    stored = _list_stored_programs(options.corpus)
    for row, limit in zip(rows, limits, strict=True):
        is_settled = row.reason not in (Reason.TIMEOUT, Reason.BUDGET) or limit >= options.timeout_s
        has_labels = not row.labels or (bool(row.stored) and stored.issuperset(row.stored))
        if row.key and is_settled and row.reason not in TRANSIENT and has_labels:
            finished[row.key] = row
    return finished


def _list_stored_programs(corpus: Path | None) -> set[str]:
    """The ids of the programs in a corpus; none without one."""
    if corpus is None or not corpus.exists():
        return set()
    with contextlib.suppress(BadInput):  # it is empty; or damaged, which storing a label reports
        return set(Corpus.open(corpus).programs()["id"].to_pylist())
    return set()


class _RowJournal:
    """Appends each finished row, and the limit of time that it had, to the journal beside the report; does nothing
    without a report."""

    def __init__(self, out: Path | None, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        if out:
            out.parent.mkdir(parents=True, exist_ok=True)
        self.journal = Journal(_journal_path(out)) if out else None

    def __enter__(self) -> _RowJournal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.journal:
            self.journal.close()

    def keep(self, row: SurveyRow) -> None:
        if self.journal:
            self.journal.append({**asdict(row), "timeout_s": self.timeout_s})


def _write_report(out: Path, report: SurveyReport) -> None:
    with whole_file(out) as file:
        json.dump(document_json(report.document(keys=True)), file, indent=1)
        file.write("\n")
