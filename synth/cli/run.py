"""`synth run`: an unmodified HIP program on the CPU."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.synth.cli.common import print_json
from hipsynth.synth.cli.options import (
    caches_option,
    json_option,
    memory_option,
    one_arch_option,
    one_device_option,
    sandbox_option,
    timeout_option,
)
from hipsynth.synth.cli.programs import ProgramCommand, hint, locate, source_options, split, with_defines
from hipsynth.synth.core.errors import BadInput, CompileFailed

if TYPE_CHECKING:
    from hipsynth.profiling.sim.api import Artefacts
    from hipsynth.profiling.toolchain import CompileLimits
    from hipsynth.synth.core.program import Project

EPILOG = """\b
Examples:
  synth run saxpy.hip
  synth run saxpy.hip --arch gfx942 --flags "-O3 -ffast-math" -- 1024 --verbose
  synth run main.cpp kernels.cpp -Iinclude -DN=64 -- input.txt
  synth run heat/                          # as its Makefile or CMake file builds it
  synth run heat/src/main.cpp --project heat
  synth run untrusted.hip --sandbox --timeout 10
  synth run mine.hip --strict
  synth run saxpy.hip --json

With --sandbox, the program has no network, sees only the system's libraries and an empty folder, and cannot start
processes; its time, memory, files and output are limited. If bubblewrap does not work, it is not started (exit code 4).

Without --sandbox, the program uses this terminal and this folder with your rights, like any program you start.

An out-of-bounds access stops the program, unless it is in memory that hardware maps around small arrays as well: then
it is a warning on stderr, or an error with --strict.

The exit code is that of the program. Compile errors, illegal accesses, traps and exceeded limits exit with 3 and a
message on stderr.
"""


CONFINED = "no network, no file but those of the system and of its own empty folder, and could write only there"


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("argv", nargs=-1, required=True, metavar="PATH... [-- ARGS...]")
@one_arch_option
@one_device_option
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@source_options
@sandbox_option(False)
@memory_option
@caches_option
@click.option("--strict", is_flag=True, help="Stop at accesses outside arrays even where hardware maps that memory.")
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
    sandboxed: bool,
    memory: float,
    caches: bool,
    strict: bool,
    timeout: float,
    as_json: bool,
) -> int:
    """Compile a HIP program, execute its kernels' machine code on the CPU, and pass its output through.

    PATH is its source file, all its source files, or its folder with build files.
    ARGS after `--` are passed to the program.
    """
    from hipsynth.profiling import devices, sandbox
    from hipsynth.profiling.sim import api
    from hipsynth.profiling.sim.build import compile_limits
    from hipsynth.profiling.sim.limits import Limits

    paths, args = split(argv)
    flags = with_defines(flags, defines)
    if sandboxed:
        sandbox.require()
    table = devices.device_of(arch, device)
    limits = Limits(
        timeout, memory_bytes=int(memory * 2**30), sampling_units=0, strict_bounds=strict, isolate=sandboxed
    )
    compiling = compile_limits(limits)
    found = locate(paths, args, arch, includes=includes, project=project, limits=compiling)
    run = api.run_program if as_json or sandboxed else api.run_attached
    with tempfile.TemporaryDirectory(prefix="hipsynth-") as scratch:
        folder = Path(scratch) / "run"
        artefacts = compiled(found, arch, flags, Path(scratch) / "build", compiling)
        folder.mkdir()
        done = run(artefacts, table, folder, limits, args, count=caches, counters=as_json)
    if as_json:
        from hipsynth.profiling.reports.documents import run_document

        print_json({"path": str(paths[0]), "arch": arch, "flags": flags, **run_document(done)})
    elif sandboxed:
        click.echo(done.stdout, nl=False)
        click.echo(done.stderr, nl=False, err=True)
    if done.status != "ok":
        if not as_json:
            click.echo(f"error: {done.reason}: {done.message}", err=True)
            if done.reason == "timeout":
                click.echo(f"  try:   more than --timeout {timeout:g}, or less to do by its arguments", err=True)
        return BadInput.exit_code
    if sandboxed and done.exit_code:
        click.echo(f"note: it ended with exit code {done.exit_code} where it had {CONFINED}", err=True)
    return done.exit_code or 0


def compiled(found: Project, arch: str, flags: str, folder: Path, limits: CompileLimits) -> Artefacts:
    """Compiles the program in `folder`; a CompileFailed error includes a suggestion."""
    from hipsynth.profiling.sim.build import build_project

    try:
        return build_project(found, arch, flags, folder, limits)
    except CompileFailed as error:
        error.remedy = error.remedy or hint(error.diagnostics)
        raise
