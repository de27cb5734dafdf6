"""docs/images/leave-one-out.svg: recorded times beside ours without their kind, and the error by class."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from hipsynth.profiling.uncertainty import classes
from studies.leave_one_out.evidence import TIME, RecordedFigure
from studies.leave_one_out.score import Divided, find_class, select_figures

COLOURS = {
    classes.STREAMING: "#1f5fbf", classes.REUSE: "#2e8b57", classes.STRIDED: "#b8860b", classes.GATHER: "#8b3a9e",
    classes.LOOPS: "#b3261e", classes.LDS: "#0f8b8d", classes.ATOMICS: "#444444", classes.SHORT: "#888888",
}  # fmt: skip
SPAN = (0.2, 5.0)  # of ours / recorded that the right part shows; what is beyond is drawn at its edge
GOLDEN = 0.618  # spreads neighbours evenly over the height of a strip
TICKS = (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0)


def draw_errors(left_out: Divided, path: Path) -> None:
    """Writes the picture."""
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 4.2), width_ratios=(1, 1.25))
    by_class: dict[str, list[tuple[float, RecordedFigure]]] = {}
    for kind, figures in select_figures(left_out, TIME).items():
        for figure_row in figures:
            by_class.setdefault(find_class(kind, figure_row), []).append((1 / len(figures), figure_row))
    classes_shown = [name for name in classes.CLASSES if name in by_class]
    for name in classes_shown:
        _draw_scatter(left, [figure_row for _, figure_row in by_class[name]], name)
    for place, name in enumerate(reversed(classes_shown)):
        _draw_strip(right, place, by_class[name], name)
    _finish_axes(left, right, list(reversed(classes_shown)))
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_scatter(axes: Axes, figures: list[RecordedFigure], name: str) -> None:
    recorded, ours = [f.theirs / 1000 for f in figures], [max(f.ours, 1.0) / 1000 for f in figures]
    axes.plot(recorded, ours, "o", ms=2.6, alpha=0.7, color=COLOURS[name], label=name)


def _draw_strip(axes: Axes, place: int, figures: list[tuple[float, RecordedFigure]], name: str) -> None:
    """The figures of a class side by side, in the order of their errors."""
    ratios = sorted(min(max(math.exp(f.error), SPAN[0]), SPAN[1]) for _, f in figures)
    heights = [place + 0.7 * (n * GOLDEN % 1 - 0.5) for n in range(len(ratios))]
    axes.plot(ratios, heights, "o", ms=2.6, alpha=0.7, color=COLOURS[name])


def _finish_axes(left: Axes, right: Axes, names: list[str]) -> None:
    low, high = 1.0, 3e6
    left.plot([low, high], [low, high], color="#777777", lw=0.9)
    left.set(xscale="log", yscale="log", xlabel="recorded, us", ylabel="simulated without its kind, us")
    left.legend(frameon=False, fontsize=8, loc="upper left")
    right.axvspan(0.8, 1.25, color="#e8eef7", zorder=0)
    right.axvline(1.0, color="#777777", lw=0.9)
    right.set(xscale="log", xlim=(SPAN[0] * 0.95, SPAN[1] * 1.05), xlabel="simulated / recorded")
    right.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    right.set_xticks([], minor=True)
    right.set_yticks(range(len(names)), names)
    for axes in (left, right):
        axes.grid(True, color="#e4e4e4", lw=0.7)
        axes.spines[["top", "right"]].set_visible(False)
