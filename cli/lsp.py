"""`synth lsp`: the language server, on standard input and output."""

from __future__ import annotations

import sys

import click

from hipsynth.cli.options import json_option
from hipsynth.cli.output import print_json

EPILOG = """\b
Examples:
  synth lsp                         # an editor starts it: docs/how-to/editors.md
  synth lsp --json                  # only print its commands and initialization options

Exit codes: 0 ok, 4 pygls is not installed.
"""


@click.command(epilog=EPILOG)
@json_option
def command(as_json: bool) -> int:
    """Show predictions and profiles of HIP kernels in an editor.

    Speaks the Language Server Protocol on standard input and output. Nothing of a program runs
    unless the editor sets the initialization option "execute": then programs are executed when asked for, and
    predictions run their host code to learn the launches, both in the sandbox.
    """
    from hipsynth.serving.lsp import server
    from hipsynth.serving.lsp.session import EditorOffers, EditorOptions

    if as_json:
        commands = (server.PROFILE, server.COMPARE, server.OPTIMIZE, server.TARGETS)
        print_json(EditorOffers(commands, (server.PREDICTION,), EditorOptions()))
        return 0
    if sys.stdin.isatty():
        click.echo("waiting for an editor on standard input; Ctrl-C ends it", err=True)
    server.serve_client()
    return 0
