"""`synth survey`: report which programs of a folder compile, run and pass their own checks."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import (
    NamedPath,
    arch_option,
    budget_option,
    caches_option,
    device_option,
    json_option,
    memory_option,
    sandbox_option,
    time_within,
    timeout_option,
    workers_option,
)
from hipsynth.cli.output import Progress, prepare_file, print_json
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.program import ProgramRecord
from hipsynth.core.reasons import Reason
from hipsynth.simulator.devices import DEFAULT_ARCH

if TYPE_CHECKING:
    from hipsynth.core.store import CorpusItem
    from hipsynth.profiling.survey import SurveyOptions
    from hipsynth.profiling.survey.build_plan import SurveyedProgram
    from hipsynth.profiling.survey.report import SurveyReport

    Label = Callable[[tuple[ProgramRecord, CorpusItem]], None]

CORPUS_BUDGET_S = 3.0  # of a program's own run, if its labels are wanted and --budget is not given
EPILOG = """\b
Examples:
  synth survey examples
  synth survey examples --arch gfx90a --timeout 300 --out survey.json
  synth survey examples --match stencil --json
  synth survey benchmarks --budget 30s --shrink
  synth survey benchmarks --budget 30s --corpus real --keep-sources
  synth survey first second --arch gfx90a --arch gfx942 --out reports --page programs.md

Programs are found automatically: Makefiles are evaluated by a dry run and CMake projects configured, both in the
sandbox, compile_commands.json is read, and other source files are tried one by one; Python scripts that launch Triton
kernels, and tests of them, run as they are. Each program runs in the sandbox, in a copy of its folder.

With --out, run the same command again to continue after an interruption.

Exit codes: 0 ok (whatever the programs did), 2 usage, 3 bad input, 4 toolchain missing.
"""


@click.command(epilog=EPILOG)
@click.argument("folders", nargs=-1, required=True, type=NamedPath(readable=False, path_type=Path))
@arch_option(DEFAULT_ARCH)
@device_option
@click.option(
    "--out",
    type=NamedPath(path_type=Path),
    help="JSON report, or a folder for several reports; programs finished in it are not run again.",
)
@click.option(
    "--page", type=NamedPath(path_type=Path), help="Markdown page whose generated section is replaced by the result."
)
@click.option(
    "--corpus",
    type=NamedPath(file_okay=False, path_type=Path),
    help="Corpus folder for the labels of all kernels of programs that ran to their end, there and in other sizes. "
    f"Without --budget, each program has {CORPUS_BUDGET_S:g}s.",
)
@click.option(
    "--keep-sources", is_flag=True, help="Store the programs' sources in the corpus too (see their licences)."
)
@click.option("--match", default="", help="Only programs whose path contains this text.")
@budget_option
@click.option(
    "--shrink",
    is_flag=True,
    help="Look for smaller arguments of programs that do not fit --budget, and print the command that does.",
)
@caches_option
@memory_option
@sandbox_option
@workers_option
@timeout_option
@json_option
def command(
    folders: tuple[Path, ...],
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    out: Path | None,
    page: Path | None,
    corpus: Path | None,
    keep_sources: bool,
    match: str,
    budget: float,
    shrink: bool,
    caches: bool,
    memory: float,
    sandboxed: bool,
    workers: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Find, compile and run every HIP program and Triton script below FOLDERS, and report the results.

    Per program: passed (its own check succeeded), ran (exit code 0, no recognised check), partial (ended at its limit
    with --budget), or failed with a reason.
    """
    from hipsynth.profiling.matrix.targets import resolve_devices
    from hipsynth.profiling.survey import SurveyOptions
    from hipsynth.profiling.survey.collections_page import update_page
    from hipsynth.profiling.survey.documents import SurveyCollection
    from hipsynth.profiling.survey.report import report_table, summary_line
    from hipsynth.toolchain import sandbox

    if shrink and not budget:
        raise UsageError("--shrink needs --budget", remedy="say what programs have to fit, such as --budget 30s")
    if keep_sources and not corpus:
        raise UsageError("--keep-sources needs --corpus", remedy="say where labels and sources are to be stored")
    if corpus and not caches:
        raise UsageError("--corpus excludes --no-caches", remedy="labels need the caches; drop one of them")
    if corpus and not budget:
        budget = CORPUS_BUDGET_S
    timeout = time_within(budget, timeout)
    prepare_file(page)
    if sandboxed:
        sandbox.require_sandbox()
    else:
        click.echo("warning: programs run with your rights on files and network; only limits hold", err=True)
    memory_bytes = int(memory * 2**30)
    wanted = [
        SurveyOptions(
            arch, timeout, workers, caches, match, memory_bytes, device, sandboxed, budget, shrink, corpus, keep_sources
        )
        for arch, device in resolve_devices(archs or (() if devices else (DEFAULT_ARCH,)), devices)
    ]
    reports: list[SurveyReport] = []
    with _label_writer(corpus, keep_sources) as label:
        for report in _run_surveys(folders, wanted, out, label):
            reports.append(report)
            if page:  # after each survey, because a later one may be interrupted
                update_page(page, reports)
    if not reports:
        problem, remedy = "no HIP program in any of the folders", "give folders that contain the sources"
        raise BadInput(problem, remedy=remedy, reason=Reason.NO_PROGRAMS)
    if as_json:
        documents = tuple(report.document() for report in reports)
        print_json(documents[0] if len(documents) == 1 else SurveyCollection(documents))
    else:
        texts = [f"{_report_heading(report, len(reports))}{report_table(report)}" for report in reports]
        click.echo("\n\n".join([*texts, *([summary_line(reports)] if len(reports) > 1 else [])]))
    return 0


def _report_heading(report: SurveyReport, reports: int) -> str:
    return f"{report.folder} on {report.arch}\n" if reports > 1 else ""


@contextmanager
def _label_writer(corpus: Path | None, keep_sources: bool) -> Iterator[Label | None]:
    """Yields a function that stores a program's labels in the corpus; None without a corpus."""
    from hipsynth.core.store import CorpusWriter
    from hipsynth.profiling import metrics

    if corpus is None:
        yield None
        return
    with ExitStack() as stack:
        opened: list[CorpusWriter] = []  # at the first label: wrong folders leave no empty corpus

        def label(labels: tuple[ProgramRecord, CorpusItem]) -> None:
            record, item = labels
            if not item.kernels:
                return
            if not opened:
                opened.append(stack.enter_context(CorpusWriter(corpus, metrics.all_ids())))
            opened[0].add_program(record, record["text"] if keep_sources else "")
            opened[0].add(item)

        yield label


def _run_surveys(
    folders: Sequence[Path], wanted: Sequence[SurveyOptions], out: Path | None, label: Label | None
) -> Iterator[SurveyReport]:
    """One survey after the other."""
    from hipsynth.profiling.survey.run_survey import find_chosen_programs, survey_folder
    from hipsynth.simulator.devices import default_device

    jobs = [(folder, options) for options in wanted for folder in dict.fromkeys(folders)]
    names = _name_reports(folders)
    results: dict[
        Path, list[SurveyedProgram]
    ] = {}  # folders are searched and configured once, for the first architecture
    for folder, options in jobs:
        target_path = out
        if out and (len(jobs) > 1 or out.is_dir()):
            name = (
                options.arch if options.device == default_device(options.arch) else f"{options.arch}-{options.device}"
            )
            target_path = out / f"{names[folder]}-{name}.json"
        prepare_file(target_path)
        bars: list[Progress] = []

        def start(
            total: int, bars: list[Progress] = bars, what: str = f"{folder.name} {options.arch}"
        ) -> Callable[[str], None]:
            bars.append(Progress(what, total))
            return bars[-1].step

        try:
            if folder not in results:
                results[folder] = find_chosen_programs(folder, options)
            yield survey_folder(folder, options, target_path, start, label, results[folder])
        except BadInput as error:
            if len(jobs) == 1 or error.reason != Reason.NO_PROGRAMS:
                raise
            click.echo(f"warning: {error.what}: {error.cause}", err=True)  # the other folders are surveyed
        finally:
            for bar in bars:
                bar.close()


def _name_reports(folders: Sequence[Path]) -> dict[Path, str]:
    """The beginning of the name of each folder's reports: the end of its path, and where folders end alike a hash."""
    ends = {folder: "-".join(folder.parts[-3:]).strip("-/.") for folder in folders}
    counts = Counter(ends.values())
    hashes = {folder: hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:8] for folder in folders}
    return {folder: f"{end}-{hashes[folder]}" if counts[end] > 1 else end for folder, end in ends.items()}
