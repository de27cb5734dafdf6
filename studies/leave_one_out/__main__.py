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
from studies.leave_one_out.refit import all_left_out
from studies.leave_one_out.score import Score
from studies.validation.__main__ import DOCS

PAGE = DOCS / "validation" / "leave-one-out.md"
PICTURE = DOCS.parent / "images" / "leave-one-out.svg"


def outcome() -> page.LeaveOneOutFigures:
    """Collects what is not yet in build/, and leaves each kind out."""
    published = divide_figures(evidence.collect_all())
    return page.LeaveOneOutFigures(published, all_left_out(published, os.cpu_count() or 1))


def write_results(found: page.LeaveOneOutFigures) -> None:
    """Writes the page, the picture and both tables."""
    allowed = ranges.compute_ranges(found.figures)
    write_whole(expected_error.RANGES_PATH, ranges.render_text(allowed))
    write_whole(page.SCORES, page.scores_text(found.scores()))
    write_whole(PAGE, page.render_page(found, allowed))
    picture.draw_errors(found.figures, PICTURE)


def said(name: str, row: Score) -> str:
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
    result = outcome()
    if options.device is None:
        write_results(result)
    for name, row in result.scores().items():
        if options.device in (None, name):
            print(said(name, row))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
