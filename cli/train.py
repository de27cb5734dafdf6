"""`synth train`: train a predictor on a corpus."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hipsynth.cli.options import NamedPath, json_option
from hipsynth.cli.output import Progress, print_json, print_note, print_remark
from hipsynth.core.errors import UsageError

if TYPE_CHECKING:
    from hipsynth.training.models.config import Config
    from hipsynth.training.models.model_record import ModelRecord

EPILOG = """\b
Examples:
  synth train corpus --config analytic --out model
  synth train corpus --config tiny-cpu --out model
  synth train corpus --config smollm2 --out model --max-steps 200
  synth train traces --config tools-smollm2 --out agent
  synth train predictions --config predict-tools-tiny --out agent
  synth train predictions --config predict-tools-grpo --base agent --out reinforced
  synth train traces --config tools-grpo --base agent --out reinforced
  synth train corpus --config paper --base /models/Llama-3.2-3B-Instruct --out model
  torchrun --nproc_per_node 8 -m hipsynth.cli.main train corpus --config paper --out model
"""


@click.command(epilog=EPILOG)
@click.argument("corpus", type=NamedPath(readable=False, path_type=Path))
@click.option("--config", "config_name", required=True, help="Recipe in training/configs, or path of a .toml file.")
@click.option(
    "--out", required=True, type=NamedPath(file_okay=False, path_type=Path), help="The model folder to write."
)
@click.option("--base", help="Another base model: `tiny`, `shipped`, `smollm2`, or a Hugging Face name or folder.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Stop after this many steps.")
@click.option("--backend", help="Train on the labels of this backend (needed when the corpus holds several).")
@click.option("--local_rank", "--local-rank", type=int, hidden=True, help="Given by the deepspeed launcher.")
@json_option
def command(
    corpus: Path,
    config_name: str,
    out: Path,
    base: str | None,
    max_steps: int | None,
    backend: str | None,
    local_rank: int | None,
    as_json: bool,
) -> None:
    """Train a predictor on CORPUS: the correction of the default one (`--config analytic`), or a causal language model.

    The recipes tools-* train a model that optimizes with tools, predict-tools-tiny one that predicts with tools; both
    take a folder of `synth traces` as CORPUS.

    Training of a language model writes checkpoints, one when it is interrupted too; run the same command again to
    continue.
    """
    from hipsynth.training.data.dataset import load_samples
    from hipsynth.training.models.config import load_config
    from hipsynth.training.models.documents import TrainDocument
    from hipsynth.training.models.train import train_model

    config = load_config(config_name)
    changes: dict[str, Any] = {"base": base, "max_steps": max_steps}
    if config.base == "analytic" and (base is not None or max_steps is not None):
        problem = f"{'--base' if base is not None else '--max-steps'} is for language models"
        raise UsageError(problem, cause="boosting has no base and no steps", remedy="drop it")
    if config.task != "predict" and backend is not None:
        raise UsageError("--backend is for labels", cause=f"{config_name} learns from traces", remedy="drop it")
    config = replace(config, **{key: value for key, value in changes.items() if value is not None})
    if config.task != "predict":
        _train_with_tools(corpus, config, out, as_json)
        return
    if config.base == "analytic":
        _train_analytic(corpus, config, out, backend, as_json)
        return
    with show_progress("train") as progress:
        record = train_model(corpus, config, out, progress, load_samples(corpus, backend, remark=print_remark))
    if not is_first_process():
        return
    if as_json:
        print_json(TrainDocument.of(out, record))
        return
    valid = record["valid_loss"]
    counts = record["samples"]
    click.echo(f"{out}: {record['status']}, {record['steps']} steps of {config.name} on {counts['train']} samples")
    click.echo(
        f"  {record['trained_parameters']:,} of {record['parameters']:,} parameters trained; "
        f"{record['tokens_per_sample']} tokens per sample, {record['samples_cut']} samples cut to the context"
    )
    loss = f"  training loss {record['train_loss']:.3f}"
    click.echo(loss + ("" if valid is None else f", validation loss {valid:.3f}"))
    click.echo(
        f"  held out: {counts['lineage']} by lineage, {counts['random']} at random, {counts['handwritten']} handwritten"
    )


def is_first_process() -> bool:
    """Whether this process prints, of those that a launcher started."""
    return os.environ.get("RANK", "0") == "0"


@contextlib.contextmanager
def show_progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress line that begins with the first step, which may not be step 1 after an interruption."""
    show: list[Progress] = []

    def progress(step: int, total: int, note: str) -> None:
        if not show:
            show.append(Progress(title, total))
            show[0].done = step - 1
        show[0].step(note)

    yield progress
    if show:
        show[0].close()


def _train_with_tools(traces: Path, config: Config, out: Path, as_json: bool) -> None:
    """Trains a model of the recipe's task on the chats of a folder, or reinforces one."""
    from hipsynth.training.models.documents import TrainDocument
    from hipsynth.tuning.prediction.reinforce import reinforce
    from hipsynth.tuning.prediction.train import train_to_predict
    from hipsynth.tuning.reason.grpo import train_with_grpo
    from hipsynth.tuning.reason.sft import train_on_chats

    supervised, practice = (
        (train_on_chats, train_with_grpo) if config.task == "tools" else (train_to_predict, reinforce)
    )
    with show_progress("train") as progress:
        record = (practice if config.method == "grpo" else supervised)(traces, config, out, progress)
    if not is_first_process():
        return
    if as_json:
        print_json(TrainDocument.of(out, record))
        return
    if config.method == "grpo":
        click.echo(rollouts_text(out, record))
        return
    counts = record["samples"]
    click.echo(f"{out}: {record['status']}, {record['steps']} steps of {config.name} on {counts['train']} chats")
    too_long = f"; too long: {record['too_long']['train']}" if "too_long" in record else ""
    click.echo(f"  {record['tokens_per_sample']} tokens per chat{too_long}")
    valid = "" if record["valid_loss"] is None else f", held out {record['valid_loss']:.3f}"
    click.echo(f"  training loss {record['train_loss']:.3f}{valid}")


def rollouts_text(out: Path, record: ModelRecord) -> str:
    """How reinforcement went."""
    rewards = [row["reward"] for row in record["rollouts"]]
    quarter = max(1, len(rewards) // 4)
    first, last = (sum(part) / len(part) for part in (rewards[:quarter], rewards[-quarter:]))
    return (
        f"{out}: {record['steps']} steps, {len(rewards)} runs; mean reward of the first quarter {first:.3f}, "
        f"of the last {last:.3f}"
    )


def _train_analytic(corpus: Path, config: Config, out: Path, backend: str | None, as_json: bool) -> None:
    from hipsynth.training.analytic.train import train_analytic
    from hipsynth.training.data.dataset import load_samples
    from hipsynth.training.models.documents import TrainDocument

    samples = load_samples(corpus, backend, every_device=True, remark=print_remark)
    if config.share < 1:
        print_remark(f"the correction is fitted to {config.share:.0%} of the programs: `share` in the recipe")
    record = train_analytic(corpus, config, out, samples, print_note)
    if as_json:
        print_json(TrainDocument.of(out, record))
        return
    counts = record["samples"]
    click.echo(
        f"{out}: {record['status']}, {record['previewed']} of {counts['train'] + counts['valid']} samples previewed"
    )
    used = [name for name, threshold in record["thresholds"].items() if threshold is not None]
    click.echo(f"  corrected where labels say so: {', '.join(used) or 'nothing'}")
    click.echo(f"  held out: {counts['lineage']} by lineage, {counts['random']} at random")
