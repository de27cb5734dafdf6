"""`synth release`: the corpus as a dataset that anyone can rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from hipsynth.cli.options import NamedPath, engine_option, json_option, refuse_options, workers_option
from hipsynth.cli.output import Progress, print_json, print_note
from hipsynth.core.errors import PartialFailure

if TYPE_CHECKING:
    from hipsynth.synth.release.pack import PackResult

V1 = "corpus/release/v1"
EPILOG = """\b
Examples:
  synth release make --shards 0:2 --work shards --out mine
  synth release make --plan previews --work previews --out mine     # 61,000 programs
  synth release pack --shards 0:200 --work shards --out mine
  synth release verify --sample 4 --json
  synth release verify mine --row 0123456789abcdef

A shard is 100 programs of one seed. synth/release/release.toml has the plans: "labels" executes programs, "previews"
estimates many more from a few of their work-groups.
"""

MAKE_EPILOG = """\b
Examples:
  synth release make --shards 0:2 --work shards --out mine
  synth release make --plan previews --work previews --out mine     # 61,000 programs
"""
PACK_EPILOG = """\b
Examples:
  synth release pack --shards 0:200 --work shards --out mine
  synth release pack --work shards --out mine --json
"""
VERIFY_EPILOG = """\b
Examples:
  synth release verify --sample 4 --json
  synth release verify mine --row 0123456789abcdef
"""


class MakingOptions(TypedDict):
    """Options that are passed on to the matrix unchanged."""

    engine: str
    workers: int
    repair: bool


plan_option = click.option("--plan", "plan_name", default="labels", show_default=True, help="labels or previews.")
shards_option = click.option(
    "--shards",
    default="",
    metavar="A:B",
    help="From shard A to before shard B.  [default: all, if the plan has a last]",
)
work_option = click.option(
    "--work", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder of the labelled shards."
)
out_option = click.option(
    "--out", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder of the release."
)


@click.group(epilog=EPILOG)
def command() -> None:
    """Make, extend and check a release: a corpus as a dataset of compact Parquet files."""


@command.command(epilog=MAKE_EPILOG)
@plan_option
@shards_option
@work_option
@out_option
@engine_option
@click.option("--repair", is_flag=True, help="Make again what is damaged in WORK.")
@workers_option
@json_option
def make(plan_name: str, shards: str, work: Path, out: Path, as_json: bool, **options: Unpack[MakingOptions]) -> None:
    """Generate and label, or preview, the shards that WORK does not have, then pack all of them.

    After an interruption, run the same command again to continue. The result does not depend on --workers and --engine.
    """
    from hipsynth.profiling.matrix.collect import MatrixOptions
    from hipsynth.synth.release.make_shards import make_shards as label
    from hipsynth.synth.release.release_plan import choose_shards, load_plan
    from hipsynth.toolchain import sandbox

    sandbox.require_sandbox()
    plan = load_plan(plan_name)
    chosen = choose_shards(plan, shards)
    bars: list[Progress] = []

    def start(total: int) -> Progress:
        bars.append(Progress("profile", total))
        return bars[-1]

    try:
        label(plan, work, chosen, MatrixOptions(**options), start)
    finally:
        for bar in bars:
            bar.close()
    _pack_shards(plan_name, chosen, work, out, as_json)


@command.command(epilog=PACK_EPILOG)
@plan_option
@shards_option
@work_option
@out_option
@json_option
def pack(plan_name: str, shards: str, work: Path, out: Path, as_json: bool) -> None:
    """Add finished shards of WORK to the release: programs in pNNNN, their corpus in sNNNN, and a file sNNNN.done."""
    from hipsynth.synth.release.release_plan import choose_shards, load_plan

    _pack_shards(plan_name, choose_shards(load_plan(plan_name), shards), work, out, as_json)


def _pack_shards(plan_name: str, shards: Sequence[int], work: Path, out: Path, as_json: bool) -> None:
    from hipsynth.synth.release.pack import pack_release as add
    from hipsynth.synth.release.release_plan import load_plan

    result = add(load_plan(plan_name), work, out, shards, print_note)
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


@command.command(epilog=VERIFY_EPILOG)
@click.argument("release", type=NamedPath(readable=False, path_type=Path), default=V1)
@click.option("--row", default="", metavar="ID", help="Rebuild this row.  [default: a sample]")
@click.option(
    "--sample", type=click.IntRange(0, 100_000), default=3, show_default=True, help="How many rows to rebuild."
)
@json_option
def verify(release: Path, row: str, sample: int, as_json: bool) -> int:
    """Compare all checksums, look for leaks between splits, and rebuild rows: regenerate the program from its recorded
    choices, build and run it, compare every value. The programs of these rows' shards are drawn again by their seeds.

    RELEASE is corpus/release/v1 of the checkout if it is not given. Exits with 5 if anything differs.
    """
    from hipsynth.core.store.release import Release
    from hipsynth.synth.release.verify import RebuildStatus, ReleaseVerification, check_seeds, choose_ids, find_leaks
    from hipsynth.synth.release.verify import verify_labels as rebuild

    if row:
        refuse_options(["--sample"], "excludes --row", "give one of them")
    opened = Release.load(_existing_folder(release))
    ids = choose_ids(opened, row, sample)
    progress = Progress("verify", len(ids))
    rebuilt = rebuild(opened, ids, progress.step)
    progress.close()
    wrong = [difference for difference in rebuilt if difference.status != RebuildStatus.SAME]
    crossing = None if row else tuple(find_leaks(opened))
    seeds = check_seeds(opened, ids)
    foreign = [check for check in seeds if check.programs]
    if as_json:
        print_json(ReleaseVerification(str(opened.root), "same", crossing, tuple(rebuilt), tuple(seeds)))
    else:
        same = f"{len(rebuilt) - len(wrong)} of {len(rebuilt)} rows rebuilt with the same values"
        click.echo(f"{opened.root}: all checksums agree; {same}")
        for line in crossing or ():
            click.echo(f"  leak: {line}")
        for check in seeds:
            click.echo(f"  programs of shard {check.shard:04}, drawn again by its seed: {check.status}")
        for difference in rebuilt:
            for line in (*difference.differences, *(f"note: {text}" for text in difference.notes)):
                click.echo(f"  {difference.id}: {line}")
    return PartialFailure.exit_code if wrong or crossing or foreign else 0


def _existing_folder(release: Path) -> Path:
    """The folder; the default is that of the checkout, whatever the current folder is."""
    from hipsynth.core.cache import REPOSITORY

    return REPOSITORY / V1 if release == Path(V1) and not release.exists() else release
