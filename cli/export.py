"""`synth export`: training samples from a corpus."""

from __future__ import annotations

from pathlib import Path

import click

from hipsynth.cli.options import NamedPath, TargetNameType, json_option, refuse_options
from hipsynth.cli.output import print_json

EPILOG = """\b
Examples:
  synth export corpus --format chat-jsonl --out samples.jsonl
  synth export corpus --format chat-jsonl --digits fixed3 --out paper.jsonl
  synth export corpus --format questions --out questions.jsonl

One sample per program, architecture and flag set, labelled with the metrics of the kernel with the largest total time.
fixed3 prints values as in the paper (0.459), sig3 keeps three significant digits.
`questions` asks what limits the kernel, how it uses memory, and where to begin, with answers from the label.
"""


@click.command(epilog=EPILOG)
@click.argument("corpus", type=NamedPath(readable=False, path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["chat-jsonl", "questions"]),
    default="chat-jsonl",
    show_default=True,
    help="Form of a sample.",
)
@click.option("--out", type=NamedPath(path_type=Path), required=True, help="File to write.")
@click.option(
    "--digits",
    type=click.Choice(["fixed3", "sig3"]),
    default="sig3",
    show_default=True,
    help="How values are written.",
)
@click.option("--backend", help="Use only labels of this backend.")
@click.option(
    "--device", type=TargetNameType(), help="Use labels of this device.  [default: the architecture's default]"
)
@click.option("--skip-damaged", is_flag=True, help="Leave damaged shards out instead of stopping.")
@json_option
def command(
    corpus: Path,
    form: str,
    out: Path,
    digits: str,
    backend: str | None,
    device: str | None,
    skip_damaged: bool,
    as_json: bool,
) -> None:
    """Write training samples: in the format of the paper's Figure 3, or questions and answers about bottlenecks."""
    from hipsynth.core.store import Corpus
    from hipsynth.training.data.documents import ChatExport, QuestionExport
    from hipsynth.training.data.questions import export_questions
    from hipsynth.training.data.samples import export_chat

    if form == "questions":
        refuse_options(["--digits"], "is for --format chat-jsonl", "drop it: answers in words have their own numbers")
    opened = Corpus.open(corpus, skip_damaged=skip_damaged)
    for note in opened.notes:
        click.echo(f"note: {note}", err=True)
    for line in opened.damaged:
        click.echo(f"left out: {line}", err=True)
    summary: ChatExport | QuestionExport
    if form == "questions":
        summary = export_questions(opened, out, backend=backend, device=device)
        line = f"{out}: {summary.samples} questions; {summary.duplicates} duplicates left out"
    else:
        summary = export_chat(opened, out, digits=digits, backend=backend, device=device)
        line = f"{out}: {summary.samples} samples ({form}, {digits}); the label is {summary.label}"
    if as_json:
        print_json(summary)
        return
    click.echo(line)
    for reason, count in summary.left_out.items():
        click.echo(f"  left out {count}: {reason}")
