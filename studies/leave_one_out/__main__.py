"""Scores each kind of recorded kernel with constants that were not fitted to it, and writes what was found.

    python -m studies.leave_one_out [--device D]

Writes docs/explanation/validation/leave-one-out.md with its picture, ranges.toml and scores.toml. With --device, it
prints the scores of that device and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from hipsynth.core.files import write_whole
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator import devices
from studies.leave_one_out import evidence, page, picture, ranges
from studies.leave_one_out.kinds import divide_figures
from studies.leave_one_out.refit import leave_out_each_kind
from studies.leave_one_out.score import LeaveOneOutScore
from studies.validation.__main__ import DOCS

PAGE = DOCS / "validation" / "leave-one-out.md"
PICTURE = DOCS.parent / "images" / "leave-one-out.svg"


def compute_figures() -> page.LeaveOneOutFigures:
    """Collects what is not yet in build/, and leaves each kind out."""
    published = divide_figures(evidence.collect_all_figures())
    return page.LeaveOneOutFigures(published, leave_out_each_kind(published, os.cpu_count() or 1))


def write_results(figures: page.LeaveOneOutFigures) -> None:
    """Writes the page, the picture and both tables."""
    allowed = ranges.compute_ranges(figures.left_out_figures)
    write_whole(expected_error.RANGES_PATH, ranges.render_ranges(allowed))
    write_whole(page.SCORES, page.render_scores(figures.compute_scores()))
    write_whole(PAGE, page.render_page(figures, allowed))
    picture.draw_errors(figures.left_out_figures, PICTURE)


def format_score(name: str, row: LeaveOneOutScore) -> str:
    """One line for the terminal."""
    times, hits = row.left_out, row.hit_median
    text = f"{name}:"
    if times is not None:
        text += f" times {times.mape:.1f} % (median {times.median:.1f} %, bias {times.bias:+.1f} %"
        text += f", Spearman {times.spearman:.3f}; {times.kinds} kinds)"
    if hits is not None and row.hit_95 is not None:
        text += f" L2 hit rates {hits:.1f} points (95th percentile {row.hit_95:.1f})"
    return text + ("" if row.bytes_mean is None else f" fabric bytes {row.bytes_mean:.1f} %")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m studies.leave_one_out", description=__doc__)
    parser.add_argument(
        "--device", choices=devices.list_devices(), help="print the scores of one device; write nothing"
    )
    options = parser.parse_args(arguments)
    figures = compute_figures()
    if options.device is None:
        write_results(figures)
    for name, row in figures.compute_scores().items():
        if options.device in (None, name):
            print(format_score(name, row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
