"""`synth run`: an unmodified HIP program, or a script with Triton kernels, on the CPU."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import (
    NamedPath,
    caches_option,
    json_option,
    memory_option,
    one_target_options,
    sandbox_option,
    timeout_option,
)
from hipsynth.cli.output import print_json, reason_text
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
from hipsynth.cli.terminal import output_forwarder
from hipsynth.core.errors import BadInput, CompileFailed, PartialFailure, UsageError
from hipsynth.core.folders import changed_files, copy_out, stamp_files
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.library.arguments import with_defines

if TYPE_CHECKING:
    from hipsynth.core.program import Project
    from hipsynth.simulator.api import Artefacts, RunResult
    from hipsynth.simulator.devices import DeviceTable
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.simulator.observation import Observation
    from hipsynth.toolchain import CompileLimits

EPILOG = """\b
Examples:
  synth run saxpy.hip
  synth run saxpy.hip --arch gfx942 --flags "-O3 -ffast-math" -- 1024 --verbose
  synth run main.cpp kernels.cpp -Iinclude -DN=64 -- input.txt
  synth run heat/                          # as its Makefile or CMake file builds it
  synth run heat/src/main.cpp --project heat
  synth run attention.py --arch gfx942 -- --heads 8    # a Python script with Triton kernels
  synth run untrusted.hip --timeout 10
  synth run fluid/ --keep results          # copies what it writes into a new folder
  synth run mine.hip --no-sandbox
  synth run mine.hip --strict
  synth run mine.hip --races               # also looks for missing barriers, atomics and fences
  synth run mine.hip --late oldest         # shows where it does not wait for copies or streams
  synth run saxpy.hip --json

The program runs in a sandbox, in a copy of its folder: it has no network, sees only the system's libraries, that copy
and the files that ARGS name (read-only), and cannot start processes; its time, memory, files and output are limited.
Standard input is passed on if it is a pipe or a file. If bubblewrap does not work, nothing is started (exit code 4).

With --no-sandbox, the program uses this terminal and this folder with your rights, like any program you start.

An out-of-bounds access stops the program, unless it is in memory that hardware maps around small arrays as well: then
it goes on, as on hardware, with a warning on stderr. With --strict this is an error, too, as it is for synth profile:
counters would be of memory that is not the program's.

With --races, standard error names, for each kernel, the first word of memory or LDS that two waves use without an
order, one of them to write. A program that ends with 0 then exits with 5.

With --late, launches, copies and fills are executed no earlier than the program waits for them, and of streams that do
not wait for each other, those of the oldest (or youngest) first. Without, they are executed in the order of their
calls. A program that waits where it has to does the same every time.

The exit code is that of the program. Compile errors, illegal accesses, traps and exceeded limits exit with 3 and a
message on stderr.
"""


CONFINED = "in a sandbox: no network, only a copy of its own folder, and at most 1 GiB written"
OUTPUT_BYTES = 4 << 20  # kept for --json; a program that prints 64 times as much is stopped
LISTED = 8


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("argv", nargs=-1, required=True, metavar="PATH... [-- ARGS...]")
@one_target_options
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@source_options
@environment_option
@sandbox_option
@click.option(
    "--keep", type=NamedPath(file_okay=False, path_type=Path), help="New folder for a copy of the files it writes."
)
@memory_option
@caches_option
@click.option("--strict", is_flag=True, help="Stop at accesses outside arrays even where hardware maps that memory.")
@click.option("--races", is_flag=True, help="Look for accesses to one word that nothing puts in order.")
@click.option(
    "--late",
    type=click.Choice(["oldest", "youngest"]),
    help="Defer work until the program waits for it; this stream's first, where none waits for another.",
)
@timeout_option
@json_option
def command(
    argv: tuple[str, ...],
    arch: str,
    device: str,
    flags: str,
    defines: tuple[str, ...],
    includes: tuple[str, ...],
    project: Path | None,
    environment: tuple[str, ...],
    sandboxed: bool,
    keep: Path | None,
    memory: float,
    caches: bool,
    strict: bool,
    races: bool,
    late: str | None,
    timeout: float,
    as_json: bool,
) -> int:
    """Compile a HIP program, execute its kernels' machine code on the CPU, and pass its output through.

    PATH is its source file, all its source files, or its folder with build files; or a Python script, whose Triton
    kernels run on a virtual GPU (docs/how-to/triton.md).
    ARGS after `--` are passed to the program.
    """
    from hipsynth.library.programs import locate_program
    from hipsynth.profiling.lines.fault_line import add_fault_line
    from hipsynth.simulator import api, devices
    from hipsynth.simulator.build import compile_limits
    from hipsynth.simulator.limits import RunLimits
    from hipsynth.simulator.observation import Deferral, Observation
    from hipsynth.toolchain import sandbox

    paths, args = split_argv(argv)
    hip_only = {"--project": project is not None, "--late": late is not None}
    check_script_options(paths[0], flags.removeprefix("-O3"), defines, hip_only)
    note_no_level(() if project or paths[0].is_dir() else (flags,))
    flags = with_defines(flags, defines)
    _check_keep(keep, sandboxed)
    if sandboxed:
        sandbox.require_sandbox()
    table = devices.device_of(arch, device)
    limits = RunLimits(
        timeout, memory_bytes=int(memory * 2**30), output_bytes=OUTPUT_BYTES, sampling_units=0, strict_bounds=strict,
        isolate=sandboxed, counters=as_json, reuse=not races,
        caches=caches or races,  # only counted launches are looked at
    )  # fmt: skip
    deferral = Deferral[f"{late.upper()}_STREAM_FIRST"] if late else Deferral.NONE
    observation = Observation(races=races, deferral=deferral, outputs=False) if races or late else None
    hold, compiling = click.get_current_context().with_resource, compile_limits(limits)
    program = locate_program(paths, args, arch, hold, includes=includes, project=project, limits=compiling, flags=flags)
    program = replace(program, environment=read_environment(environment))
    created_files: list[str] = []
    omitted: list[str] = []
    with scratch_folder() as scratch, sandbox.job_folder() as job:
        artefacts = compile_program(program, arch, flags, scratch / "build", compiling)
        folder = job / "run"
        if sandboxed or as_json:
            result, created_files = _in_copy(program, artefacts, table, folder, limits, observation)
            omitted = copy_out(folder, created_files, keep) if keep else []
        else:
            folder.mkdir()
            result = api.run_attached(artefacts, table, folder, limits, args, observation=observation)
    result = add_fault_line(result, program, arch, flags, compiling)
    if as_json:
        _print_document(result, str(paths[0]), arch, flags, created_files)
    failures = [] if as_json else _failure_notes(result, sandboxed, timeout)
    for line in (*_file_notes(created_files, omitted, keep), *failures):
        click.echo(line, err=True)
    return _choose_exit_code(result)


def _print_document(result: RunResult, path: str, arch: str, flags: str, created_files: list[str]) -> None:
    from hipsynth.profiling.reports.describe import run_document

    print_json(run_document(result, path, arch, flags, created_files))
    if result.output_cut:
        click.echo(f"note: its output was cut after {OUTPUT_BYTES >> 20} MiB", err=True)


def _choose_exit_code(result: RunResult) -> int:
    if result.status != RunStatus.OK:
        return BadInput.exit_code
    return result.exit_code or (PartialFailure.exit_code if result.races or result.unfenced else 0)


def _check_keep(keep: Path | None, sandboxed: bool) -> None:
    """Raises UsageError for a --keep that is pointless, or that could replace the user's files."""
    if keep is None:
        return
    if not sandboxed:
        raise UsageError("--keep is for the sandbox", remedy="drop it: with --no-sandbox, files are written here")
    if keep.is_symlink() or (keep.is_dir() and any(keep.iterdir())):
        raise UsageError(f"--keep {keep}: is not empty", remedy="name a new folder: a program chooses its files' names")


def _in_copy(
    project: Project,
    artefacts: Artefacts,
    table: DeviceTable,
    folder: Path,
    limits: RunLimits,
    observation: Observation | None,
) -> tuple[RunResult, list[str]]:
    """Runs the program in a copy of its folder, passing its output on unless JSON is wanted; with the files it made."""
    from hipsynth.simulator import api
    from hipsynth.simulator.run_folder import place_program
    from hipsynth.simulator.scripts.compiled_kernels import reuse_compiled

    placed = place_program(project, project.sources[0].path.stem, artefacts, folder)
    before = stamp_files(folder)
    if limits.counters:
        streams = api.ProgramStreams(standard_input())
    else:
        streams = api.ProgramStreams(standard_input(), output_forwarder(), sys.stdout.isatty())
    with reuse_compiled(project, placed.artefacts, folder) as runnable:
        result = api.run_program(
            runnable,
            table,
            folder,
            limits,
            placed.arguments,
            mounts=placed.mounts,
            streams=streams,
            observation=observation,
        )
    return result, changed_files(folder, before)


def standard_input() -> int | None:
    """A descriptor of the file or pipe on standard input; None for a terminal, anything else, or one open for writing.

    The descriptor itself, not its path: a file that a shell has read the first lines of continues there.
    """
    try:
        mode = os.fstat(0).st_mode
        read_only = fcntl.fcntl(0, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    except OSError:
        return None
    return 0 if read_only and (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)) else None


def _file_notes(created_files: list[str], omitted: list[str], keep: Path | None) -> Iterator[str]:
    """A note about the files that the program wrote in the sandbox."""
    if created_files and keep is None:
        more = f" and {len(created_files) - LISTED} more" if len(created_files) > LISTED else ""
        names = ", ".join(created_files[:LISTED])
        ways = "--keep FOLDER copies them out, --no-sandbox lets it write here"
        yield f"note: it wrote into a copy of its folder, which is deleted: {names}{more} ({ways})"
    elif created_files:
        yield f"note: {len(created_files) - len(omitted)} of {len(created_files)} files that it wrote are in {keep}"


def _failure_notes(result: RunResult, sandboxed: bool, timeout: float) -> Iterator[str]:
    """How the program failed, if it did, and its races."""
    for text in (*result.races, *result.unfenced):
        yield f"race: {text}"
    if result.status != RunStatus.OK:
        yield f"error: {reason_text(result.reason, result.message)}"
        remedy = result.reason.remedy
        if result.reason == Reason.TIMEOUT:
            remedy = f"more than --timeout {timeout:g}, or less to do by its arguments"
        if remedy:
            yield f"  try:   {remedy}"
        return
    if result.warned_at is not None:
        line = f" ({result.warned_at.line})" if result.warned_at.line else ""
        yield f"note: --strict stops at the access outside its arrays{line}, as synth profile does, with exit code 3"
    if sandboxed and result.exit_code:
        yield f"note: the program returned {result.exit_code} ({CONFINED})"


def compile_program(project: Project, arch: str, flags: str, folder: Path, limits: CompileLimits) -> Artefacts:
    """Compiles the program in `folder`; a CompileFailed error includes a suggestion."""
    from hipsynth.simulator.build import build_project

    try:
        return build_project(project, arch, flags, folder, limits)
    except CompileFailed as error:
        error.remedy = error.remedy or missing_file_hint(error.diagnostics) or error.reason.remedy
        raise
