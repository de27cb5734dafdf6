"""`synth survey`: which programs of a folder compile, run and pass their own checks here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hipsynth.synth.cli.common import FiniteRange, Progress, json_option, print_json, timeout_option, workers_option

EPILOG = """\b
Examples:
  synth survey examples
  synth survey examples --arch gfx942 --timeout 300 --out survey.json
  synth survey examples --match stencil --json
  synth survey first second --arch gfx90a --arch gfx942 --out reports --page programs.md

Programs are found by themselves: Makefiles are asked by a dry run in the sandbox, CMake files and
compile_commands.json are read, and what they do not name is tried file by file. Everything runs in the sandbox, in a
copy of its folder.

With --out, run the same command again to go on after an interruption.

Exit codes: 0 ok (whatever the programs did), 2 usage, 3 bad input, 4 toolchain missing.
"""


@click.command(epilog=EPILOG)
@click.argument("folders", nargs=-1, required=True, type=click.Path(readable=False, path_type=Path))
@click.option("--arch", multiple=True, default=["gfx90a"], show_default=True, help="gfx90a or gfx942; may be repeated.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="JSON report, or a folder for several; finished programs in it are not run again.",
)
@click.option(
    "--page", type=click.Path(path_type=Path), help="Markdown page whose generated section becomes the result."
)
@click.option("--match", default="", help="Only programs whose path holds this text.")
@click.option(
    "--count/--no-count", default=True, show_default=True, help="Simulate caches; off is faster, results are the same."
)
@click.option(
    "--memory",
    type=FiniteRange(min=0.1),
    default=8.0,
    show_default=True,
    help="GiB of memory that a program may touch.",
)
@click.option(
    "--isolate/--no-isolate",
    default=True,
    help="Refuse to run anything where programs cannot be isolated (the default), or run them with limits only.",
)
@workers_option
@timeout_option
@json_option
def command(folders: tuple[Path, ...], page: Path | None, as_json: bool, **options: Any) -> int:
    """Find, compile and run every HIP program below each of FOLDERS, and say what became of it.

    Per program: passed (its own check says so), ran (it ended well and checks nothing), or failed with a reason.
    """
    from hipsynth.profiling import sandbox
    from hipsynth.profiling.survey.page import update
    from hipsynth.profiling.survey.report import table

    if options["isolate"]:
        sandbox.require()
    elif not sandbox.available():
        click.echo("warning: programs run with your rights on files and network; only limits hold", err=True)
    reports: list[Any] = []
    for report in _surveys(folders, options):
        reports.append(report)
        if page:  # also after the last but one: a survey of many folders may be interrupted
            update(page, reports)
    if as_json:
        documents = [report.document() for report in reports]
        print_json(documents[0] if len(documents) == 1 else {"surveys": documents})
    else:
        click.echo("\n\n".join(f"{_heading(report, len(reports))}{table(report)}" for report in reports))
    return 0


def _heading(report: Any, reports: int) -> str:
    return f"{report.folder} on {report.arch}\n" if reports > 1 else ""


def _surveys(folders: tuple[Path, ...], options: dict[str, Any]) -> Iterator[Any]:
    """One survey after the other, as a Report."""
    from hipsynth.profiling.survey import Options, survey

    jobs = [(folder, arch) for arch in dict.fromkeys(options["arch"]) for folder in dict.fromkeys(folders)]
    for folder, arch in jobs:
        wanted = Options(
            arch,
            options["timeout"],
            options["workers"],
            options["count"],
            options["match"],
            int(options["memory"] * 2**30),
        )
        out = options["out"]
        if out and len(jobs) > 1:
            out = out / f"{'-'.join(folder.parts[-3:]).strip('-/.')}-{arch}.json"
        bars: list[Progress] = []

        def start(total: int, bars: list[Progress] = bars, what: str = f"{folder.name} {arch}") -> Any:
            bars.append(Progress(what, total))
            return bars[-1].step

        try:
            yield survey(folder, wanted, out, start)
        finally:
            for bar in bars:
                bar.close()
