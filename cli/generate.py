"""`synth generate`: programs from the grammar into a folder."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, engine_option, json_option, workers_option
from hipsynth.cli.output import Progress, count_text, print_json
from hipsynth.core.errors import UsageError
from hipsynth.core.languages import HIP, TRITON

if TYPE_CHECKING:
    from hipsynth.core.store import StoredRow
    from hipsynth.synth.generate.headers import ParameterValues
    from hipsynth.synth.generate.policy import Policy
    from hipsynth.synth.generate.steer import Label


@click.command(
    epilog="""\b
Examples:
  synth generate --count 100 --out programs
  synth generate --count 1000 --seed 7 --family gemm --out gemms
  synth generate --count 1000 --seed 8 --toward corpus --out more
  synth generate --count 20 --out programs --json
  synth generate --count 20 --out pairs --language both
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
@click.option(
    "--language",
    type=click.Choice([HIP, TRITON, "both"]),
    default=HIP,
    show_default=True,
    help="HIP files, Python scripts with Triton kernels, or each program in both.",
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
    language: str,
    engine: str,
    workers: int,
    as_json: bool,
) -> None:
    """Make HIP programs from the grammar, or Triton programs that do the same.

    With --toward, weights of families, parameters and sizes change. The plan is printed; `synth stats` of the corpus
    before and after shows the gain.

    Writes OUT/<id>.hip (or .py), then OUT/programs.jsonl: parameters, recorded choices and problem sizes of each
    program, which it takes as arguments. After an interruption, run the same command again to continue. The result does
    not depend on --workers and --engine.
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
        languages=(HIP, TRITON) if language == "both" else (language,),
        on_program=lambda p: progress.step(p.family),
    )
    progress.close()
    if as_json:
        print_json(summary)
        return
    click.echo(
        f"{count_text(summary.count, 'program')} in {summary.out} "
        f"(seed {summary.seed}, {summary.reused} were there already)"
    )
    for name, number in summary.families.items():
        click.echo(f"  {name:14} {number}")


def _steer_by_corpus(corpus: Path) -> tuple[Policy, list[str]]:
    """The policy steered towards thin regions of a corpus' labels, and what it changes."""
    from hipsynth.synth.generate.policy import default_policy
    from hipsynth.synth.generate.steer import describe_changes, steer_policy

    before, labels = default_policy(), generated_labels(corpus)
    after = steer_policy(before, labels)
    return after, [
        f"{corpus}: {len(labels):,} labels of generated programs; shares that change most:",
        *describe_changes(before, after),
    ]


def generated_labels(path: Path) -> list[Label]:
    """The labels of a corpus that belong to base programs of the generator, in the corpus' order. Raises UsageError if
    there are none."""
    from hipsynth.core.store import Corpus
    from hipsynth.profiling.reports.coverage import heaviest_kernels, measure_coverage
    from hipsynth.synth.generate.headers import load_templates, template_of
    from hipsynth.synth.generate.steer import Label

    corpus = Corpus.open(path)
    rows = heaviest_kernels(corpus.measurements().to_pylist())
    covered = measure_coverage(rows)
    programs = {row["id"]: row for row in corpus.programs().to_pylist() if row["origin"] == "synthetic"}
    labels = []
    for row in rows:
        program = programs.get(row["program_id"])
        if program and not program["derivation"] and template_of(program["family"]) in load_templates():
            labels.append(Label(program["family"], _run_params(program, row["arguments"]), covered.score_rarity(row)))
    if not labels:
        raise UsageError(
            f"{path} holds no label of a generated program", remedy="profile programs of `synth generate` into it first"
        )
    return labels


def _run_params(program: StoredRow, arguments: str) -> ParameterValues:
    """The parameters of a program in the run with these arguments."""
    words = shlex.split(arguments)
    runs = json.loads(program["runs"] or "[]")
    changed: ParameterValues = next((run["params"] for run in runs if run["arguments"] == words), {})
    return {**json.loads(program["params"]), **changed}
