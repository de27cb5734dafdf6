"""`synth evaluate`: score a model, or the shipped predictor, and baselines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, json_option, refuse_options
from hipsynth.cli.output import prepare_file, print_json, print_note, print_remark
from hipsynth.core.errors import BadInput, UsageError

if TYPE_CHECKING:
    from hipsynth.training.evaluation.evaluate import Evaluation

EPILOG = """\b
Examples:
  synth evaluate corpus
  synth evaluate model corpus
  synth evaluate model corpus --out evaluation
  synth evaluate model corpus --json
  synth evaluate corpus/release/v1 --share 0.15 --out evaluation     # goes on after an interruption
"""


@click.command(epilog=EPILOG)
@click.argument(
    "paths", nargs=-1, required=True, type=NamedPath(readable=False, path_type=Path), metavar="[MODEL] CORPUS"
)
@click.option(
    "--out",
    type=NamedPath(file_okay=False, path_type=Path),
    help="Also write numbers and figures into this folder; meanwhile, it keeps previews.",
)
@click.option("--backend", help="Score against the labels of this backend (needed when the corpus holds several).")
@click.option(
    "--free-samples",
    type=click.IntRange(min=0),
    default=16,
    show_default=True,
    help="Samples per split decoded without a forced skeleton, to measure valid JSON.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1.0,
    show_default=True,
    help="Of the held-out programs, those that are scored: previews of a large corpus take long.",
)
@json_option
def command(
    paths: tuple[Path, ...],
    out: Path | None,
    backend: str | None,
    free_samples: int,
    share: float,
    as_json: bool,
) -> None:
    """Score MODEL, or the shipped predictor, on held-out parts of CORPUS as in the paper's Table 4, with baselines.

    Splits: `lineage` (no copy of a test program in training), `random` (as in the paper; leaks copies into training),
    `families` and `device` (kinds of programs and devices never trained on), `handwritten`, and `real` (surveyed). The
    baselines are fitted on the model's training samples. The default predictor is scored on every kernel of a run, a
    language model on the heaviest one, which is what it answers for.
    """
    from hipsynth.training.analytic.preview_journal import PREVIEWS, PreviewJournal
    from hipsynth.training.evaluation.evaluate import (
        EVALUATION,
        Messages,
        evaluate_model,
        evaluation_table,
        load_evaluated,
        open_predictor,
    )

    model, corpus = _read_paths(paths)
    prepare_file(out / EVALUATION if out is not None else None)
    samples = load_evaluated(corpus, model, backend, print_remark)
    journal = PreviewJournal(out / PREVIEWS) if out is not None else None
    messages, predictor = Messages(print_note, print_remark), open_predictor(model, journal)
    evaluation = evaluate_model(predictor, samples, free_samples=free_samples, share=share, messages=messages)
    if out is not None and journal is not None:
        _write_evaluation(evaluation, out)
        journal.remove_file()
    if as_json:
        print_json(evaluation.document)
    else:
        click.echo(evaluation_table(evaluation.document) + (f"\n\nFigures and numbers: {out}" if out else ""))
    _save_with_model(evaluation, model)


def _save_with_model(evaluation: Evaluation, model: Path) -> None:
    """Writes the numbers into the model's folder, which reports read, unless it is the shipped one's or cannot be
    written to."""
    from hipsynth.training.analytic.predict import SHIPPED
    from hipsynth.training.evaluation.evaluate import save_evaluation

    try:
        if model.resolve() != SHIPPED.resolve():
            save_evaluation(evaluation, model)
    except BadInput as error:
        print_remark(f"the model's folder does not get these numbers: {error.what}")


def _write_evaluation(evaluation: Evaluation, out: Path) -> None:
    from hipsynth.training.evaluation.evaluate import save_evaluation
    from hipsynth.training.evaluation.figures import draw_figures

    save_evaluation(evaluation, out)
    draw_figures(out, evaluation.predicted, evaluation.parts)


def _read_paths(paths: tuple[Path, ...]) -> tuple[Path, Path]:
    """(the model or the default one, the corpus). Raises UsageError for more than two paths, and for options that this
    kind of model has no use for."""
    from hipsynth.training.analytic.predict import SHIPPED, is_analytic

    *models, corpus = paths
    if len(models) > 1:
        raise UsageError("one model is evaluated on one corpus", remedy="give at most two folders")
    model = models[0] if models else SHIPPED
    if model.is_file():
        raise UsageError(f"{model}: is a file", remedy=f"name the model's folder, {model.parent}")
    if is_analytic(model):
        refuse_options(["--free-samples"], "is for language models", "drop it: the default predictor writes no text")
    return model, corpus
