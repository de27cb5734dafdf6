"""`synth profile`: print the profile of one program, or measure a folder of programs into a corpus."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from hipsynth.cli.options import (
    FiniteRange,
    NamedPath,
    ShapeType,
    arch_option,
    budget_option,
    device_option,
    engine_option,
    json_option,
    parse_units,
    parse_values,
    refuse_options,
    sandbox_option,
    time_within,
    timeout_option,
    workers_option,
)
from hipsynth.cli.output import StatusLine, prepare_file, print_json, reason_text, terminal_width
from hipsynth.cli.profile_folder import profile_folder
from hipsynth.cli.programs import (
    ProgramCommand,
    check_script_options,
    environment_option,
    missing_file_hint,
    note_no_level,
    read_environment,
    source_options,
    split_argv,
)
from hipsynth.cli.terminal import print_styled, style_text
from hipsynth.core import stop_signal
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.languages import SUFFIXES, TRITON
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.library.arguments import with_defines

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.profiling.backends.protocol import Target, TargetResult
    from hipsynth.profiling.matrix.collect import MatrixOptions
    from hipsynth.profiling.reports.executed_profile import ExecutedProfile
    from hipsynth.simulator.limits import RunLimits

LEAST_EFFORT, MOST_EFFORT = 0.01, 1000
EPILOG = """\b
Examples:
  synth profile vcopy.hip
  synth profile vcopy.hip --arch gfx942 --flags "-O3 -ffast-math" --json
  synth profile gemm.hip --exact -- 512
  synth profile gemm.hip --effort 8 --timeout 300 -- 4096
  synth profile kernel.hip --value n=65536           # no main(): one is made from the kernels' signatures
  synth profile solver.hip --budget 30s              # whatever it does: what does not fit is estimated or left out
  synth profile vcopy.hip --lines                    # what each source line and loop costs
  synth profile matmul.py --arch gfx942 --lines --ttgir --asm     # the compiler's IR and the instructions, too
  synth profile solver.hip --top 3 --metric "L2*"    # some kernels, some metrics and counters
  synth profile solver.hip --csv --kernel jacobi
  synth profile vcopy.hip --html vcopy.html          # one page: limits, memory chart, roofline, source lines
  synth profile solver.hip --warm-l2                 # durations as the program's own events see them
  synth profile vcopy.hip --what-if                  # what removing a cause is worth at most
  synth profile matmul.py --arch gfx942 -- 4096      # a Python script with Triton kernels
  synth profile main.cpp kernels.cpp -Iinclude -DN=64 -- input.txt
  synth profile heat/src/main.cpp --project heat     # as its Makefile or CMake file builds it
  synth profile programs --out corpus
  synth profile programs --out corpus --arch gfx90a --flags=-O3 --flags=@extended --workers 8

Large grids are sampled: a representative part runs, its counts are scaled up, and the added error is estimated. The
results of such a program are neither computed nor checked. Small grids run in full; with --exact, all grids do.

Flags are given literally (`--flags=-O3`) or by tag (@default, @paper, @extended, @all).

A folder of programs needs --out; after an interruption, run the same command again to continue.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 backend or toolchain missing, 5 some items failed.
"""


OPTIONS_OF_ONE = {
    "kernel_pattern": "--kernel",
    "top": "--top",
    "metric_patterns": "--metric",
    "as_csv": "--csv",
    "counters": "--counters",
    "output": "--output",
    "environment": "--env",
    "asm": "--asm",
    "ttgir": "--ttgir",
    "values": "--value",
    "grid": "--grid",
    "block": "--block",
}
SAMPLING_OPTIONS = "--sample", "--effort", "--per-kernel", "--exact"
OPTIONS_OF_MANY = {"retry_failed": "--retry-failed", "repair": "--repair"}


class MeasurementOptions(TypedDict):
    """Options that are passed on to the measurement unchanged."""

    backend: str
    engine: str
    workers: int
    timeout: float
    exact: bool
    warm_l2: bool
    counters: bool | None
    output: bool
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    values: tuple[str, ...]
    environment: tuple[str, ...]
    kernel_pattern: str
    top: int | None
    metric_patterns: tuple[str, ...]
    as_csv: bool
    asm: bool
    ttgir: bool
    what_if: bool
    html: Path | None
    autotune_cache: Path | None
    retry_failed: bool
    repair: bool
    as_json: bool


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("argv", nargs=-1, required=True, metavar="PATH... [-- ARGS...]")
@source_options
@environment_option
@click.option(
    "--out",
    type=NamedPath(file_okay=False, path_type=Path),
    help="Corpus folder; needed when PATH is a folder of programs.",
)
@arch_option()
@device_option
@click.option(
    "--flags", multiple=True, help="Compiler flags or @TAG, several allowed.  [default: -O3; folder: @default]"
)
@click.option("--backend", default="sim", show_default=True, help="sim, preview, rocprof, or recorded:FOLDER.")
@engine_option
@click.option("--retry-failed", is_flag=True, help="Run failed items again.")
@click.option("--repair", is_flag=True, help="Drop damaged shards and measure their items again.")
@click.option(
    "--counters/--no-counters",
    default=None,
    help="Show all metrics, and every counter that is not zero.  [default: a first screen at a terminal, else the most "
    "telling counters of up to 3 kernels]",
)
@click.option("--output", is_flag=True, help="Also show what the program itself prints.")
@click.option(
    "--sample",
    default="auto",
    show_default=True,
    help="Sampling units of a large grid besides the first and the last: 2 to 1000, or auto (12; folder: 2).",
)
@click.option(
    "--effort",
    type=FiniteRange(LEAST_EFFORT, MOST_EFFORT),
    metavar="N",
    help="Sample only grids whose full run or trace replay takes over N times the usual limit "
    "(half a second; 20 seconds, folder: ten).  [default: 1; folder: 0.03]",
)
@click.option(
    "--per-kernel",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Count only the first N launches of each kernel and shape; later ones get the last counters.  [default: all]",
)
@budget_option
@click.option("--lines", is_flag=True, help="Attribute counters and time to source lines and loops.")
@click.option("--asm", is_flag=True, help="With --lines: also the instructions, each with what it costs.")
@click.option("--ttgir", is_flag=True, help="With --lines: also the TTGIR of Triton kernels, beside the lines' costs.")
@click.option("--grid", type=ShapeType(), help="Work-groups of each launch of kernels without main().")
@click.option("--block", type=ShapeType(), help="Work-items of a work-group of kernels without main().")
@click.option("--value", "values", multiple=True, metavar="NAME=N", help="An argument of kernels without main().")
@click.option("--kernel", "kernel_pattern", default="", metavar="NAME", help="Only kernels with this in their name.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the N kernels that take most time.")
@click.option(
    "--metric",
    "metric_patterns",
    multiple=True,
    metavar="PATTERN",
    help="Only metrics and counters that match, in tables and CSV. Repeatable.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print metrics and counters as CSV.")
@click.option("--html", type=NamedPath(dir_okay=False, path_type=Path), help="Also write the profile as one page.")
@click.option(
    "--autotune-cache",
    type=NamedPath(file_okay=False, path_type=Path),
    help="Read and add results of triton.autotune in this folder, as Triton's cache has them.",
)
@click.option("--what-if", is_flag=True, help="Say what removing each cause of time is worth at most.")
@click.option("--warm-l2", is_flag=True, help="Launches find in the L2 what earlier ones read, as without a profiler.")
@click.option("--exact", is_flag=True, help="Run every grid in full, and check the programs' results.")
@sandbox_option
@workers_option
@timeout_option
@json_option
def command(
    argv: tuple[str, ...],
    defines: tuple[str, ...],
    includes: tuple[str, ...],
    project: Path | None,
    out: Path | None,
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    flags: tuple[str, ...],
    sandboxed: bool,
    sample: str,
    effort: float | None,
    per_kernel: int,
    budget: float,
    lines: bool,
    **options: Unpack[MeasurementOptions],
) -> int:
    """Compile for each architecture and flag set, run, and count hardware events.

    PATH is one program: its source file, all its source files, or its folder with build files; the counters and
    metrics of its kernels are printed. Triton kernels of a Python script run on a virtual GPU. --out takes a folder.
    ARGS after `--` are passed to the program, which runs in the sandbox, in a copy of its folder.
    """
    from hipsynth.core.workers import check_engine
    from hipsynth.library.programs import locate_program
    from hipsynth.profiling.matrix.targets import select_targets
    from hipsynth.simulator.build import compile_limits

    check_engine(options["engine"])
    of_one = lines or options["what_if"] or bool(options["html"] or options["autotune_cache"])
    _check_choices(options["backend"], budget, per_kernel, of_one and out is not None, of_one, options["warm_l2"])
    options["timeout"] = time_within(budget, options["timeout"])
    _check_isolation(sandboxed, options["backend"])
    limits = replace(
        _choose_accuracy(sample, effort, out is not None, options),
        patient=out is None and not budget,
        per_kernel=per_kernel,
        budget_s=budget,
        lines=lines or options["html"] is not None,
        isolate=sandboxed,
    )
    paths, own_arguments = split_argv(argv)
    path = paths[0]
    _check_path(path, flags, defines, {"--project": project is not None}, options)
    if out is not None:
        if not path.is_dir() or own_arguments or len(paths) > 1 or project:
            remedy = f"put {path.name} into a folder, or drop --out"
            raise UsageError("--out needs a folder of programs, and nothing else", remedy=remedy)
        _check_folder_options(defines, includes, options)
        wanted, excluded = select_targets(archs, flags, devices)
        return profile_folder(path, out, wanted, excluded, _matrix_options(limits, options), options["as_json"])
    _check_program_options(options)
    note_no_level(() if project or path.is_dir() else flags)
    flags = tuple(with_defines(flag_text, defines) for flag_text in flags or ("-O3",))
    wanted, _ = select_targets(archs, flags, devices)
    try:
        program = locate_program(
            paths, own_arguments, wanted[0].arch, click.get_current_context().with_resource, includes=includes,
            project=project, limits=compile_limits(limits), flags=wanted[0].flags,
        )  # fmt: skip
    except BadInput as error:
        if error.reason not in (Reason.NO_PROGRAMS, Reason.SEVERAL_PROGRAMS):
            raise
        problem = f"{error.what} (a folder of programs for a corpus needs --out)"
        if error.reason == Reason.NO_PROGRAMS:
            raise BadInput(problem, cause=error.cause, remedy=error.remedy, reason=error.reason) from None
        raise UsageError(problem, cause=error.cause, remedy=error.remedy or "name the program's files") from None
    program = replace(program, environment=read_environment(options["environment"]))
    return _profile_program(program, wanted, flags, limits, lines, options)


def _choose_accuracy(sample: str, effort: float | None, many: bool, options: MeasurementOptions) -> RunLimits:
    """The limits for one program, or for a corpus, in which many labels count for more than the accuracy of each."""
    from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, SAMPLING_UNITS, RunLimits

    coarse = many and options["backend"] == "sim" and not options["exact"]
    return RunLimits(
        time_s=options["timeout"],
        sampling_units=parse_units(sample, options["exact"], effort, CORPUS_UNITS if coarse else SAMPLING_UNITS),
        effort=effort or (CORPUS_EFFORT if coarse else 1.0),
        largest_error=CORPUS_ERROR if coarse and effort is None else 0.0,
        warm_l2=options["warm_l2"],
        autotune_cache=options["autotune_cache"],
    )


def _check_isolation(sandboxed: bool, backend: str) -> None:
    from hipsynth.toolchain import sandbox

    if backend == "preview" or (sandboxed and backend == "sim"):  # previews run host code in the sandbox, always
        sandbox.require_sandbox()
    elif not sandboxed or backend == "rocprof":  # it has no sandbox: the profiler needs the device
        click.echo("warning: programs run with your rights on files and network; only limits hold", err=True)


def _check_path(
    path: Path, flags: Sequence[str], defines: Sequence[str], hip: dict[str, bool], options: MeasurementOptions
) -> None:
    if not path.exists():
        raise BadInput(f"{path}: no such file or folder", remedy="give a HIP source file or a folder of programs")
    check_script_options(path, "".join(flags), defines, {**hip, "--backend": options["backend"] != "sim"})
    prepare_file(options["html"])
    if options["autotune_cache"] and path.suffix != SUFFIXES[TRITON]:
        remedy = "drop it: HIP programs have no autotuner"
        raise UsageError("--autotune-cache is for Python scripts with Triton kernels", remedy=remedy)


def _matrix_options(limits: RunLimits, options: MeasurementOptions) -> MatrixOptions:
    from hipsynth.profiling.matrix.collect import MatrixOptions

    return MatrixOptions(
        options["backend"], options["engine"], options["workers"], limits, options["retry_failed"], options["repair"]
    )


def _check_folder_options(defines: Sequence[str], includes: Sequence[str], options: MeasurementOptions) -> None:
    """Raises UsageError for options that the measurement of a folder of programs would leave out."""
    if defines or includes:
        remedy = 'give macros as flags, --flags="-O3 -DN=64", and put headers beside the programs'
        raise UsageError("-D and -I are for one program", cause="--out measures a folder of programs", remedy=remedy)
    names = [name for key, name in OPTIONS_OF_ONE.items() if options[key]]  # type: ignore[literal-required]
    if options["counters"] is False:
        names.append("--no-counters")
    for name in names:
        problem = f"{name} is for one program"
        raise UsageError(problem, cause="--out stores all kernels of a folder of programs", remedy="drop one of them")


def _check_program_options(options: MeasurementOptions) -> None:
    """Raises UsageError for options that only the measurement of a folder of programs has a use for."""
    refuse_options(["--engine"], "needs --out", "drop it: one program is measured here")
    for key, name in OPTIONS_OF_MANY.items():
        if options[key]:  # type: ignore[literal-required]
            remedy = "name a folder of programs and its --out, or drop it"
            raise UsageError(f"{name} needs --out", cause="it is about what a corpus holds already", remedy=remedy)


def _check_choices(
    backend: str, budget: float, per_kernel: int, conflicts_with_out: bool, of_one: bool, warm_l2: bool
) -> None:
    """Raises UsageError for options that exclude each other."""
    if budget and per_kernel:
        raise UsageError("--budget excludes --per-kernel", remedy="drop --per-kernel: a budget decides what is counted")
    if warm_l2 and backend != "sim":
        raise UsageError("--warm-l2 needs the simulator", cause="a device's L2 is its own", remedy="drop one of them")
    if budget and backend != "sim":
        raise UsageError("--budget needs the simulator", cause="a device is not slower", remedy="drop one of them")
    if backend.partition(":")[0] in ("rocprof", "recorded"):
        refuse_options(SAMPLING_OPTIONS, "needs the simulator", "drop it: a device runs all grids in full")
    if backend == "preview":
        refuse_options(SAMPLING_OPTIONS, "needs an execution", "drop it: previews choose the work-groups themselves")
    if conflicts_with_out or (of_one and backend != "sim"):
        problem = "--lines, --html, --what-if and --autotune-cache are for one program on the simulator"
        raise UsageError(problem, remedy="drop them, or --out and --backend")


def _profile_program(
    project: Project,
    wanted: Sequence[Target],
    flags: Sequence[str],
    limits: RunLimits,
    lines: bool,
    options: MeasurementOptions,
) -> int:
    from hipsynth.library.profile import ProfileRequest, profile_project
    from hipsynth.library.targets import spell_flags
    from hipsynth.profiling.reports.describe import exit_code
    from hipsynth.profiling.reports.filters import check_metric_patterns
    from hipsynth.source.harness import HarnessChoices

    check_metric_patterns(options["metric_patterns"])
    if (options["asm"] or options["ttgir"]) and not lines:
        raise UsageError("--asm and --ttgir are for --lines", remedy="add --lines: they show what each line costs, too")
    if options["as_csv"] and (options["as_json"] or (lines and not options["html"])):
        raise UsageError("--csv excludes --json and --lines", remedy="give one of them; --json has source lines, too")
    choices = HarnessChoices(options["grid"], options["block"], parse_values(options["values"]))
    request = ProfileRequest(
        project,
        spell_flags(wanted, flags),
        limits,
        choices,
        options["backend"],
        options["workers"],
        options["kernel_pattern"],
        options["top"] or 0,
        options["what_if"],
    )
    with StatusLine(f"profiling {project.sources[0].path.name}") as status:
        keep = click.get_current_context().with_resource
        document = profile_project(request, keep, lambda line: status.print_above(f"note: {line}"))
    _print_profile(document, lines, options)
    results = document.measured
    _note_failures(results, limits, options)
    is_interrupted = any(result.reason == Reason.INTERRUPTED for result in results)
    return stop_signal.exit_code() if is_interrupted else exit_code(results)


def _print_profile(document: ExecutedProfile, lines: bool, options: MeasurementOptions) -> None:
    """Prints a profile as JSON, CSV or text, and writes its page."""
    from hipsynth.core.files import write_whole
    from hipsynth.profiling.backends.protocol import describe_target
    from hipsynth.profiling.reports.code_listing import assembly_listing, ttgir_listing
    from hipsynth.profiling.reports.filters import write_csv
    from hipsynth.profiling.reports.lines import lines_listing
    from hipsynth.profiling.reports.what_if import what_if_listing

    results = document.measured
    if options["html"] is not None:
        write_whole(options["html"], document.write_page())
    if options["as_json"]:
        print_json(document)
    elif options["as_csv"]:
        click.echo(write_csv(results, options["metric_patterns"]), nl=False)
    else:
        _print_text(results, options["counters"], options["metric_patterns"])
        if lines:
            click.echo("\n" + lines_listing(results, terminal_width()))
        if options["ttgir"]:
            click.echo("\n" + ttgir_listing(results))
        if options["asm"]:
            click.echo("\n" + assembly_listing(results))
        if options["what_if"]:
            click.echo("\n" + what_if_listing(results))
        for result in results if options["output"] else ():
            target = describe_target(result.arch, result.device, result.flags)
            click.echo(f"\n{target}: output of the program\n{result.stdout}".rstrip())


def _print_text(results: Sequence[TargetResult], counters: bool | None, patterns: Sequence[str]) -> None:
    """Everything; at a terminal a first screen, unless counters or metrics are asked for."""
    from hipsynth.profiling.reports.first_screen import render_screen
    from hipsynth.profiling.reports.terminal import render_results

    if counters is None and not patterns and sys.stdout.isatty():
        print_styled(render_screen(results, terminal_width(), style_text))
    else:
        click.echo(render_results(results, terminal_width(), counters, patterns))


def _note_failures(results: Sequence[TargetResult], limits: RunLimits, options: MeasurementOptions) -> None:
    """Says on stderr what of each target failed, was left out or is uncertain."""
    from hipsynth.profiling.reports.budget import budget_notes

    for line in budget_notes(results, limits.budget_s):
        click.echo(line, err=True)
    for result in results:
        target = f"{result.arch} {result.flags}".rstrip()
        if result.status != RunStatus.OK:
            kind = "partial" if result.status == RunStatus.PARTIAL else "error"
            click.echo(f"{kind}: {target}: {reason_text(result.reason, result.message)}", err=True)
            if remedy := _suggest_remedy(result, options):
                click.echo(f"  try:   {remedy}", err=True)
            continue
        if result.provenance.get("output_cut"):
            click.echo(f"note: {target}: its output was longer than is kept; the rest was dropped", err=True)
        if result.exit_code:
            click.echo(f"note: {target}: {_exit_note(result)}", err=True)


def _exit_note(result: TargetResult) -> str:
    """The note for a program that was measured but ended with a nonzero exit code."""
    text = f"the program ended with exit code {result.exit_code}"
    text += f": {result.message}" if result.message else ""
    if not result.spending and any(kernel.sampled for kernel in result.kernels):
        return f"{text}; of a large grid only a part ran, so its results are not computed (--exact runs all)"
    return text


def _suggest_remedy(failed: TargetResult, options: MeasurementOptions) -> str:
    """What may help, "" if that is not known."""
    if failed.reason == Reason.TIMEOUT:
        within = "no --exact" if options["exact"] else f"--budget {options['timeout']:g}s, which counts what fits"
        return f"more than --timeout {options['timeout']:g}, less to do by its arguments, or {within}"
    if failed.reason == Reason.BUDGET:
        limit = f"--timeout {options['timeout']:g}" if failed.kernels else "--budget"
        return f"more than {limit}, or smaller arguments (synth survey --shrink looks for them)"
    return missing_file_hint(failed.message) or failed.reason.remedy
