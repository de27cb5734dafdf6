"""Figures of an evaluation: predicted over true values, and shares within an error bound for model and baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hipsynth.profiling import metrics as table
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.evaluation.scores import ZERO, relative_error

Predicted = Sequence[Mapping[str, float | None]]
COLOURS = {"model": "#0b6e99", "constant": "#9aa0a6", "nearest_neighbour": "#c77700", "gradient_boosting": "#2e8540"}
COLOURS["analytic"] = "#7b3fa0"


def draw_figures(
    folder: Path, predicted: Mapping[str, Mapping[str, Predicted]], parts: Mapping[str, Sequence[LabelledSample]]
) -> None:
    """Writes scatter_<split>.{svg,png} and within_<split>.{svg,png} into `folder` for every split with samples.

    `predicted` maps a predictor's name ("model" and the baselines) to split to normalised predictions.
    """
    set_style()
    folder.mkdir(parents=True, exist_ok=True)
    for split, samples in parts.items():
        if samples:
            truths = [sample.true_metrics() for sample in samples]
            _save_figure(_draw_scatter(split, truths, predicted["model"][split]), folder / f"scatter_{split}")
            _save_figure(
                draw_shares(split, truths, {n: by[split] for n, by in predicted.items()}), folder / f"within_{split}"
            )


def set_style() -> None:
    """Makes matplotlib draw into files: small print, text elements instead of paths, and reproducible ids."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.size": 8})


def _save_figure(figure: Any, stem: Path) -> None:
    from matplotlib import pyplot

    figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
    figure.savefig(stem.with_suffix(".png"), dpi=110)
    pyplot.close(figure)


def _make_grid(share: bool) -> tuple[Any, Any]:
    """A figure with 3 x 4 axes. Margins are fixed because automatic layout takes longer than drawing."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(3, 4, figsize=(11, 8), sharex=share, sharey=share)
    figure.subplots_adjust(left=0.06, right=0.985, bottom=0.065, top=0.91, hspace=0.32, wspace=0.28)
    return figure, axes


def _draw_scatter(split: str, truths: Predicted, predictions: Predicted) -> Any:
    figure, axes = _make_grid(share=False)
    for metric, axis in zip(table.paper_ids(), axes.flat, strict=True):
        known_pairs = [(t[metric], p[metric]) for t, p in zip(truths, predictions, strict=True)]
        pairs = [(t, p) for t, p in known_pairs if t is not None and p is not None]
        floor = ZERO / 10
        x = [max(t, floor) for t, _ in pairs]
        y = [max(p, floor) for _, p in pairs]
        low, high = min([*x, *y, 1.0]) * 0.7, max([*x, *y, floor]) * 1.4
        axis.plot([low, high], [low, high], color="#888888", linewidth=0.8)
        axis.fill_between([low, high], [low * 0.9, high * 0.9], [low * 1.1, high * 1.1], color="#cccccc", alpha=0.5)
        axis.scatter(x, y, s=9, alpha=0.6, color=COLOURS["model"], linewidths=0)
        axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
        axis.minorticks_off()
        axis.set_title(table.metric_table().metrics[metric].title)
    figure.suptitle(f"Predicted (up) against true (right), normalised; band: within 10 %; split: {split}")
    return figure


def draw_shares(split: str, truths: Predicted, predicted: Mapping[str, Predicted]) -> Any:
    """A figure: the share of values whose relative error is at most so many percent, for each metric and predictor."""
    figure, axes = _make_grid(share=True)
    bounds = np.linspace(0, 50, 101)
    for metric, axis in zip(table.paper_ids(), axes.flat, strict=True):
        for name, rows in predicted.items():
            pairs = [(t[metric], p[metric]) for t, p in zip(truths, rows, strict=True)]
            errors = np.array([relative_error(t, p) for t, p in pairs if t is not None])
            shares = [100 * float(np.mean(errors <= b / 100 + 1e-9)) if len(errors) else 0.0 for b in bounds]
            axis.plot(bounds, shares, label=name.replace("_", " "), color=COLOURS.get(name), linewidth=1.2)
        axis.set_title(table.metric_table().metrics[metric].title)
        axis.grid(alpha=0.3)
    # One row between the figure's title and the plots', where it hides neither them nor a curve.
    figure.legend(
        *axes.flat[0].get_legend_handles_labels(), fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 0.972),
        ncols=len(predicted), frameon=False,
    )  # fmt: skip
    figure.supxlabel("relative error, %")
    figure.supylabel("share of samples within, %", x=0.005)
    figure.suptitle(f"Share within an error bound: model and baselines; split: {split}", y=0.99)
    return figure
