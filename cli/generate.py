"""`synth generate`: programs from the grammar into a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, engine_option, json_option, workers_option
from hipsynth.cli.output import Progress, print_json

if TYPE_CHECKING:
    from hipsynth.synth.generate.policy import Policy


@click.command(
    epilog="""\b
Examples:
  synth generate --count 100 --out programs
  synth generate --count 1000 --seed 7 --family gemm --out gemms
  synth generate --count 1000 --seed 8 --toward corpus --out more
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
@click.option(
    "--toward",
    type=NamedPath(readable=False, path_type=Path),
    help="Draw more of what this corpus has few labels of.  [default: the policy's mix]",
)
@engine_option
@workers_option
@json_option
def command(
    count: int,
    out: Path,
    seed: int,
    family: str | None,
    runs: int,
    toward: Path | None,
    engine: str,
    workers: int,
    as_json: bool,
) -> None:
    """Make HIP programs from the grammar.

    With --toward, weights of families, parameters and sizes change. The plan is printed; `synth stats` of the corpus
    before and after shows the gain.

    Writes OUT/<id>.hip, then OUT/programs.jsonl: parameters, recorded choices and problem sizes of each program, which
    it takes as arguments. After an interruption, run the same command again to continue. The result does not depend on
    --workers and --engine.
    """
    from hipsynth.synth.generate.writer import generate_into

    policy, lines = (None, []) if toward is None else _steer_by_corpus(toward)
    for line in lines:
        click.echo(line, err=True)
    progress = Progress("generate", count)
    summary = generate_into(
        out,
        count,
        seed=seed,
        family=family,
        workers=workers,
        runs=runs,
        policy=policy,
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


def _steer_by_corpus(corpus: Path) -> tuple[Policy, list[str]]:
    """The policy steered towards thin regions of a corpus' labels, and what it changes."""
    from hipsynth.cli.toward import labels_of
    from hipsynth.synth.generate.policy import default_policy
    from hipsynth.synth.generate.steer import describe_changes, steer_policy

    before, labels = default_policy(), labels_of(corpus)
    after = steer_policy(before, labels)
    return after, [
        f"{corpus}: {len(labels):,} labels of generated programs; shares that change most:",
        *describe_changes(before, after),
    ]
