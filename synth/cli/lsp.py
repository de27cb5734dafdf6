"""`synth lsp`: the language server, on standard input and output."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth lsp                         # started by an editor: see docs/how-to/editors.md

Exit codes: 0 ok, 4 pygls is not installed.
"""


@click.command(epilog=EPILOG)
def command() -> int:
    """Show predictions and profiles of HIP kernels in an editor.

    Speaks the Language Server Protocol on standard input and output. Predictions run nothing of a program;
    programs are executed, in the sandbox, only if the editor sets the initialization option "execute".
    """
    from hipsynth.synth.core.errors import Missing

    try:
        from hipsynth.serving.lsp.server import serve
    except ImportError as error:
        raise Missing("the language server needs pygls", cause=str(error), remedy="run `make setup`") from error
    serve()
    return 0
