"""`synth compare`: what differs between two programs, profiles, revisions, flag sets or devices."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import click

from hipsynth.cli.exit_codes import SLOWER_EXIT
from hipsynth.cli.options import (
    ARCHS,
    NamedPath,
    TargetNameType,
    device_option,
    json_option,
    sandbox_option,
    timeout_option,
    workers_option,
)
from hipsynth.cli.output import prepare_file, print_json, print_note
from hipsynth.cli.programs import ProgramCommand, check_script_options, note_no_level, source_options, split_argv
from hipsynth.core.errors import UsageError
from hipsynth.library.arguments import with_defines
from hipsynth.simulator.devices import DEFAULT_ARCH

EPILOG = """\b
Examples:
  synth compare naive.hip tiled.hip
  synth compare before.json after.json               # documents of `synth profile --json`
  synth compare HEAD~1:kernel.hip kernel.hip --fail-if-slower 5% --junit slower.xml
  synth compare kernel.hip --flags=-O3 --flags="-O3 -ffast-math"
  synth compare kernel.hip --device mi300x --device mi250x --html compared.html
  synth compare a.hip b.hip --arch gfx90a --lines -- 4096   # which source lines became cheaper
  synth compare HEAD:softmax.py softmax.py           # Python scripts with Triton kernels
  synth compare softmax.hip softmax.py               # one kernel in HIP and in Triton

A and B are HIP files, program folders, Python scripts, profile documents (FILE.json) or git revisions of a file
(REV:FILE, with the headers that it includes in quotes). --arch, --device and --flags given twice are A's and B's; once,
both's.

Kernels are paired by name, launch shape and, of Triton kernels, block sizes and compile options, then by name, then by
order; those without a counterpart are listed. Source lines are paired as a diff pairs them, those of a
profile document by number.

Exit codes: 0 ok, 2 usage, 3 bad input, 4 toolchain missing, 6 slower than --fail-if-slower allows.
"""


class Percentage(click.ParamType[float]):
    """A number of per cent: `5%` or `5`."""

    name = "percentage"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number before the percent sign: `5%`, `5 %` and `5` are 5.0. Refuses what is no percentage."""
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,6}(?:\.\d+)?) ?%?", str(value).strip())
        if not match:
            self.fail(f"{value!r} is no percentage: give one such as 5% or 2.5%.", param, ctx)
        return float(match[1])


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("argv", nargs=-1, required=True, metavar="A [B] [-- ARGS...]")
@source_options
@click.option(
    "--arch",
    "archs",
    type=TargetNameType(),
    multiple=True,
    show_default=DEFAULT_ARCH,
    help=f"{ARCHS}; twice: A's and B's.",
)
@device_option
@click.option("--flags", multiple=True, show_default="-O3", help="Compiler flags, quoted; twice: A's and B's.")
@click.option("--exact", is_flag=True, help="Run every grid in full.")
@click.option("--counters", is_flag=True, help="List all counters that changed.")
@click.option("--lines", is_flag=True, help="Compare the time of source lines, too.")
@click.option("--html", type=NamedPath(dir_okay=False, path_type=Path), help="Also write the comparison as a page.")
@click.option(
    "--junit", type=NamedPath(dir_okay=False, path_type=Path), help="Also write a JUnit report: a test case per kernel."
)
@click.option(
    "--sarif", type=NamedPath(dir_okay=False, path_type=Path), help="Also write what is slower than allowed as SARIF."
)
@click.option(
    "--fail-if-slower",
    "slower_limit",
    type=Percentage(),
    metavar="5%",
    help="Exit with 6 if a kernel of B, or all together, take longer than A's by more than this.",
)
@sandbox_option
@workers_option
@timeout_option
@json_option
def command(
    argv: tuple[str, ...],
    defines: tuple[str, ...],
    includes: tuple[str, ...],
    project: Path | None,
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    flags: tuple[str, ...],
    exact: bool,
    counters: bool,
    lines: bool,
    html: Path | None,
    junit: Path | None,
    sarif: Path | None,
    slower_limit: float | None,
    sandboxed: bool,
    workers: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Compare the kernels of A and B: durations with their uncertainty, why they changed, metrics and counters.

    ARGS after `--` are passed to both programs, which run in the sandbox. Without B, A is compared with itself under
    two architectures, devices or flag sets.
    """
    from hipsynth.core.files import write_whole
    from hipsynth.library.compare import ComparedRequest, choose_reader, choose_target, profile_side
    from hipsynth.profiling.compare.ci_reports import junit_report, sarif_report
    from hipsynth.profiling.compare.differ import compare_profiles
    from hipsynth.profiling.compare.page import comparison_page
    from hipsynth.profiling.compare.text import comparison_lines
    from hipsynth.simulator.limits import SAMPLING_UNITS, RunLimits

    first, second, arguments = _two_sides(argv, max(map(len, (archs, devices, flags))))
    if project is not None:
        raise UsageError("--project is for one program", remedy="give the folders of the two programs as A and B")
    for side in (first, second) if first.endswith(".py") and second.endswith(".py") else ():
        check_script_options(Path(side), "".join(flags), defines, {"-I": bool(includes)})
    _require_sandbox(sandboxed)
    for path in (html, junit, sarif):
        prepare_file(path)
    limits = RunLimits(
        time_s=timeout, sampling_units=0 if exact else SAMPLING_UNITS, patient=True, lines=lines, isolate=sandboxed
    )
    note_no_level(() if any(map(os.path.isdir, (first, second))) else flags)
    own_flags = tuple(with_defines(text, defines) for text in flags or ("-O3",))
    targets = [choose_target(number, archs, devices, own_flags) for number in (0, 1)]
    request = ComparedRequest(arguments, includes, limits, workers, lambda line: click.echo(f"note: {line}", err=True))
    profiles = []
    for side, wanted in zip((first, second), targets, strict=True):
        print_note(f"profiling {side} ...")
        profiles.append(profile_side(side, wanted, request, click.get_current_context().with_resource))
    readers = choose_reader(first), choose_reader(second)
    document = compare_profiles(profiles[0], profiles[1], (first, second), slower_limit, readers)
    if html is not None:
        write_whole(html, comparison_page(document))
    if junit is not None:
        write_whole(junit, junit_report(document))
    if sarif is not None:
        write_whole(sarif, sarif_report(document))
    if as_json:
        print_json(document)
    else:
        click.echo("\n".join(comparison_lines(document, counters)))
    for line in document.slower:
        click.echo(f"slower than allowed: {line}", err=True)
    return SLOWER_EXIT if document.slower else 0


def _require_sandbox(sandboxed: bool) -> None:
    """Raises MissingDependency without a sandbox, unless the user wants none: then a warning."""
    from hipsynth.toolchain import sandbox

    if sandboxed:
        sandbox.require_sandbox()
    else:
        click.echo("warning: programs run with your rights on files and network; only limits hold", err=True)


def _two_sides(argv: Sequence[str], variants: int) -> tuple[str, str, tuple[str, ...]]:
    """(A, B, arguments of both programs)."""
    if variants > 2:
        raise UsageError("more than two targets", remedy="give --arch, --device and --flags at most twice")
    sides = list(argv)
    _, arguments = split_argv([sides[0]])
    if not all(sides):
        raise UsageError("A or B is empty", remedy="give files, folders, profile documents or REV:FILE")
    if len(sides) > 2:
        problem = f"three things to compare: {sides[2]}"
        raise UsageError(problem, remedy="put the programs' arguments after --, and several files into a folder")
    if len(sides) == 1 and variants < 2:
        raise UsageError("nothing to compare it with", remedy="give B, or --flags, --device or --arch twice")
    return sides[0], sides[-1], arguments
