"""Figures of an evaluation: nothing in them covers anything else."""

from __future__ import annotations

import needs

from hipsynth.profiling import metrics
from hipsynth.training.evaluation import figures

matplotlib = needs.package("matplotlib")


def test_the_legend_covers_no_title() -> None:
    rows = [{metric: float(value) for metric in metrics.paper_ids()} for value in range(3)]
    with matplotlib.rc_context():
        figures.set_style()
        drawn = figures.draw_shares("families", rows, dict.fromkeys(figures.COLOURS, rows))
        drawn.canvas.draw()
        (legend,) = (box.get_window_extent() for box in drawn.legends)
        titles = [drawn._suptitle, *(axis.title for axis in drawn.axes)]
        covered = [title.get_text() for title in titles if title.get_window_extent().overlaps(legend)]
    assert legend.width > 100 and len(titles) == 13 and not covered
