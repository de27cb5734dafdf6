"""`synth generate`: programs from the grammar into a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from hipsynth.synth.cli.common import Progress, print_json
from hipsynth.synth.cli.options import NamedPath, engine_option, json_option, workers_option


@click.command(
    epilog="""\b
Examples:
  synth generate --count 100 --out programs
  synth generate --count 1000 --seed 7 --family gemm --out gemms
  synth generate --count 20 --out programs --json
"""
)
@click.option("--count", type=click.IntRange(min=1), required=True, help="How many programs.")
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path), required=True, help="Folder to write.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same bytes.")
@click.option("--family", default=None, help="Only this family.  [default: a weighted mix of all]")
@click.option(
    "--sizes",
    "runs",
    type=click.IntRange(1, 64),
    default=4,
    show_default=True,
    help="Problem sizes at which each program is to be profiled.",
)
@engine_option
@workers_option
@json_option
def command(
    count: int, out: Path, seed: int, family: str | None, runs: int, engine: str, workers: int, as_json: bool
) -> None:
    """Make HIP programs from the grammar.

    Writes OUT/<id>.hip, then OUT/programs.jsonl: parameters, recorded choices and problem sizes of each program, which
    it takes as arguments. After an interruption, run the same command again to continue. The result does not depend on
    --workers and --engine.
    """
    from hipsynth.synth.generate.writer import generate_into

    progress = Progress("generate", count)
    summary = generate_into(
        out,
        count,
        seed=seed,
        family=family,
        workers=workers,
        runs=runs,
        engine=engine,
        on_program=lambda p: progress.step(p.family),
    )
    progress.close()
    if as_json:
        print_json(asdict(summary))
        return
    click.echo(f"{summary.count} programs in {summary.out} (seed {summary.seed}, {summary.reused} were there already)")
    for name, number in summary.families.items():
        click.echo(f"  {name:14} {number}")
