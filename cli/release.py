"""`synth release`: the corpus as a dataset that anyone can rebuild."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, engine_option, json_option, workers_option
from hipsynth.cli.output import Progress, print_json, print_note
from hipsynth.core.errors import PartialFailure

if TYPE_CHECKING:
    from hipsynth.synth.release.pack import PackResult

V1 = "corpus/release/v1"
EPILOG = """\b
Examples:
  synth release make --shards 0:2 --work shards --out mine
  synth release pack --shards 0:200 --work shards --out mine
  synth release verify --sample 4 --json
  synth release verify mine --row 0123456789abcdef

A shard is 100 programs of one seed at 4 sizes; synth/release/release.toml says which flags and devices it gets.
"""

shards_option = click.option("--shards", required=True, metavar="A:B", help="From shard A to before shard B.")
work_option = click.option(
    "--work", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder of the labelled shards."
)
out_option = click.option(
    "--out", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder of the release."
)


@click.group(epilog=EPILOG)
def command() -> None:
    """Make, extend and check a release: a corpus as a dataset of compact Parquet files."""


@command.command()
@shards_option
@work_option
@out_option
@engine_option
@workers_option
@json_option
def make(shards: str, work: Path, out: Path, engine: str, workers: int, as_json: bool) -> None:
    """Generate and label the shards that WORK does not have, then pack all of them.

    After an interruption, run the same command again to continue. The result does not depend on --workers and --engine.
    """
    from hipsynth.profiling.matrix.collect import MatrixOptions
    from hipsynth.synth.release.make_shards import make_shards as label
    from hipsynth.synth.release.release_plan import load_plan, shard_numbers
    from hipsynth.toolchain import sandbox

    sandbox.require_sandbox()
    bars: list[Progress] = []

    def start(total: int) -> Callable[[str], None]:
        bars.append(Progress("profile", total))
        return bars[-1].step

    try:
        label(load_plan(), work, shard_numbers(shards), MatrixOptions(engine=engine, workers=workers), start)
    finally:
        for bar in bars:
            bar.close()
    _pack_shards(shards, work, out, as_json)


@command.command()
@shards_option
@work_option
@out_option
@json_option
def pack(shards: str, work: Path, out: Path, as_json: bool) -> None:
    """Add finished shards of WORK to the release: programs in pNNNN, their corpus in sNNNN, and a file sNNNN.done."""
    _pack_shards(shards, work, out, as_json)


def _pack_shards(shards: str, work: Path, out: Path, as_json: bool) -> None:
    from hipsynth.synth.release.pack import pack_release as add
    from hipsynth.synth.release.release_plan import load_plan, shard_numbers

    result = add(load_plan(), work, out, shard_numbers(shards), print_note)
    if as_json:
        print_json(result)
    else:
        _print_summary(result)


def _print_summary(result: PackResult) -> None:
    click.echo(
        f"{result.out}: {result.labels:,} labels of {result.programs:,} programs, {result.shards} shards, "
        f"{result.bytes / 1e6:.1f} MB ({result.bytes / max(1, result.labels):.0f} bytes a label)"
    )
    click.echo(f"  added {len(result.added)} shards; {len(result.missing)} are not finished")
    if result.repeated:
        click.echo(f"  {result.repeated} rows occur in several shards and are kept once")


@command.command()
@click.argument("release", type=NamedPath(readable=False, path_type=Path), default=V1)
@click.option("--row", default="", metavar="ID", help="Rebuild this row.  [default: a sample]")
@click.option(
    "--sample", type=click.IntRange(0, 100_000), default=3, show_default=True, help="How many rows to rebuild."
)
@json_option
def verify(release: Path, row: str, sample: int, as_json: bool) -> int:
    """Compare all checksums, look for leaks between splits, and rebuild rows: regenerate the program from its recorded
    choices, build and run it, compare every value.

    RELEASE is corpus/release/v1 of the checkout if it is not given. Exits with 5 if anything differs.
    """
    from hipsynth.core.store.release import Release
    from hipsynth.synth.release.verify import ReleaseVerification, choose_ids, find_leaks
    from hipsynth.synth.release.verify import verify_labels as rebuild

    opened = Release.load(_existing_folder(release))
    ids = choose_ids(opened, row, sample)
    progress = Progress("verify", len(ids))
    rebuilt = rebuild(opened, ids, progress.step)
    progress.close()
    wrong = [difference for difference in rebuilt if difference.status != "same"]
    crossing = [] if row else find_leaks(opened)
    if as_json:
        print_json(ReleaseVerification(str(opened.root), "same", tuple(crossing), tuple(rebuilt)))
    else:
        same = f"{len(rebuilt) - len(wrong)} of {len(rebuilt)} rows rebuilt with the same values"
        click.echo(f"{opened.root}: all checksums agree; {same}")
        for line in crossing:
            click.echo(f"  leak: {line}")
        for difference in rebuilt:
            for line in (*difference.differences, *(f"note: {text}" for text in difference.notes)):
                click.echo(f"  {difference.id}: {line}")
    return PartialFailure.exit_code if wrong or crossing else 0


def _existing_folder(release: Path) -> Path:
    """The folder; the default is that of the checkout, whatever the current folder is."""
    from hipsynth.core.cache import REPOSITORY

    return REPOSITORY / V1 if release == Path(V1) and not release.exists() else release
