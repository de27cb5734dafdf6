"""`synth traces`: training samples in which an assistant optimizes programs, or predicts counters, with tools."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, arch_option, device_option, json_option, workers_option
from hipsynth.cli.output import count_text, print_json, print_note
from hipsynth.core.errors import BadInput, UsageError

if TYPE_CHECKING:
    from hipsynth.core.program import Program
    from hipsynth.tuning.agent.sft_data import CollectionSummary

EPILOG = """\b
Examples:
  synth traces programs --out traces
  synth traces gemm_naive.hip stencil.hip --arch gfx942 --out traces
  synth traces programs --limit 100 --out traces --json      # 100 programs; later runs go on
  synth traces programs work/gemm.trace.jsonl --out traces   # with the run of a model on one of them
  synth traces corpus --task predict --out predictions       # chats that predict counters, of a labelled corpus

Previews value each program's moves, and the best ones are executed, one after the other. That path becomes chats with
tool calls in the form of transformers, in OUT/train.jsonl and OUT/held_out.jsonl: a lineage is in one of them, and what
is handwritten is held out, as is the run of a model on a program that is not among the sources.
"""
BOTH = ("gfx90a", "gfx942")


@click.command(epilog=EPILOG)
@click.argument("sources", nargs=-1, required=True, type=NamedPath(path_type=Path), metavar="SOURCE...")
@arch_option()
@device_option
@click.option("--flags", default="-O3", show_default=True, help="Compiler flags.")
@click.option(
    "--limit", type=click.IntRange(min=1), help="Only the first programs or samples, this many.  [default: all]"
)
@click.option(
    "--task", type=click.Choice(["optimize", "predict"]), default="optimize", show_default=True,
    help="What the assistant does. `predict` takes one corpus, and goes on after an interruption.",
)  # fmt: skip
@workers_option
@click.option("--out", required=True, type=NamedPath(file_okay=False, path_type=Path), help="Folder to write.")
@json_option
def command(
    sources: tuple[Path, ...],
    archs: tuple[str, ...],
    devices: tuple[str, ...],
    flags: str,
    limit: int | None,
    task: str,
    workers: int,
    out: Path,
    as_json: bool,
) -> None:
    """Turn programs' best moves, the successes of models, or a corpus' labels into training samples.

    A SOURCE is a HIP file, a folder of `synth generate`, a folder with HIP files, or the trace of a model's run.
    """
    from hipsynth.profiling.matrix.targets import resolve_devices
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.agent.sft_data import add_runs, collect_chats
    from hipsynth.tuning.optimize.move_paths import ValuationJob
    from hipsynth.tuning.trial import target_of

    sandbox.require_sandbox()
    if task == "predict":
        _check_predicted(sources, bool(archs or devices or flags != "-O3"))
        _predict_traces(sources[0], limit, workers, out, as_json)
        return
    runs = [path for path in sources if path.suffix == ".jsonl"]
    programs = itertools.islice((each for path in sources if path not in runs for each in programs_of(path)), limit)
    targets = [target_of(arch, flags, device) for arch, device in resolve_devices(archs or BOTH, devices)]
    bases: dict[str, str] = {}  # texts by id: a folder lists copies after their base
    jobs: list[ValuationJob] = []
    for program in programs:
        bases.setdefault(program.id, program.text)
        base_text = bases.get(program.lineage, "")
        jobs += [ValuationJob(program, target, base_text) for target in targets]
    report = collect_chats(jobs, out, workers, print_note)
    report = add_runs(runs, out, {job.program.id: job.split for job in jobs}) if runs else report
    _print_summary(report, as_json)


def _print_summary(report: CollectionSummary, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    counts = ", ".join(f"{number} {split.replace('_', ' ')}" for split, number in report.samples.items())
    click.echo(f"{count_text(report.programs, 'program')}; samples: {counts}; duplicates left out: {report.duplicates}")
    for reason, number in sorted(report.without.items()):
        click.echo(f"without a sample: {number} {reason}")


def _check_predicted(sources: tuple[Path, ...], names_targets: bool) -> None:
    if len(sources) != 1:
        raise UsageError("--task predict takes one corpus", remedy="run it once for each, into folders of their own")
    if names_targets:
        cause = "a corpus' labels have targets of their own"
        raise UsageError("--arch, --device and --flags are for --task optimize", cause=cause, remedy="drop them")


def _predict_traces(source: Path, limit: int | None, workers: int, out: Path, as_json: bool) -> None:
    from hipsynth.tuning.prediction.traces import make_traces

    report = make_traces(source, out, workers, limit, print_note)
    if as_json:
        print_json(report)
        return
    click.echo(f"{report.samples} samples, {report.without_preview} of them without a preview")
    for calls, number in report.chats.items():
        click.echo(f"chats with {calls}: {number}")


def programs_of(path: Path) -> Iterator[Program]:
    """The programs of a file or folder. Raises BadInput for a folder that does not exist or has none."""
    from hipsynth.core.program import iter_programs, load_program

    if path.is_file():
        yield load_program(path)
        return
    programs = iter_programs(path)
    first = next(programs, None)
    if first is None:
        raise BadInput(
            f"{path} has no programs", cause="neither programs.jsonl nor *.hip", remedy="name another folder"
        )
    yield first
    yield from programs
