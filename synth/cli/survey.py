"""`synth survey`: which programs of a folder compile, run and pass their own checks here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from synth.cli.common import Progress, json_option, print_json, timeout_option, workers_option

EPILOG = """\b
Examples:
  synth survey examples
  synth survey examples --arch gfx942 --timeout 300 --out survey.json
  synth survey examples --match stencil --json

Programs are found by themselves: Makefiles are asked by a dry run in the sandbox, CMake files and
compile_commands.json are read, and what they do not name is tried file by file. Everything runs in the sandbox, in a
copy of its folder. With --out, run the same command again to go on after an interruption.
Exit codes: 0 ok (whatever the programs did), 2 usage, 3 bad input, 4 toolchain missing.
"""


@click.command(epilog=EPILOG)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--arch", default="gfx90a", show_default=True, help="gfx90a or gfx942.")
@click.option("--out", type=click.Path(path_type=Path), help="JSON report; finished programs in it are not run again.")
@click.option("--match", default="", help="Only programs whose path holds this text.")
@click.option(
    "--count/--no-count", default=True, show_default=True, help="Simulate caches; off is faster, results are the same."
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0.1),
    default=8.0,
    show_default=True,
    help="GiB of memory that a program may touch.",
)
@workers_option
@timeout_option
@json_option
def command(folder: Path, out: Path | None, as_json: bool, **options: Any) -> int:
    """Find, compile and run every HIP program below FOLDER, and say what became of each.

    Per program: passed (its own check says so), ran (it ended well and checks nothing), or failed with a reason.
    """
    from profiling.survey import Options, survey
    from profiling.survey.report import table

    bars: list[Progress] = []

    def start(total: int) -> Any:
        bars.append(Progress("survey", total))
        return bars[-1].step

    wanted = Options(
        options["arch"],
        options["timeout"],
        options["workers"],
        options["count"],
        options["match"],
        int(options["memory"] * 2**30),
    )
    try:
        report = survey(folder, wanted, out, start)
    finally:
        for bar in bars:
            bar.close()
    if as_json:
        print_json(report.document())
    else:
        click.echo(table(report))
    return 0
