"""`synth report`: one HTML file about a corpus and its model."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.cli.options import NamedPath, json_option
from hipsynth.cli.output import print_json, print_note

EPILOG = """\b
Examples:
  synth report corpus --out report.html
  synth report corpus --model model --out report.html
"""


@click.command(epilog=EPILOG)
@click.argument("corpus", type=NamedPath(readable=False, path_type=Path))
@click.option("--model", type=NamedPath(path_type=Path), help="Also show how well this model predicts.")
@click.option("--out", required=True, type=NamedPath(path_type=Path, dir_okay=False), help="The HTML file to write.")
@click.option("--backend", help="Report the labels of this backend (needed when the corpus holds several).")
@json_option
def command(corpus: Path, model: Path | None, out: Path, backend: str | None, as_json: bool) -> None:
    """Write one self-contained HTML report of CORPUS: roofline, statistics, distributions, accuracy, provenance."""
    from hipsynth.training.evaluation.report import write_report

    summary = write_report(corpus, out, model, backend, note=print_note)
    if as_json:
        print_json(summary)
    else:
        click.echo(f"{out}: {summary.samples} builds of {summary.families} families, {summary.bytes:,} bytes")
