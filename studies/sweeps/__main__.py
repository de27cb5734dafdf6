"""Runs the sweeps and writes their page: `python -m studies.sweeps [--only NAME ...]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from studies.sweeps import pages
from studies.sweeps.sweep import DEVICES, Sweep, SweepResult, list_sweeps, run_sweep

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, IMAGES = DOCS / "explanation" / "validation" / "sweeps.md", DOCS / "images" / "sweeps"


def main(arguments: list[str]) -> int:
    """Runs the chosen sweeps; returns 1 if a demand is not met. Only a run of all of them writes the page."""
    sweeps_by_name = {sweep.name: sweep for sweep in list_sweeps()}
    parser = argparse.ArgumentParser(prog="python -m studies.sweeps", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=sweeps_by_name, help="run only these; write no page"
    )
    options = parser.parse_args(arguments)
    results: dict[Sweep, list[SweepResult]] = {}
    for name in options.only or sweeps_by_name:
        print(f"{name} ...", end=" ", flush=True)
        results[sweeps_by_name[name]] = series_by_sweep = [
            run_sweep(sweeps_by_name[name], device) for device in DEVICES
        ]
        wrong = sum(len(result.failures) for result in series_by_sweep)
        print(f"{wrong} not met" if wrong else "ok", flush=True)
    if not options.only:
        for sweep, series_by_sweep in results.items():
            pages.draw_sweep(sweep, series_by_sweep, IMAGES / f"{sweep.name}.svg")
        PAGE.write_text(pages.render_page(results))
    texts = [
        f"{s.name}, {r.device}: {text}"
        for s, series_by_sweep in results.items()
        for r in series_by_sweep
        for text in r.failures
    ]
    print("\n".join(texts))
    return 1 if texts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
