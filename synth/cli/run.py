"""`synth run`: an unmodified HIP program on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from hipsynth.synth.cli.common import FiniteRange, json_option, print_json, timeout_option
from hipsynth.synth.cli.programs import ProgramCommand, hint, locate, source_options, split, with_defines
from hipsynth.synth.core.errors import BadInput, CompileFailed

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

With --sandbox it has no network, sees only the system's libraries and an empty folder, may start no process, and its
time, memory, files and output are limited; where bubblewrap does not work, it is not started at all (exit code 4).

Without --sandbox the program has this terminal, this folder and your rights, as any program you start.

Accesses outside every array stop a program, unless hardware would let them pass because its allocator maps the memory
around small arrays too: those are warnings on stderr, and errors under --strict.

The exit code is the program's own. Failures of the simulator (an illegal access, a trap, a limit) and compile errors
exit with 3, and say what happened on stderr.
"""


CONFINED = "no network, no file but those of the system and of its own empty folder, and could write only there"


@click.command(cls=ProgramCommand, epilog=EPILOG)
@click.argument("words", nargs=-1, required=True, metavar="PATH... [-- ARGS...]")
@click.option("--arch", default="gfx90a", show_default=True, help="gfx90a or gfx942.")
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@source_options
@click.option("--device", default="", help="Architecture table, e.g. mi210.  [default: the architecture's]")
@click.option("--sandbox", is_flag=True, help="No network, read-only files, limits on everything; output at the end.")
@click.option(
    "--memory", type=FiniteRange(min=0.01), default=8.0, show_default=True, help="GiB of memory that it may touch."
)
@click.option(
    "--count/--no-count", default=True, show_default=True, help="Simulate caches; off is faster, times are rough."
)
@click.option("--strict", is_flag=True, help="Stop at accesses outside arrays even where hardware maps that memory.")
@timeout_option
@json_option
def command(words: tuple[str, ...], as_json: bool, **options: Any) -> int:
    """Compile a HIP program, execute its kernels' machine code on the CPU, and pass its output through.

    PATH is its source file, all its source files, or a folder that holds one program with its build files.
    ARGS after `--` are the program's own.
    """
    from hipsynth.profiling import sandbox

    paths, args = split(words)
    options["flags"] = with_defines(options["flags"], options.pop("defines"))

    if options["sandbox"]:
        sandbox.require()
    with tempfile.TemporaryDirectory(prefix="hipsynth-") as scratch:
        done = run_files(
            paths, args, Path(scratch), captured=as_json or options["sandbox"], counters=as_json, **options
        )
    if as_json:
        from hipsynth.profiling.reports.documents import run_document

        print_json({"path": str(paths[0]), "arch": options["arch"], "flags": options["flags"], **run_document(done)})
    elif options["sandbox"]:
        click.echo(done.stdout, nl=False)
        click.echo(done.stderr, nl=False, err=True)
    if done.status != "ok":
        if not as_json:
            click.echo(f"error: {done.reason}: {done.message}", err=True)
            if done.reason == "timeout":
                click.echo(
                    f"  try:   more than --timeout {options['timeout']:g}, or less to do by its arguments", err=True
                )
        return BadInput.exit_code
    if options["sandbox"] and done.exit_code:
        click.echo(f"note: it ended with exit code {done.exit_code} where it had {CONFINED}", err=True)
    return done.exit_code or 0


def run_files(
    paths: Sequence[Path], args: tuple[str, ...], scratch: Path, *, captured: bool, counters: bool, **options: Any
) -> Any:
    """Compiles and runs a program; returns profiling.sim.api.RunResult. Raises BadInput, UsageError, Missing."""
    from hipsynth.profiling import devices
    from hipsynth.profiling.backends.sim import build_place
    from hipsynth.profiling.sim import api
    from hipsynth.profiling.sim.limits import Limits

    device = devices.device_of(options["arch"], options["device"])
    place = locate(paths, args, options["arch"], includes=options["includes"], project=options["project"])
    try:
        artefacts = build_place(place, options["arch"], options["flags"], scratch / "build")
    except CompileFailed as error:
        error.remedy = error.remedy or hint(error.diagnostics)
        raise
    folder = scratch / "run"
    folder.mkdir()
    memory = int(options["memory"] * 2**30)
    limits = Limits(options["timeout"], memory_bytes=memory, stretches=0, strict_bounds=options["strict"])
    run = api.run_program if captured else api.run_attached
    return run(artefacts, device, folder, limits, args, count=options["count"], counters=counters)
