"""`synth augment`: renamed and flattened copies of programs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, engine_option, json_option, sandbox_option, timeout_of, workers_option
from hipsynth.cli.output import Progress, count_text, print_json
from hipsynth.cli.programs import source_options
from hipsynth.core.errors import BadInput, PartialFailure, UsageError

COMMENTS, STRINGS = ("keep", "rewrite", "drop"), ("keep", "rewrite")
KINDS = ("comments", "layout", "launch", "order", "loops", "constants", "rename")  # passes, in this order

if TYPE_CHECKING:
    from hipsynth.synth.frontend.augment import AugmentSummary


@click.command(
    epilog="""\b
Examples:
  synth augment programs --copies 3
  synth augment programs --copies 1 --seed 7 --out varied --json
  synth augment my_program/ --out flat --copies 0     # several files into one, nothing renamed
  synth augment examples --out examples-flat          # with Makefiles or CMake files: as those build them
  synth augment examples/saxpy/main.hip --project examples -D N=1024
  synth augment kernel.hip --copies 5 --out variants
  synth augment programs --kinds rename,layout,launch,loops --copies 2
"""
)
@source_options
@click.argument("path", type=NamedPath(readable=False, path_type=Path))
@click.option("--copies", type=click.IntRange(min=0), default=1, show_default=True, help="Renamed copies per program.")
@click.option(
    "--out", type=NamedPath(file_okay=False, path_type=Path), help="Folder to write.  [default: PATH-augmented]"
)
@click.option(
    "--comments",
    type=click.Choice(COMMENTS),
    default="rewrite",
    show_default=True,
    help="Old names in comments: left, replaced by the new ones, or all comments removed.",
)
@click.option(
    "--strings",
    type=click.Choice(STRINGS),
    default="keep",
    show_default=True,
    help="Old names in string literals: left, or replaced, which changes what copies print but no device code.",
)
@click.option(
    "--kinds",
    default="rename",
    show_default=True,
    metavar="KIND,...",
    help=f"What differs in a copy: {', '.join(KINDS)}, or all. Kinds other than rename keep the machine code, which is "
    "compiled and compared; a change that does not is left out.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same bytes.")
@sandbox_option
@engine_option
@workers_option
@timeout_of("Seconds per program and copy.")
@json_option
def command(
    path: Path,
    copies: int,
    out: Path | None,
    includes: tuple[str, ...],
    defines: tuple[str, ...],
    project: Path | None,
    comments: str,
    strings: str,
    kinds: str,
    seed: int,
    sandboxed: bool,
    engine: str,
    workers: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Rename and flatten programs; copies keep the lineage.

    PATH is a folder of programs, a folder with the files of one program, or one HIP file. Programs with several files
    become one self-contained file. In a folder with build files (make, CMake, compile commands, scripts), each program
    is read as they build it; its macros become lines of the file, which compiles without them. The copies compile to
    identical machine code. Failures are counted by reason and written to OUT/failures.jsonl, names that stay to
    OUT/kept.jsonl. After an interruption, run the same command again to continue.
    """
    from hipsynth.cli.base_programs import find_bases
    from hipsynth.source.config import frontend_config
    from hipsynth.synth.frontend.augment import augment_programs
    from hipsynth.synth.frontend.comments_and_strings import Texts
    from hipsynth.synth.frontend.sandboxed_copies import CopyRecipe

    folders = tuple(_existing_folder(name) for name in includes)
    items, generated = find_bases(path, project, folders, defines)
    out = out or _default_output(path)
    progress = Progress("augment", len(items))
    options = {"includes": folders, "defines": defines, "project": project and project.resolve()}
    config = replace(frontend_config(), include=(*folders, *generated))
    recipe = CopyRecipe(copies, seed, Texts(comments, strings), _parse_kinds(kinds), sandboxed)
    summary = augment_programs(
        path,
        out,
        config,
        recipe,
        items=items,
        generated=generated,
        options={name: value for name, value in options.items() if value},
        workers=workers,
        engine=engine,
        timeout=timeout,
        on_item=progress.step,
    )
    progress.close()
    if as_json:
        print_json(summary)
    else:
        _print_summary(summary)
    if path.is_file() and summary.failed and not summary.programs:
        return BadInput.exit_code
    return PartialFailure.exit_code if summary.failed else 0


def _parse_kinds(text: str) -> tuple[str, ...]:
    kinds = KINDS if text == "all" else text.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise UsageError(f"no kind of change called {unknown[0]!r}", remedy=f"all, or some of: {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


def _existing_folder(name: str) -> Path:
    if not Path(name).is_dir():
        raise BadInput(f"{name}: no such folder", remedy="-I names a folder with headers")
    return Path(name).resolve()


def _default_output(path: Path) -> Path:
    """The default output folder, PATH-augmented; also works for paths such as `.` and `..`."""
    named = path if path.name.strip(".") else path.resolve()
    if not named.name:
        raise UsageError(f"{path}: nothing can be written beside it", remedy="give --out")
    return named.with_name((named.stem if path.is_file() else named.name) + "-augmented")


def _print_summary(summary: AugmentSummary) -> None:
    from hipsynth.synth.frontend.rename_groups import REASONS

    click.echo(
        f"{count_text(summary.programs, 'program')} in {summary.out} from {summary.bases} "
        f"({summary.reused} were done already)"
    )
    for reason, number in summary.reasons.items():
        click.echo(f"  not made: {reason:16} {number}, e.g. {summary.examples[reason]}")
    if set(summary.kinds) - {"rename", "flatten", "utf8"}:
        click.echo("changed by: " + ", ".join(f"{kind} {number}" for kind, number in summary.kinds.items()))
    if summary.kept:
        click.echo(f"{sum(summary.kept.values())} of {summary.names} names stay in all copies of their program:")
    for reason, number in summary.kept.items():
        program, name = next(
            (p, n)
            for p, reason_counts in summary.kept_names.items()
            for n in reason_counts
            if reason_counts[n] == reason
        )
        click.echo(f"  {reason:16} {number}, e.g. {name} of {program}: {REASONS.get(reason, reason)}")
